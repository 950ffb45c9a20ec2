"""Exactness is measured, tolerance follows conditioning: just outside is caught, just inside is not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.model.case import Case
from harness.model.dtypes import narrow, widen
from harness.model.outcome import Outcome, Witness
from harness.model.values import Ref, Tensor
from harness.model.verdict import Kind
from oracles import Policy, judge
from oracles.exactness import is_exact
from oracles.history import History
from oracles.operands import Operands
from oracles.policy import DEFAULT
from oracles.spans import Span, epsilon, measure
from tests.oracles.build import Step, build, nudged, numbers, observed, one, tensor, with_spread

QUARTERS = np.array([[0.25, -1.5, 2.0, 8.0], [-8.0, 0.0, 1.75, 3.25]])
ORDINARY = np.array([[0.1, -1.7, 2.3, 7.9], [-8.1, 0.3, 1.9, 3.3]])


def flagged(case: Case, reference: Outcome, output: Any, policy: Policy = DEFAULT) -> list[Kind]:
    return [verdict.kind for verdict in judge(case, reference, observed(reference, output), policy=policy)]


def out(reference: Outcome) -> Tensor:
    value = reference.calls[0].output
    assert isinstance(value, Tensor)
    return value


def exact(case: Case, reference: Outcome) -> bool:
    trace = reference.witness[0].trace[0]
    return is_exact(Operands(case, case.program.operators[0], trace))


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=8))
def test_a_span_bounds_and_divides_all_numbers(values: list[float]) -> None:
    span = measure(np.array(values))
    finite = [value for value in values if math.isfinite(value)]
    assert span.peak == max((abs(value) for value in finite), default=0.0)
    for value in finite:
        assert value == 0 or math.ldexp(value, -max(span.grain, -900)).is_integer()
    assert span.peak == 0 or any(math.ldexp(value, -span.grain) % 2 == 1 for value in map(abs, finite))


def test_a_span_fits_a_dtype_to_the_bit() -> None:
    assert Span(2.0**24 - 1, 0).fits("float32") and not Span(2.0**24, 0).fits("float32")
    assert Span(255.0, 0).fits("bfloat16") and not Span(257.0, 0).fits("bfloat16")
    assert not Span(70000.0, 10).fits("float16") and not Span(2.0**-20, -30).fits("float16")
    assert Span(1e300, 0).fits("int64")


MATMUL = ("torch.matmul", lambda a, b: a @ b)
RULES: list[tuple[str, Any, tuple[Any, ...], Any]] = [
    ("torch.add", lambda a, b: a + b, (QUARTERS, QUARTERS), None),
    ("operator.sub", lambda a, b: a - b, (QUARTERS, QUARTERS), None),
    ("torch.mul", lambda a, b: a * b, (QUARTERS, QUARTERS), None),
    ("torch.add", lambda a, b: a + 2 * b, (QUARTERS, QUARTERS), {"alpha": 2}),
    ("torch.sum", lambda a: a.sum(), (QUARTERS,), None),
    ("torch.cumsum", lambda a, d: a.cumsum(d), (QUARTERS, 1), None),
    ("torch.mean", lambda a: a.mean(), (QUARTERS,), None),
    ("torch.matmul", lambda a, b: a @ b, (QUARTERS, QUARTERS.T), None),
    ("torch.nn.functional.linear", lambda a, w, b: a @ w.T + b, (QUARTERS, QUARTERS, np.array([0.5, 1.0])), None),
    ("torch.square", lambda a: a * a, (QUARTERS,), None),
    ("torch.div", lambda a, b: a / b, (QUARTERS, 4), None),
    ("aten.relu.default", lambda a: np.maximum(a, 0), (ORDINARY,), None),
    ("torch.abs", np.abs, (ORDINARY,), None),
    ("torch.sort", lambda a: np.sort(a), (ORDINARY,), None),
]


@pytest.mark.parametrize(("target", "compute", "args", "kwargs"), RULES, ids=[f"{i}-{rule[0]}" for i, rule in enumerate(RULES)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_what_is_exact_must_agree_to_the_bit(target: str, compute: Any, args: tuple[Any, ...], kwargs: Any, dtype: str) -> None:
    given = [tensor(arg, dtype) if isinstance(arg, np.ndarray) else arg for arg in args]
    case, reference = one(target, compute, *given, kwargs=kwargs, dtype=dtype)
    result = out(reference)
    at = tuple(0 for _ in result.shape)
    assert exact(case, reference)
    step = float(np.spacing(numbers(result)[at]))
    assert flagged(case, reference, nudged(result, at, step)) == [Kind.VALUE]
    assert flagged(case, reference, nudged(result, at, -step)) == [Kind.VALUE]


@pytest.mark.parametrize(
    ("target", "compute", "args"),
    [
        ("torch.sum", lambda a: a.sum(), (ORDINARY,)),
        ("torch.mean", lambda a: a.mean(), (QUARTERS[:, :3],)),
        ("torch.matmul", lambda a, b: a @ b, (ORDINARY, QUARTERS.T)),
        ("torch.div", lambda a, b: a / b, (QUARTERS, 3)),
        ("torch.add", lambda a, b: a + b, (QUARTERS, 2.0**30)),
        ("torch.exp", np.exp, (QUARTERS,)),
        ("torch.nobody_knows", np.cbrt, (QUARTERS,)),
    ],
)
def test_what_may_round_may_differ_by_an_ulp_and_not_by_much(target: str, compute: Any, args: tuple[Any, ...]) -> None:
    given = [tensor(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
    case, reference = one(target, compute, *given, dtype="float32")
    result = out(reference)
    at = tuple(np.unravel_index(int(np.abs(numbers(result)).argmax()), result.shape)) if result.shape else ()
    step = float(np.spacing(np.abs(numbers(result)[at])))
    assert not exact(case, reference)
    assert flagged(case, reference, nudged(result, at, step)) == []
    assert flagged(case, reference, nudged(result, at, 2e-3 * float(np.abs(numbers(result)).max()))) == [Kind.VALUE]


def test_exactness_is_measured_and_not_believed() -> None:
    """The lane says exact, the data is not; the lane says ordinary, the data is."""
    for values, lane, expected in ((ORDINARY, "exact", []), (QUARTERS, "ordinary", [Kind.VALUE])):
        steps = {"sum_0": Step("torch.sum", lambda a: a.sum(), (Ref("x0"),))}
        case, reference = build({"x0": tensor(values)}, steps, Ref("sum_0"), lane=lane)
        step = float(np.spacing(np.abs(numbers(out(reference)))))
        assert flagged(case, reference, nudged(out(reference), (), step)) == expected


small = st.integers(-32, 32).map(lambda k: k / 4)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(small, min_size=2, max_size=24),
    st.randoms(use_true_random=False),
    st.sampled_from(["float64", "float32", "float16", "bfloat16"]),
)
def test_no_order_of_evaluation_on_exact_data_is_ever_flagged(values: list[float], random: Any, dtype: str) -> None:
    """Sums in eager's order and in another, rounded to the dtype after every addition."""

    def total(array: Any) -> Any:
        sums = narrow(np.zeros(()), dtype)
        for value in np.ravel(array):
            sums = narrow(np.asarray(widen(sums, dtype), dtype=np.float64) + float(value), dtype)
        return np.asarray(widen(sums, dtype), dtype=np.float64)

    case, reference = one("torch.sum", lambda a: np.asarray(np.float64(a).sum()), tensor(values, dtype), dtype=dtype)
    shuffled = values[:]
    random.shuffle(shuffled)
    assert flagged(case, reference, tensor(total(shuffled), dtype)) == []


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40), st.sampled_from(["float64", "float32"]))
def test_no_order_of_evaluation_on_ordinary_data_is_ever_flagged(seed: int, size: int, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-8, 8, (3, size)), rng.uniform(-8, 8, (size, 2))
    case, reference = one("torch.matmul", lambda x, y: x @ y, tensor(a, dtype), tensor(b, dtype), dtype=dtype)
    given = reference.witness[0].trace[0].args
    x, y = (np.asarray(numbers(each)) for each in given)
    order = rng.permutation(size)
    sums = np.zeros((3, 2), dtype=x.dtype)
    for k in order:
        sums = (sums + x[:, k, None] * y[None, k, :]).astype(x.dtype)
    assert flagged(case, reference, tensor(sums, dtype)) == []


