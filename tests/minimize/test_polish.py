from __future__ import annotations

import time

import numpy as np
import pytest

from harness.minimize.polish import MAX_ELEMENTS, polish
from harness.minimize.reduce import reduce_case
from harness.model.case import Call, Case
from harness.model.fill import Literal
from harness.model.program import Node, Program, TensorSpec
from harness.model.values import Ref, Tensor
from tests.minimize.material import made_up_traces


def adding(*arrays: np.ndarray) -> Case:
    """The sum of some inputs."""
    dtypes = [str(array.dtype) for array in arrays]
    nodes = [Node(f"x{i}", "placeholder", f"x{i}", role="input", spec=TensorSpec(dtypes[i], array.shape)) for i, array in enumerate(arrays)]
    nodes.append(Node("add", "call_function", "torch.add", tuple(Ref(node.name) for node in nodes)))
    nodes.append(Node("output", "output", "output", (Ref("add"),)))
    data = {f"x{i}": Literal(array.tobytes()) for i, array in enumerate(arrays)}
    return Case(Program(tuple(nodes)), (Call(data=data),))


def elements(case: Case, name: str) -> list[float]:
    value = case.arguments(0)[name]
    assert isinstance(value, Tensor)
    return value.array().reshape(-1).tolist()


def test_zeros_are_counted_out_where_the_bug_does_not_mind() -> None:
    case = adding(np.zeros((2, 2), np.float32), np.ones(2, np.int64))
    asked: list[Case] = []

    def interesting(candidate: Case) -> object:
        asked.append(candidate)
        return made_up_traces(candidate)

    polished, _ = polish(case, made_up_traces(case), interesting)  # type: ignore[arg-type]
    assert elements(polished, "x0") == [1, 2, 3, 4]
    assert elements(polished, "x1") == [1, 2]
    assert len(asked) == 1
    assert polish(polished, (), interesting)[0] == polished  # type: ignore[arg-type]
    assert len(asked) == 1, "what is counted out is not run again"


def test_a_tensor_that_must_be_zero_stays_and_the_others_do_not() -> None:
    case = adding(np.zeros(3, np.float32), np.zeros(3, np.float32))

    def interesting(candidate: Case) -> object:
        return made_up_traces(candidate) if not any(elements(candidate, "x0")) else None

    polished, _ = polish(case, made_up_traces(case), interesting)  # type: ignore[arg-type]
    assert (elements(polished, "x0"), elements(polished, "x1")) == ([0, 0, 0], [1, 2, 3])


@pytest.mark.parametrize(
    "array",
    [
        np.array([np.nan, np.nan], np.float32),
        np.array([-0.0, -0.0], np.float32),
        np.array([np.inf], np.float64),
        np.array([1], np.int64),
        np.array([0, 2], np.int64),
        np.zeros(0, np.float32),
        np.zeros(MAX_ELEMENTS + 1, np.float32),
        np.array([True, True]),
    ],
)
def test_what_a_bug_may_need_or_nobody_reads_is_left_alone(array: np.ndarray) -> None:
    case = adding(array)
    polished, _ = polish(case, (), lambda candidate: pytest.fail("nothing is to be run"))
    assert polished == case


def test_nothing_is_run_after_the_deadline() -> None:
    case = adding(np.zeros(3, np.float32))
    assert polish(case, (), lambda candidate: pytest.fail("too late"), deadline=time.monotonic() - 1)[0] == case


def test_reduced_again_it_comes_out_the_same() -> None:
    case = adding(np.full((2, 3), 7.5, np.float32), np.arange(6, dtype=np.float32).reshape(2, 3))

    def interesting(candidate: Case) -> object:
        return made_up_traces(candidate) if len(candidate.program.placeholders) == 2 else None

    def minimized(given: Case) -> Case:
        reduction = reduce_case(given, made_up_traces(given), interesting)  # type: ignore[arg-type]
        return polish(reduction.case, reduction.traces, interesting)[0]  # type: ignore[arg-type]

    once = minimized(case)
    assert minimized(once) == once
    assert all(elements(once, node.name) != [0.0] for node in once.program.placeholders)
