from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
import pytest

from generators.draw import draw_case
from generators.profile import derive, profile
from harness.minimize.edits import literal_case, plain_names
from harness.minimize.order import size_key
from harness.minimize.passes import PASSES
from harness.minimize.reduce import Reduction, reduce_case
from harness.model.case import Case
from harness.model.codec import to_json
from harness.model.dtypes import widen
from harness.model.fill import Literal
from harness.model.program import TensorSpec
from harness.model.symbols import Sym
from harness.model.values import Ref, Tensor
from tests.minimize.material import all_drawn, calls_operator, chain, drawn, holds, made_up_traces, values_of

Predicate = Callable[[Case], bool]


def reduced(case: Case, predicate: Predicate, *, max_executions: int = 3000, seconds: float = 60.0) -> Reduction:
    start = literal_case(case)
    assert predicate(start), "the predicate must hold to begin with"
    return reduce_case(start, made_up_traces(start), holds(predicate), max_executions=max_executions, seconds=seconds)


def first_tensor(case: Case) -> Tensor:
    return next(value for value in case.arguments(0).values() if isinstance(value, Tensor))


@pytest.mark.parametrize("proposes", PASSES, ids=lambda each: str(each.__name__))
def test_a_pass_proposes_valid_cases_only(proposes: object) -> None:
    """Whether a candidate is smaller is the reducer's to see; that it can be run is the pass's own promise."""
    assert callable(proposes)
    proposed = 0
    for index in range(12):
        for kind in ("default", "symbolic"):
            case = literal_case(drawn(index, kind))
            for candidate in proposes(case, made_up_traces(case)):
                if candidate is not None:
                    proposed += 1
                    candidate.validate()
                    size_key(candidate)
    assert proposed


def test_every_accepted_step_is_strictly_smaller() -> None:
    for case in all_drawn(6):
        start = literal_case(case)
        accepted = [size_key(start)]

        def interesting(candidate: Case, accepted: list[object] = accepted) -> object:
            accepted.append(size_key(candidate))
            return made_up_traces(candidate)

        reduce_case(start, made_up_traces(start), interesting, max_executions=60)  # type: ignore[arg-type]
        assert all(later < earlier for earlier, later in itertools.pairwise(accepted))
        assert len(accepted) > 1


def test_without_any_need_nothing_is_left() -> None:
    for case in all_drawn(6):
        found = reduced(case, lambda case: True)
        assert found.complete
        assert found.case.program.operators == ()
        assert len(found.case.calls) == 1 and found.case.symbols == ()


# Bugs as they occur, each planted as a property of the case alone: name, does it hold, what must be left of it.
PLANTED: dict[str, tuple[Case, Predicate, Callable[[Case], None]]] = {}


def planted(name: str, case: Case, predicate: Predicate) -> Callable[[Callable[[Case], None]], Callable[[Case], None]]:
    def keep(check: Callable[[Case], None]) -> Callable[[Case], None]:
        PLANTED[name] = (case, predicate, check)
        return check

    return keep


LONG = ("torch.neg", "torch.sin", "torch.abs", "torch.cos", "torch.exp")


@planted("one operator", chain(*LONG), calls_operator("torch.sin"))
def _one_operator(case: Case) -> None:
    assert [node.target for node in case.program.operators] == ["torch.sin"]
    tensor = first_tensor(case)
    assert (tensor.dtype, tensor.shape, tensor.array().tolist()) == ("float32", (1,), [0.0])


@planted("two operators, one between them", chain(*LONG), calls_operator("torch.sin", "torch.cos"))
def _two_operators(case: Case) -> None:
    assert [node.target for node in case.program.operators] == ["torch.sin", "torch.cos"]


@planted("a dtype", chain(*LONG, dtype="bfloat16"), lambda case: first_tensor(case).dtype in ("bfloat16", "float16"))
def _dtype(case: Case) -> None:
    assert case.program.operators == ()
    assert first_tensor(case).dtype == "float16"  # the simpler of the two


@planted("three dims", chain("torch.sin", shape=(4, 5, 6)), lambda case: len(first_tensor(case).shape) >= 3)
def _rank(case: Case) -> None:
    assert first_tensor(case).shape == (1, 1, 1)


@planted("a size above three", chain("torch.sin", shape=(2, 17)), lambda case: max(first_tensor(case).shape, default=0) > 3)
def _size(case: Case) -> None:
    assert first_tensor(case).shape == (4,)


@planted("an empty dim", chain("torch.sin", shape=(2, 0, 3)), lambda case: 0 in first_tensor(case).shape)
def _empty(case: Case) -> None:
    assert first_tensor(case).shape == (0,)


@planted(
    "NaN at the end",
    chain("torch.sin", shape=(2, 8), fill=Literal(np.array([*range(15), np.nan], np.float32).tobytes())),
    lambda case: bool(np.isnan(widen(first_tensor(case).array(), "float32")).any()) and first_tensor(case).dtype == "float32",
)
def _nan(case: Case) -> None:
    array = first_tensor(case).array()
    assert array.shape == (1,) and np.isnan(array).all()


@planted(
    "an element above 1.5",
    chain("torch.sin", shape=(4, 5)),
    lambda case: bool((widen(first_tensor(case).array(), first_tensor(case).dtype).real > 1.5).any()),
)
def _large(case: Case) -> None:
    tensor = first_tensor(case)
    assert tensor.shape == (1,) and tensor.array().tolist() == [2.0]