def chain(x: Any, *steps: tuple[str, Any, tuple[Any, ...]], wide: bool = False, dtype: str = "float32") -> tuple[Case, Outcome]:
    named = {}
    last = Ref("x0")
    for number, (target, compute, rest) in enumerate(steps):
        named[f"node_{number}"] = Step(target, compute, (last, *rest), dtype=dtype)
        last = Ref(f"node_{number}")
    return build({"x0": tensor(x, dtype)}, named, last, wide=wide)


EXP = ("torch.exp", np.exp, ())
FLOOR = ("torch.floor", np.floor, ())


def test_conditioning_widens_the_tolerance_where_it_was_measured() -> None:
    case, reference = chain(np.linspace(0.1, 1, 12), EXP, ("torch.sin", np.sin, ()))
    result = out(reference)
    eps = epsilon("float32")
    narrow_spread = with_spread(reference, tensor(np.full(12, eps), "float64"))
    wide_spread = with_spread(reference, tensor(np.full(12, 100 * eps), "float64"))
    by = 300 * eps
    assert flagged(case, narrow_spread, nudged(result, (3,), by)) == [Kind.VALUE]
    assert flagged(case, wide_spread, nudged(result, (3,), by)) == []
    assert flagged(case, wide_spread, nudged(result, (3,), 100 * by)) == [Kind.VALUE]
    hopeless = with_spread(reference, tensor(np.where(np.arange(12) == 3, 0.5, eps), "float64"))
    assert flagged(case, hopeless, nudged(result, (3,), 100.0)) == []
    assert flagged(case, hopeless, nudged(result, (4,), 100.0)) == [Kind.VALUE]
    unknown = with_spread(reference, tensor(np.full(12, np.inf), "float64"))
    assert flagged(case, unknown, nudged(result, (4,), 100.0)) == []


