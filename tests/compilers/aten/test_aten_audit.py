"""Every check of the aten path against a part that is wrong in just that way, and against what is right."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.fx
from torch.fx.experimental.proxy_tensor import make_fx

from harness.compilers.aten.audit import Subject, full, light
from harness.compilers.aten.backend import AtenBackend
from harness.compilers.aten.capability import Capability
from harness.compilers.aten.compiler import compile_graph
from harness.compilers.aten.engines.eager import EagerEngine
from harness.compilers.aten.engines.numpy_constants import NumpyConstantsEngine
from harness.compilers.aten.errors import EngineBuildError, EngineResultError, HygieneError, PartitionError
from harness.compilers.aten.hygiene import modes_on
from harness.compilers.aten.settings import DEFAULTS, AtenSettings
from harness.compilers.aten.twin import compile_module
from tests.compilers.aten.modules import MODULES, fresh, graph_of
from tests.doubles import aten as doubles

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def _nothing_left_on() -> Iterator[None]:
    yield
    assert modes_on() == ()


def subject(name: str) -> Subject:
    return Subject(lambda: graph_of(fresh(name)[0]), lambda: fresh(name)[1])


def of(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Subject:
    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return function(x)

    def inputs() -> tuple[torch.Tensor, ...]:
        torch.manual_seed(0)
        return tuple(torch.randn(shape) for shape in shapes or ((3, 4),))

    return Subject(lambda: graph_of(Module()), inputs)


def traced(function: Callable[..., Any], *inputs: torch.Tensor) -> torch.fx.GraphModule:
    return make_fx(torch.func.functionalize(function, remove="mutations"))(*inputs)


@pytest.mark.parametrize("engine", [EagerEngine, NumpyConstantsEngine, doubles.Opaque])
@pytest.mark.parametrize("name", MODULES)
def test_nothing_is_held_against_what_is_right(name: str, engine: Any) -> None:
    assert full(subject(name), DEFAULTS, engine=engine()) == []


# The partitioner.


def between(x: torch.Tensor) -> Any:
    """Two supported operators with one between them that is kept in torch."""
    a = torch.sigmoid(x)
    return torch.cos(a) + a


COS = AtenSettings(kept_in_torch=frozenset({"aten.cos"}))


def test_a_cycle_is_refused_and_named() -> None:
    with pytest.raises(PartitionError, match=r"^block_0: add: a cycle") as caught:
        compile_graph(traced(lambda x: (between(x),), torch.ones(2)), COS, split=doubles.MakesACycle())
    assert (caught.value.partition, caught.value.node) == ("block_0", "add")


def test_a_block_that_would_swallow_a_mutation_is_refused() -> None:
    with pytest.raises(PartitionError, match=r"^block_0: copy_: aten\.copy_\.default has an effect that the block would swallow"):
        compile_graph(traced(lambda x: (x.add_(1) * 2,), torch.ones(2)), DEFAULTS, split=doubles.TakesEverything())


def test_a_mutation_that_fusing_lost_is_named() -> None:
    with pytest.raises(PartitionError, match=r"^copy_: its effect was swallowed"):
        compile_graph(traced(lambda x: (x.add_(1) * 2,), torch.ones(2)), DEFAULTS, split=doubles.SwallowsMutation())


def test_a_write_that_comes_before_a_read_is_named() -> None:
    def function(x: torch.Tensor) -> Any:
        y, z = x * 2, torch.cos(x)
        x.copy_(y)
        return (z,)

    with pytest.raises(PartitionError, match=r"^copy_: what it writes to is read on the other side of it"):
        compile_graph(traced(function, torch.ones(2)), COS, split=doubles.WritesTooEarly())


def test_a_dropped_output_is_named() -> None:
    with pytest.raises(PartitionError, match="block_0: has 1 outputs, and 1 is asked for"):
        compile_graph(traced(lambda x: (torch.sin(x), torch.exp(x)), torch.ones(2)), DEFAULTS, split=doubles.DropsAnOutput())


def test_a_wrong_user_is_named() -> None:
    graph = traced(lambda x: (torch.cos(torch.sin(x)), torch.tan(torch.exp(x))), torch.ones(2))
    settings = AtenSettings(kept_in_torch=frozenset({"aten.cos", "aten.tan"}))
    with pytest.raises(PartitionError, match=r"^tan: computes what the given graph does not"):
        compile_graph(graph, settings, split=doubles.MixesUpUsers())


def test_an_output_that_is_another_value_is_told() -> None:
    graph = traced(lambda x: (torch.sin(x), torch.exp(x)), torch.ones(2))
    with pytest.raises(PartitionError, match="an output is another value than before"):
        compile_graph(graph, DEFAULTS, split=doubles.MixesUpUsers())


def test_an_operator_that_fusing_changed_is_named() -> None:
    with pytest.raises(PartitionError, match=r"^block_0: add: computes what the given graph does not"):
        compile_graph(traced(lambda x: (x + 1,), torch.ones(2)), DEFAULTS, split=doubles.ChangesAnOperator())


def test_what_a_partitioner_leaves_out_is_counted() -> None:
    found = full(of(between), DEFAULTS, split=doubles.LeavesOut())
    assert [str(defect) for defect in found] == ["fallback: cos: supported, and yet in no partition: cos"]


# The engine.


def test_a_wrong_engine_is_found_and_its_partition_and_node_named() -> None:
    found = full(of(lambda x: torch.cos(torch.sigmoid(x * 2))), DEFAULTS, engine=doubles.WrongEngine())
    guilty = next(defect for defect in found if defect.check == "equal to eager")
    assert (guilty.partition, guilty.node) == ("block_0", "sigmoid")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda results: [out.double() for out in results], "result 0 is torch.float64; tracing declared torch.float32"),
        (lambda results: [out[None] for out in results], r"result 0 is of shape \[1, 3, 4\]; tracing declared \[3, 4\]"),
        (lambda results: results[:-1], "returned 0 results where 1 are due"),
        (lambda results: results[0], "returned a Tensor where 1 tensors are due"),
        (lambda results: [3.0], "result 0 is a float"),
    ],
)
def test_results_that_are_not_what_was_declared_name_the_partition(change: Any, says: str) -> None:
    made = of(torch.sin)
    compiled = compile_module(made.make(), made.inputs(), AtenBackend(engine=doubles.PatchedEngine(change)))
    with pytest.raises(EngineResultError, match=f"^block_0: {says}"):
        compiled(*made.inputs())


def test_a_layout_that_is_not_the_declared_one_is_mended_and_counted() -> None:
    made = of(lambda x: x.t() * 2)
    backend = AtenBackend(engine=doubles.Opaque())
    output = compile_module(made.make(), made.inputs(), backend)(*made.inputs())
    assert output.stride() == (made.inputs()[0].t() * 2).stride()
    assert backend.reports[0].layouts_mended == 1


def test_a_build_that_fails_raises() -> None:
    made = of(torch.sin)
    with pytest.raises(EngineBuildError, match="block_0: engine cannot-build cannot be built: RuntimeError: no builder on purpose"):
        compile_module(made.make(), made.inputs(), AtenBackend(engine=doubles.CannotBuild()))


def test_a_build_that_fails_is_passed_through_where_that_was_asked_for_and_counted() -> None:
    made = of(torch.sin)
    backend = AtenBackend(AtenSettings(pass_through_build_failures=True), engine=doubles.CannotBuild())
    compiled = compile_module(made.make(), made.inputs(), backend)
    assert torch.equal(compiled(*made.inputs()), torch.sin(*made.inputs()))
    assert backend.reports[0].counts()["passed-through"] == 1
    assert light(made, backend, compiled) == []


def test_a_predicate_that_raises_is_named_and_counts_as_no() -> None:
    made = of(between)
    backend = AtenBackend(engine=doubles.RaisingPredicate())
    compiled = compile_module(made.make(), made.inputs(), backend)
    found = light(made, backend, compiled)
    assert {(defect.check, defect.node) for defect in found} == {("predicate", "sigmoid"), ("predicate", "cos"), ("predicate", "add")}
    assert all("IndexError: tuple index out of range" in defect.message for defect in found)


# The settings.


def test_a_setting_that_changes_results_is_named() -> None:
    found = full(of(lambda x: torch.cos(torch.sigmoid(x * 2))), DEFAULTS, engine=doubles.RoundsSmallBlocks())
    assert any(str(defect).startswith("settings: aten.sigmoid.default: keeping aten.sigmoid.default in torch changes") for defect in found)


# Hygiene.


def test_an_engine_that_keeps_a_fake_is_refused() -> None:
    made = of(torch.sin)
    with pytest.raises(HygieneError, match="block_0: engine keeps-a-fake: a fake tensor among what it keeps: <example>"):
        compile_module(made.make(), made.inputs(), AtenBackend(engine=doubles.KeepsAFake()))


def test_an_engine_that_leaves_a_mode_on_is_refused() -> None:
    made = of(torch.sin)
    with pytest.raises(HygieneError, match="block_0: engine leaves-a-mode-on: left FakeTensorMode on"):
        compile_module(made.make(), made.inputs(), AtenBackend(engine=doubles.LeavesAModeOn()))


def test_an_engine_that_returns_a_fake_is_told() -> None:
    made = of(torch.sin)
    compiled = compile_module(made.make(), made.inputs(), AtenBackend(engine=doubles.ReturnsAFake()))
    with pytest.raises(HygieneError, match="block_0: a fake tensor among its results, at 0"):
        compiled(*made.inputs())


# The predicate answers for any node whatever.


def odd_nodes() -> torch.fx.Graph:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    for target, args, kwargs in [
        (aten.sort.default, (x,), {}),  # the dim is left out, as torch.export writes it
        (aten.sort.default, (x, -1), {}),
        (aten.cumsum.default, (x, -3), {}),
        (aten.add.Tensor, (), {}),
        (aten.add.Tensor, (x,), {"other": None}),
        (aten.convolution.default, (x, None, None, [], [], [], False, [], 0), {}),
        (aten.split.Tensor, (x, 2), {}),
        (aten.sym_size.int, (x, 0), {}),
        (aten._local_scalar_dense.default, (x,), {}),
        (aten.rand.default, ([2],), {}),
        (aten.copy_.default, (x, x), {}),
        (len, (x,), {}),
        (torch.sin, (x,), {}),
        (getattr, (), {}),
    ]:
        graph.call_function(target, args, kwargs)
    graph.call_method("relu", (x,))
    graph.get_attr("nowhere")
    graph.call_function(operator.getitem, ())
    graph.call_function(operator.getitem, (3, 0))
    graph.output(None)
    return graph


@pytest.mark.parametrize("engine", [EagerEngine, NumpyConstantsEngine])
def test_the_predicate_answers_for_any_node(engine: Any) -> None:
    capability = Capability(DEFAULTS, engine())
    nodes = list(odd_nodes().nodes)
    answers = [capability.is_node_supported({}, node) for node in nodes]
    assert not capability.failures
    assert all(isinstance(answer, bool) for answer in answers)
    taken = {str(node.target) for node, answer in zip(nodes, answers, strict=True) if answer}
    assert taken == {"aten.sort.default", "aten.cumsum.default", "aten.add.Tensor", "aten.convolution.default", "aten.split.Tensor"}
