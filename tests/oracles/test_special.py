"""NaN, infinities, overflow, signed zero, casts that do not fit, ties: told apart from ordinary values, each by a switch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.model.case import Case
from harness.model.outcome import Outcome
from harness.model.values import Ref, Tensor
from harness.model.verdict import Kind, Severity
from oracles import Policy, judge
from oracles.policy import DEFAULT
from tests.oracles.build import Step, build, nudged, observed, one, tensor

NAN, INF = float("nan"), float("inf")


def verdicts(case: Case, reference: Outcome, output: Any, policy: Policy = DEFAULT) -> list[tuple[Kind, Any]]:
    found = judge(case, reference, observed(reference, output), policy=policy)
    for verdict in found:
        assert (verdict.kind is Kind.SPECIAL) == (verdict.severity is Severity.SPECIAL_VALUE)
    return [(verdict.kind, verdict.detail.get("special")) for verdict in found]


def relu(values: list[float], dtype: str = "float32") -> tuple[Case, Outcome]:
    return one("torch.relu", lambda a: np.where(a < 0, 0, a), tensor(values, dtype))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("values", "answer", "special"),
    [
        ([NAN, 1.0], [0.0, 1.0], "nan"),
        ([INF, 1.0], [NAN, 1.0], "nan"),
        ([INF, 1.0], [5.0, 1.0], "inf"),
        ([INF, 1.0], [-INF, 1.0], "inf"),
        ([NAN, 1.0], [NAN, 2.0], "nan"),
        ([INF, 1.0], [INF, 2.0], "inf"),
    ],
)
def test_special_values_have_a_kind_and_a_switch(values: list[float], answer: list[float], special: str, dtype: str) -> None:
    case, reference = relu(values, dtype)
    assert verdicts(case, reference, tensor(answer, dtype)) == [(Kind.SPECIAL, special)]
    assert verdicts(case, reference, tensor(answer, dtype), Policy(nan=False, inf=False)) == []
    assert verdicts(case, reference, reference.calls[0].output) == []


def test_a_nan_invented_on_ordinary_inputs_is_a_wrong_value() -> None:
    case, reference = relu([1.0, 2.0])
    assert verdicts(case, reference, tensor([NAN, 2.0])) == [(Kind.VALUE, None)]
    assert verdicts(case, reference, tensor([INF, 2.0])) == [(Kind.VALUE, None)]


def test_a_tolerance_is_told_of_two_numbers_only() -> None:
    case, reference = one("torch.exp", np.exp, tensor([NAN, 1.0]))
    (message,) = (verdict.message for verdict in judge(case, reference, observed(reference, tensor([-0.0, np.e]))))
    assert "eager nan" in message
    assert "allowed" not in message
    (message,) = (verdict.message for verdict in judge(case, reference, observed(reference, tensor([NAN, 3.0]))))
    assert "(allowed " in message


def test_any_nan_is_as_good_as_another() -> None:
    case, reference = relu([NAN, 1.0])
    payload = np.array([0xFFC00001, 0x3F800000], dtype=np.uint32).view(np.float32)
    assert verdicts(case, reference, tensor(payload)) == []


def test_signed_zero_is_judged_only_when_asked() -> None:
    case, reference = relu([0.0, 1.0])
    flipped = tensor([-0.0, 1.0])
    assert verdicts(case, reference, flipped) == []
    assert verdicts(case, reference, flipped, Policy(signed_zero=True)) == [(Kind.SPECIAL, "signed-zero")]
    both = tensor([-0.0, 2.0])
    assert verdicts(case, reference, both, Policy(signed_zero=True)) == [(Kind.VALUE, None)]


@pytest.mark.parametrize(("dtype", "huge"), [("float16", 60000.0), ("float32", 3.0e38), ("bfloat16", 3.0e38)])
def test_the_edge_of_the_range_is_overflow(dtype: str, huge: float) -> None:
    case, reference = one("torch.mul", lambda a: np.asarray(a * 1.0), tensor([huge, 1.0], dtype))
    assert verdicts(case, reference, tensor([INF, 1.0], dtype)) == [(Kind.SPECIAL, "overflow")]
    assert verdicts(case, reference, tensor([INF, 1.0], dtype), Policy(overflow=False)) == []
    case, reference = one("torch.mul", lambda a: np.asarray([INF, 1.0]), tensor([huge, 1.0], dtype))
    assert verdicts(case, reference, tensor([huge, 1.0], dtype)) == [(Kind.SPECIAL, "overflow")]


def test_a_cast_that_does_not_fit_is_undefined() -> None:
    case, reference = one("to", lambda a: a.astype(np.int64), tensor([1e30, 2.0]), op="call_method", dtype="int64")
    wrong = tensor([7, 2], "int64")
    assert verdicts(case, reference, wrong) == []
    assert verdicts(case, reference, wrong, Policy(out_of_range=True)) == [(Kind.SPECIAL, "out-of-range")]
    case, reference = one("to", lambda a: a.astype(np.int64), tensor([1e6, 2.0]), op="call_method", dtype="int64")
    assert verdicts(case, reference, tensor([7, 2], "int64")) == [(Kind.VALUE, None)]


def test_a_shift_past_the_width_is_undefined() -> None:
    for amount, expected in ((70, []), (3, [(Kind.VALUE, None)])):
        case, reference = one("operator.lshift", lambda a, b: a << min(b, 63), tensor([1, 2], "int64"), amount)
        assert verdicts(case, reference, tensor([0, 1], "int64")) == expected


TIED = [[3.0, 1.0, 3.0], [2.0, 2.0, 0.0]]


@pytest.mark.parametrize("target", ["torch.argmax", "torch.argmin", "torch.argsort"])
def test_an_index_may_name_any_of_equal_elements(target: str) -> None:
    function = {"torch.argmax": np.argmax, "torch.argmin": np.argmin, "torch.argsort": lambda a, d: np.argsort(a, d, kind="stable")}[target]
    case, reference = one(target, function, tensor(TIED), 1, dtype="int64")
    right = {"torch.argmax": [2, 1], "torch.argmin": [1, 2], "torch.argsort": [[1, 2, 0], [2, 1, 0]]}[target]
    wrong = {"torch.argmax": [1, 1], "torch.argmin": [1, 1], "torch.argsort": [[1, 0, 0], [2, 0, 1]]}[target]
    outside = {"torch.argmax": [2, 7], "torch.argmin": [-2, 2], "torch.argsort": [[1, 2, 9], [2, 1, 0]]}[target]
    assert verdicts(case, reference, tensor(right, "int64")) == []
    assert verdicts(case, reference, tensor(wrong, "int64")) == [(Kind.VALUE, None)]
    assert verdicts(case, reference, tensor(outside, "int64")) == [(Kind.VALUE, None)]


def test_the_indices_of_a_pair_may_be_others_and_its_values_may_not() -> None:
    steps = {
        "topk_0": Step("torch.topk", lambda a, k: (np.array([[3.0, 3.0], [2.0, 2.0]]), np.array([[0, 2], [0, 1]])), (Ref("x0"), 2)),
        "getitem_1": Step("operator.getitem", lambda p, i: p[i], (Ref("topk_0"), 0), dtype="float32"),
        "getitem_2": Step("operator.getitem", lambda p, i: p[i], (Ref("topk_0"), 1), dtype="int64"),
    }
    case, reference = build({"x0": tensor(TIED)}, steps, (Ref("getitem_1"), Ref("getitem_2"), Ref("topk_0")))
    values, indices, pair = reference.calls[0].output
    other = tensor([[2, 0], [1, 0]], "int64")
    assert verdicts(case, reference, (values, other, pair)) == []
    assert verdicts(case, reference, (values, indices, (pair[0], other))) == []
    assert verdicts(case, reference, (values, tensor([[2, 2], [1, 0]], "int64"), pair)) == [(Kind.VALUE, None)]
    assert verdicts(case, reference, (values, tensor([[2, 1], [1, 0]], "int64"), pair)) == [(Kind.VALUE, None)]
    assert verdicts(case, reference, (nudged(values, (0, 0), 1.0), indices, pair)) == [(Kind.VALUE, None)]


def test_what_depends_on_a_tied_index_is_judged_only_when_asked() -> None:
    for values, tied in ((TIED, True), ([[3.0, 1.0, 2.0], [2.0, 1.0, 0.0]], False)):
        steps = {
            "argmax_0": Step("torch.argmax", np.argmax, (Ref("x0"), 1), dtype="int64"),
            "add_1": Step("torch.add", lambda a, b: a + b, (Ref("argmax_0"), 1), dtype="int64"),
        }
        case, reference = build({"x0": tensor(values)}, steps, Ref("add_1"))
        wrong = nudged(reference.calls[0].output, (0,), 1)
        assert verdicts(case, reference, wrong) == ([] if tied else [(Kind.VALUE, None)])
        assert verdicts(case, reference, wrong, Policy(ties=True)) == ([(Kind.SPECIAL, "ties")] if tied else [(Kind.VALUE, None)])


def test_a_stable_sort_promises_its_indices() -> None:
    for kwargs, expected in ({"stable": True, "dim": 1}, [(Kind.VALUE, None)]), ({"dim": 1}, []):
        case, reference = one("torch.argsort", lambda a: np.argsort(a, 1, kind="stable"), tensor(TIED), kwargs=kwargs, dtype="int64")
        assert verdicts(case, reference, tensor([[1, 2, 0], [2, 1, 0]], "int64")) == expected


@pytest.mark.parametrize(("index", "expected"), [([0, 0, 1], []), ([0, 2, 1], [(Kind.VALUE, None)]), ([0, -3, 1], [])])
def test_one_place_written_twice_is_undefined(index: list[int], expected: list[Any]) -> None:
    def put(a: Any, i: Any, v: Any) -> Any:
        result = a.copy()
        result[i[0]] = v
        return result

    x, i, v = tensor([0.0, 0.0, 0.0]), tensor(index, "int64"), tensor([1.0, 2.0, 3.0])
    case, reference = build(
        {"x0": x, "i": i, "v": v}, {"put_0": Step("torch.index_put", put, (Ref("x0"), (Ref("i"),), Ref("v")))}, Ref("put_0")
    )
    got = reference.calls[0].output
    assert isinstance(got, Tensor)
    assert verdicts(case, reference, nudged(got, (0,), 1.0)) == expected


def test_complex_numbers_are_compared_by_parts() -> None:
    case, reference = one("torch.conj", np.conj, tensor([1 + 2j, 3 - 1j], "complex64"), dtype="complex64")
    found = judge(case, reference, observed(reference, tensor([1 - 2j, 3 + 2j], "complex64")))
    assert [(v.kind, v.detail["index"], v.detail["differing"], v.detail["total"]) for v in found] == [(Kind.VALUE, (1,), 1, 2)]
    assert verdicts(case, reference, tensor([1 - 2j, 3 + 1j], "complex64")) == []


@pytest.mark.parametrize("poison", [NAN, INF])
def test_attention_over_what_is_not_finite_is_determined_by_nobody(poison: float) -> None:
    def attend(query: Any, key: Any) -> Any:
        return np.where(np.isfinite(key), query, NAN)

    target = "torch.nn.functional.scaled_dot_product_attention"
    case, reference = one(target, attend, tensor([1.0, 2.0]), tensor([poison, 1.0]))
    assert verdicts(case, reference, tensor([5.0, NAN])) == []
    case, reference = one(target, attend, tensor([1.0, 2.0]), tensor([0.0, 1.0]))
    assert [kind for kind, _ in verdicts(case, reference, tensor([500.0, 2.0]))] == [Kind.VALUE]