def test_cancellation_is_allowed_for_without_a_spread() -> None:
    case, reference = chain([0.1, 0.2], EXP, ("torch.add", lambda a, b: a + b, (4096.0,)), ("torch.sub", lambda a, b: a - b, (4096.0,)))
    result = out(reference)
    assert flagged(case, reference, nudged(result, (0,), 4096 * 2**-23)) == []
    assert flagged(case, reference, nudged(result, (0,), 0.25)) == [Kind.VALUE]


def test_where_the_twin_sides_with_the_target_eager_is_the_outlier() -> None:
    case, reference = chain([0.5, 1.0], EXP, wide=True)
    right = out(reference)
    wrong = nudged(right, (1,), 0.5)
    trace = reference.witness[0].trace[0]
    claim = Outcome(
        "eager", reference.status, "run", (type(reference.calls[0])(wrong),), witness=(Witness((trace,), reference.witness[0].twin),)
    )
    assert flagged(case, claim, right) == []
    assert flagged(case, claim, nudged(right, (1,), 0.25)) == []  # between the two
    assert flagged(case, claim, nudged(right, (1,), -0.25)) == [Kind.VALUE]
    assert flagged(case, reference, wrong) == [Kind.VALUE]


@pytest.mark.parametrize(
    ("target", "compute", "near", "far"),
    [
        ("torch.floor", np.floor, np.log(3.0), 1.2),
        ("torch.round", np.round, np.log(2.5), 1.2),
        ("torch.gt", lambda a: a > 3.0, np.log(3.0), 1.3),
        ("torch.sign", lambda a: np.sign(a - a.round()), 0.0, 0.5),
    ],
)
def test_a_step_after_rounding_proves_something_only_far_from_the_edge(target: str, compute: Any, near: float, far: float) -> None:
    for x, expected in ((near, []), (far, [Kind.VALUE])):
        rest = (3.0,) if target == "torch.gt" else ()
        second = (lambda a, b: a > b) if target == "torch.gt" else np.sign if target == "torch.sign" else compute
        first = ("torch.sin", np.sin, ()) if target == "torch.sign" else EXP
        case, reference = chain([x], first, (target, second, rest))
        result = out(reference)
        wrong = tensor(~result.array(), "bool") if result.dtype == "bool" else nudged(result, (0,), 1.0)
        assert flagged(case, reference, wrong) == expected


def test_a_step_on_exact_values_is_judged_to_the_bit() -> None:
    case, reference = chain([3.0, -0.5], FLOOR)
    assert flagged(case, reference, nudged(out(reference), (0,), -1.0)) == [Kind.VALUE]


