"""Drawn graphs with views, writes, random numbers and modes: split as for OneFlow, they compute what they computed whole.

No OneFlow here: each region runs its own graph in torch, on copies, as another process would.
"""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
import torch.fx
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from harness.compilers.oneflow.options import Options
from harness.compilers.oneflow.placing import place
from harness.compilers.oneflow.region import Region
from harness.compilers.oneflow.splitting import split

Graph = torch.fx.GraphModule
OURS = ("relu", "tanh", "add", "item")
LACKING = ("logcumsumexp",)
VIEWS = ("row", "transposed", "flat")
WRITES = ("add_", "mul_", "setitem", "iadd")
OTHERS = ("rand", "no_grad", "grad")


def elsewhere(self: Region, *values: Any) -> tuple[Any, ...]:
    """What a region does, in torch: on copies, with what it writes written back."""
    copies = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.clone(), values)
    results = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.clone(), self.graph_module[0](*copies))
    for name in self.writes:
        index = self.inputs.index(name)
        values[index].copy_(copies[index])
    return tuple(results)


def with_examples(graph: torch.fx.Graph, inputs: list[torch.Tensor]) -> Graph:
    """The graph with the example values that Dynamo would leave on its nodes."""
    module = Graph({}, graph)
    given_ = iter(inputs)
    with FakeTensorMode() as mode:

        class Examples(torch.fx.Interpreter):
            def run_node(self, node: torch.fx.Node) -> Any:
                value = mode.from_tensor(next(given_)) if node.op == "placeholder" else super().run_node(node)
                if node.op != "output":
                    node.meta["example_value"] = value
                return value

        Examples(module).run(*inputs)
    torch.set_grad_enabled(True)
    return module


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    graph = torch.fx.Graph()
    values = [(graph.placeholder(f"x{index}"), (2, 2)) for index in range(draw(st.integers(1, 2)))]
    count = len(values)
    for _ in range(draw(st.integers(3, 10))):
        kind = draw(st.sampled_from((*OURS, *LACKING * 4, *VIEWS, *WRITES * 2, *OTHERS)))
        node, shape = draw(st.sampled_from(values))
        if kind in ("relu", "tanh"):
            values.append((graph.call_function(getattr(torch, kind), (node,)), shape))
        elif kind == "logcumsumexp":
            values.append((graph.call_function(torch.logcumsumexp, (node, 0)), shape))
        elif kind == "rand":
            values.append((graph.call_function(torch.rand_like, (node,)), shape))
        elif kind == "add":
            other = draw(st.sampled_from([each for each, its in values if its == shape]))
            values.append((graph.call_function(torch.add, (node, other)), shape))
        elif kind == "item":
            parts = graph.call_function(torch.max, (node, 0)) if len(shape) == 2 else None
            if parts is not None:
                values.append((graph.call_function(operator.getitem, (parts, 0)), shape[1:]))
        elif kind == "row" and len(shape) == 2:
            values.append((graph.call_function(operator.getitem, (node, draw(st.integers(0, 1)))), shape[1:]))
        elif kind == "transposed" and len(shape) == 2:
            values.append((graph.call_method("t", (node,)), shape))
        elif kind == "flat":
            values.append((graph.call_method("reshape", (node, -1)), (4 if len(shape) == 2 else shape[0],)))
        elif kind in ("add_", "mul_"):
            values.append((graph.call_method(kind, (node, 2)), shape))
        elif kind == "iadd":
            values.append((graph.call_function(operator.iadd, (node, 1)), shape))
        elif kind == "setitem":
            graph.call_function(operator.setitem, (node, 0, 0.5))
        elif kind in ("no_grad", "grad"):
            graph.call_function(torch._C._set_grad_enabled, (kind == "grad",))
    outputs = draw(st.lists(st.sampled_from([node for node, _ in values[count:]] or [values[0][0]]), min_size=1, max_size=3, unique=True))
    graph.output(tuple(outputs))
    return with_examples(graph, [torch.ones(2, 2) for _ in range(count)])


def run(module: Graph) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    torch.manual_seed(0)
    inputs = [torch.arange(4.0).view(2, 2) - index - 1 for index, node in enumerate(module.graph.find_nodes(op="placeholder"))]
    outputs = list(module(*inputs))
    torch.set_grad_enabled(True)
    return inputs, outputs


def sharing(tensors: list[torch.Tensor]) -> list[list[bool]]:
    """Which of the tensors lie in one memory."""
    return [[a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() for a in tensors] for b in tensors]


@settings(max_examples=80, deadline=None)
@given(graphs())
def test_a_split_graph_computes_what_the_whole_one_does(module: Graph) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Region, "forward", elsewhere)
        inputs, outputs = run(split(module, Options()))
    its_inputs, its_outputs = run(module)
    for mine, its in zip((*inputs, *outputs), (*its_inputs, *its_outputs), strict=True):
        assert torch.equal(mine, its), module.code
        assert mine.stride() == its.stride()
    assert sharing([*inputs, *outputs]) == sharing([*its_inputs, *its_outputs])


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_no_stage_waits_for_a_later_one(module: Graph) -> None:
    placement = place(module.graph, {})
    nodes = [node for node in module.graph.nodes if node.op not in ("placeholder", "output")]
    assert list(placement.stages) == nodes
    for node, stage in placement.stages.items():
        assert (stage % 2 == 0) == (node in placement.refusals)
        assert all(placement.stages[other] <= stage for other in node.all_input_nodes if other in placement.stages)


def test_an_excluded_operator_stays_in_torch() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.relu, (x,))
    graph.output((graph.call_function(torch.tanh, (y,)),))
    module = with_examples(graph, [torch.ones(2)])
    placement = place(module.graph, {}, exclude=("relu",))
    assert {node.name: reason.kind for node, reason in placement.refusals.items()} == {"relu": "excluded"}