@planted(
    "a stride",
    chain("torch.sin", spec=TensorSpec("float32", (3, 4), order=(1, 0))),
    lambda case: any(isinstance(node.spec, TensorSpec) and not node.spec.is_contiguous for node in case.program.placeholders),
)
def _stride(case: Case) -> None:
    (node,) = case.program.placeholders
    assert isinstance(node.spec, TensorSpec) and not node.spec.is_contiguous
    assert node.spec.shape == (1, 1)


@planted(
    "two bindings",
    chain(*LONG, shape=(Sym("s0"), 3), sizes=(2, 5, 9)),
    lambda case: len({c.binding["s0"] for c in case.calls if "s0" in c.binding}) > 1,
)
def _bindings(case: Case) -> None:
    assert len(case.calls) == 2 and len(case.symbols) == 1
    assert case.program.operators == ()


@planted("a second call", chain(*LONG, shape=(Sym("s0"), 3), sizes=(2, 5, 9)), lambda case: len(case.calls) > 1)
def _calls(case: Case) -> None:
    assert len(case.calls) == 2 and case.symbols == ()  # the sizes need not differ, so they are numbers


def argument_case(*arguments: object, **keywords: object) -> Case:
    case = chain("torch.neg", "torch.roll", "torch.abs")
    nodes = tuple(
        dataclasses.replace(node, args=(*node.args, *arguments), kwargs=keywords) if node.target == "torch.roll" else node
        for node in case.program.nodes
    )
    return dataclasses.replace(case, program=dataclasses.replace(case.program, nodes=nodes))


def roll_arguments(case: Case) -> tuple[object, ...]:
    return next((node.args[1:] for node in case.program.operators if node.target == "torch.roll"), ())


@planted("a negative argument", argument_case(-7, 1), lambda case: any(isinstance(a, int) and a < 0 for a in roll_arguments(case)))
def _negative(case: Case) -> None:
    assert roll_arguments(case) == (-1,)


@planted("an argument from 5 on", argument_case(1, 1000), lambda case: any(isinstance(a, int) and a >= 5 for a in roll_arguments(case)))
def _from_five(case: Case) -> None:
    assert roll_arguments(case)[-1] == 5


@planted("a keyword", argument_case(3, dims=(1, 0), other=True), lambda case: any("dims" in node.kwargs for node in case.program.operators))
def _keyword(case: Case) -> None:
    (node,) = case.program.operators
    assert set(node.kwargs) == {"dims"}
    assert len(node.args) == 1 and isinstance(node.args[0], Ref)


@pytest.mark.parametrize("name", PLANTED)
def test_the_reducer_finds_the_bug_and_nothing_else(name: str) -> None:
    case, predicate, check = PLANTED[name]
    found = reduced(case, predicate)
    assert found.complete
    assert predicate(found.case)
    check(found.case)


@pytest.mark.parametrize("name", PLANTED)
def test_its_own_result_cannot_be_reduced(name: str) -> None:
    case, predicate, _ = PLANTED[name]
    once = reduced(case, predicate).case
    assert to_json(reduced(once, predicate).case) == to_json(once)


@pytest.mark.parametrize("name", PLANTED)
def test_a_reduction_that_was_cut_short_is_gone_on_with(name: str) -> None:
    case, predicate, _ = PLANTED[name]
    whole = reduced(case, predicate)
    current = case
    for _ in range(400):
        part = reduced(current, predicate, max_executions=7)
        progressed = size_key(part.case) < size_key(literal_case(current))
        current = part.case
        if part.complete or not progressed:
            break
    assert to_json(reduced(current, predicate).case) == to_json(whole.case)


def test_a_budget_of_nothing_changes_nothing() -> None:
    case = literal_case(chain(*LONG))
    for limits in ({"max_executions": 0}, {"seconds": -1.0}):
        found = reduce_case(case, made_up_traces(case), holds(lambda _: True), **limits)  # type: ignore[arg-type]
        assert (found.case, found.complete, found.executions) == (case, False, 0)


def test_different_starts_with_one_bug_end_in_one_case() -> None:
    narrowed = derive(profile("default"), ops=["sin", "cos", "neg", "exp"], max_nodes=4)
    predicate = calls_operator("torch.sin")
    ends: dict[bytes, int] = {}
    for index in range(60):
        case = draw_case(narrowed, 5, index)[0]
        if predicate(case):
            name = reduced(case, predicate).case
            renamed = to_json(renumbered(name))
            ends[renamed] = ends.get(renamed, 0) + 1
    assert sum(ends.values()) >= 5
    assert len(ends) == 1, [end.decode()[:400] for end in ends]


def renumbered(case: Case) -> Case:
    return dataclasses.replace(plain_names(case), lane="")


def test_reducing_costs_few_executions() -> None:
    counts = {name: reduced(case, predicate).executions for name, (case, predicate, _) in PLANTED.items()}
    assert max(counts.values()) <= 150, counts
    assert sum(counts.values()) / len(counts) <= 50, counts


def test_values_of_the_smallest_case_are_plain() -> None:
    found = reduced(chain("torch.sin", shape=(6,)), lambda case: first_tensor(case).array().size >= 4)
    assert values_of(found.case).array().tolist() == [0.0] * 4