def test_a_policy_may_replace_an_operators_tolerance() -> None:
    case, reference = chain([1.0, 2.0], EXP)
    result = out(reference)
    by = 200 * float(np.spacing(np.abs(numbers(result)[1])))
    assert flagged(case, reference, nudged(result, (1,), by)) == [Kind.VALUE]
    assert flagged(case, reference, nudged(result, (1,), by), Policy(tolerance={"exp": 1000.0})) == []
    assert flagged(case, reference, nudged(result, (1,), by / 100), Policy(tolerance={"exp": 0.25})) == [Kind.VALUE]


@pytest.mark.parametrize(
    ("dtype", "inside", "outside"), [("float16", 2, 60), ("bfloat16", 2, 60), ("float32", 8, 300), ("float64", 8, 300)]
)
def test_tolerance_is_in_units_of_the_dtype(dtype: str, inside: int, outside: int) -> None:
    case, reference = chain([0.5, 2.0, 1.0], EXP, dtype=dtype)
    result = out(reference)
    ulp = epsilon(dtype) * 4
    assert flagged(case, reference, nudged(result, (1,), inside * ulp)) == []
    assert flagged(case, reference, nudged(result, (1,), outside * ulp)) == [Kind.VALUE]


def test_a_coarse_dtype_on_the_way_is_remembered() -> None:
    steps = {
        "exp_0": Step("torch.exp", np.exp, (Ref("x0"),)),
        "to_1": Step("to", lambda a: a, (Ref("exp_0"),), dtype="float32", op="call_method"),
    }
    case, reference = build({"x0": tensor([1.0, 2.0], "bfloat16")}, steps, Ref("to_1"))
    assert flagged(case, reference, nudged(out(reference), (0,), 2**-6)) == []
    assert flagged(case, reference, nudged(out(reference), (0,), 2.0)) == [Kind.VALUE]


def test_random_and_uninitialized_values_prove_nothing_but_their_types_do() -> None:
    for target in ("torch.rand_like", "torch.empty_like", "torch.bernoulli"):
        case, reference = one(target, lambda a: a * 0.5, tensor(ORDINARY))
        assert flagged(case, reference, nudged(out(reference), (0, 0), 1.0)) == []
        assert flagged(case, reference, tensor(ORDINARY, "float64")) == [Kind.DTYPE]
    case, reference = one("torch.nn.functional.dropout", lambda a, p, t: a, tensor(ORDINARY), 0.5, False)
    assert flagged(case, reference, nudged(out(reference), (0, 0), 1.0)) == [Kind.VALUE]


def test_what_wrote_over_an_input_is_part_of_its_history() -> None:
    steps = {
        "exp_0": Step("exp_", np.exp, (Ref("x0"),), op="call_method"),
        "add_1": Step("torch.add", lambda a, b: a + b, (Ref("x0"), 1.0)),
    }
    case, reference = build({"x0": tensor([0.3, 0.5])}, steps, Ref("add_1"))
    history = History(case, 0, reference.witness[0], DEFAULT)
    assert not history.of_output("").exact
    assert flagged(case, reference, nudged(out(reference), (0,), float(np.spacing(np.float32(1.3))))) == []


def test_without_traces_rounding_is_assumed_and_moves_are_still_exact() -> None:
    case, reference = chain([0.1, 2.0], EXP)
    blind = Outcome("eager", reference.status, "run", reference.calls)
    assert flagged(case, blind, nudged(out(reference), (1,), 1.0)) == []
    case, reference = chain([0.1, 2.0], ("torch.flip", lambda a, d: a[::-1].copy(), ((0,),)))
    blind = Outcome("eager", reference.status, "run", reference.calls)
    assert flagged(case, blind, nudged(out(reference), (1,), 1e-7)) == [Kind.VALUE]


def test_a_convolution_with_a_window_may_round_and_one_without_is_a_matrix_product() -> None:
    def convolve(x: Any, w: Any) -> Any:
        width = x.shape[-1] - w.shape[-1] + 1
        return sum(x[..., k : k + width] * w[..., k] for k in range(w.shape[-1]))

    for weights, exact in (([[[-1.0, 1.0]]], False), ([[[2.0]]], True)):
        case, reference = one("torch.nn.functional.conv1d", convolve, tensor([[[1.0, 1.0, 2.0]]]), tensor(weights))
        value = numbers(reference.calls[0].output)
        assert bool(judge(case, reference, observed(reference, tensor(value + np.float32(3e-8) + value * np.float32(2e-7))))) is exact
        assert judge(case, reference, observed(reference, tensor(value + 0.25)))
