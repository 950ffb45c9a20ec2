from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from harness.backends.oneflow.errors import OneFlowUnsupported
from harness.backends.oneflow.translate import FLOW_DTYPES
from harness.backends.oneflow.values import TensorMaker, dtype_name, from_flow
from harness.errors import HarnessError
from harness.model.case import Call, Case
from harness.model.dtypes import widen
from harness.model.fill import Fill, Literal
from harness.model.outcome import Status
from harness.model.program import Node, Program, TensorSpec
from harness.model.values import Ref, Tensor, leaves
from harness.workers.supervisor import Worker
from tests.backends.oneflow.running import job, needs_oneflow, reference, workers


@pytest.fixture(scope="module")
def worker() -> Worker:
    with workers() as pool:
        yield pool.worker("oneflow:eager")


def identity(specs: list[TensorSpec], fills: list[Fill | Literal], output: object) -> Case:
    placeholders = [Node(f"x{i}", "placeholder", f"x{i}", role="input", spec=spec) for i, spec in enumerate(specs)]
    data = {spec.storage or f"x{i}": fill for i, (spec, fill) in enumerate(zip(specs, fills, strict=True))}
    return Case(Program((*placeholders, Node("output", "output", "output", (output,)))), (Call(data=data),))


SHAPES = st.lists(st.integers(0, 3), max_size=4).map(tuple)


@st.composite
def specs(draw: st.DrawFn) -> TensorSpec:
    dtype = draw(st.sampled_from(sorted(FLOW_DTYPES)))
    shape = draw(SHAPES)
    order = tuple(draw(st.permutations(range(len(shape)))))
    expanded = tuple(draw(st.sets(st.sampled_from(range(len(shape)))))) if shape else ()
    return TensorSpec(dtype, shape, order, expanded, offset=draw(st.integers(0, 3)))


@needs_oneflow
@settings(max_examples=40, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(specs(), min_size=1, max_size=12))
def test_every_tensor_comes_back_bit_for_bit_in_any_layout(worker: Worker, drawn: list[TensorSpec]) -> None:
    fills: list[Fill | Literal] = [Fill("special/1", seed) for seed in range(len(drawn))]
    case = identity(drawn, fills, [Ref(f"x{i}") for i in range(len(drawn))])
    outcome = worker.run(job(case, "oneflow:eager", reference(case)))
    assert outcome.status is Status.OK, outcome.message
    for name, expected in case.arguments(0).items():
        actual = outcome.calls[0].output[int(name[1:])]
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        left, right = expected.array(), actual.array()
        if expected.dtype == "bfloat16":  # it goes through a cast of OneFlow's, which gives NaN a payload of its own
            left, right = (np.where(np.isnan(widen(a, "bfloat16")), np.uint16(0x7FC0), a) for a in (left, right))
        assert left.tobytes() == right.tobytes(), expected
    assert not outcome.calls[0].mutated


@needs_oneflow
def test_nested_outputs_keep_their_structure(worker: Worker) -> None:
    output = {"a": (Ref("x0"), [None, 3, True, 2.5]), "b": {"c": Ref("x0")}, "d": ()}
    case = identity([TensorSpec("float32", (2,))], [Fill("exact/1")], output)
    outcome = worker.run(job(case, "oneflow:eager", reference(case)))
    assert [path for path, _ in leaves(outcome.calls[0].output)] == [path for path, _ in leaves(output)]
    assert outcome.calls[0].output["a"][1] == [None, 3, True, 2.5]
    assert outcome.calls[0].output["d"] == ()


@needs_oneflow
def test_a_dtype_that_oneflow_lacks_is_refused_by_name(worker: Worker) -> None:
    case = identity([TensorSpec("int16", (2,))], [Fill("exact/1")], Ref("x0"))
    outcome = worker.run(job(case, "oneflow:eager", reference(case)))
    assert (outcome.status, outcome.node) == (Status.UNSUPPORTED, "x0")
    assert outcome.message == "dtype: OneFlow 0.9.0 has no dtype int16"


class FakeTensor:
    def __init__(self, dtype: str, array: object) -> None:
        self.dtype, self._array = dtype, array

    def numpy(self) -> object:
        return self._array


class FakeSize(tuple):
    __slots__ = ()


class FakeTensorTuple(list):
    pass


FLOW = SimpleNamespace(Tensor=FakeTensor, Size=FakeSize, _oneflow_internal=SimpleNamespace(TensorTuple=FakeTensorTuple))


def test_a_tensor_tuple_and_a_size_are_tuples() -> None:
    one = FakeTensor("oneflow.float32", np.ones(2, "f4"))
    tensor = Tensor("float32", (2,), Literal(np.ones(2, "f4").tobytes()))
    assert from_flow(FLOW, (FakeTensorTuple([one]), FakeSize((2, 3))), "n") == ((tensor,), (2, 3))
    assert from_flow(FLOW, [{"k": one}, None, "s"], "n") == [{"k": tensor}, None, "s"]


def test_bfloat16_comes_as_float32_and_leaves_as_its_bits() -> None:
    value = from_flow(FLOW, FakeTensor("oneflow.bfloat16", np.array([1.5], "f4")), "n")
    assert value == Tensor("bfloat16", (1,), Literal(np.array([0x3FC0], "<u2").tobytes()))


@pytest.mark.parametrize("value", [object(), {1, 2}, np.float32(1), 1j, range(3)])
def test_anything_else_is_named_with_its_place(value: object) -> None:
    with pytest.raises(HarnessError, match=rf"node\[1\]\['k'\]: OneFlow returned a .*{type(value).__qualname__}"):
        from_flow(FLOW, (None, {"k": value}), "node")


def test_an_unknown_dtype_of_oneflow_is_named() -> None:
    with pytest.raises(HarnessError, match=r"node\[0\]: OneFlow's dtype oneflow\.tensor_buffer has no counterpart"):
        from_flow(FLOW, (FakeTensor("oneflow.tensor_buffer", None),), "node")
    assert {dtype_name(f"oneflow.{flow}") for flow in FLOW_DTYPES.values()} == set(FLOW_DTYPES)


def test_bfloat16_cannot_share_a_storage() -> None:
    with pytest.raises(OneFlowUnsupported, match="bfloat16"):
        TensorMaker(FLOW).make(Tensor("bfloat16", (1,), Fill("exact/1"), storage="s"))
