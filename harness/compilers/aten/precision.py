"""The one setting that may change results: the float dtype that a partition computes in."""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from harness.compilers.aten.engines.protocol import Engine, Partition, Runnable

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
aten = torch.ops.aten


def in_precision(engine: Engine, partition: Partition, precision: str) -> Runnable:
    """The engine for the partition, its floats computed in `precision`; inputs are cast on entry, results cast back.

    An engine that was made for its settings computes in the precision by itself.
    """
    if precision == "given" or hasattr(engine, "for_settings"):
        return engine.build(partition)
    dtype: torch.dtype = getattr(torch, precision)
    inner = engine.build(Partition.of(partition.name, _cast(partition, dtype), partition.inputs, partition.outputs))
    return _Casting(inner)


class _Casting:
    """What `in_precision` returns: it only says in its name that results may differ."""

    def __init__(self, inner: Runnable) -> None:
        self.inner = inner

    def __call__(self, *inputs: Any) -> Any:
        return self.inner(*inputs)


def _cast(partition: Partition, dtype: torch.dtype) -> torch.fx.GraphModule:
    """The subgraph with float inputs and constants cast to `dtype`, float dtypes among arguments replaced, and results cast back."""
    graph = torch.fx.Graph()
    known: dict[torch.fx.Node, Any] = {}
    for node in partition.module.graph.nodes:
        if node.op == "output":
            (results,) = node.args
            back = [
                _back(graph, known[each], due.dtype if due is not None else None)
                for each, due in zip(results, partition.outputs, strict=True)
            ]
            graph.output(tuple(back))
            continue
        copied = graph.node_copy(node, known.__getitem__)
        given = node.meta.get("declared")
        if node.op in ("placeholder", "get_attr"):
            is_float = given is not None and given.dtype in _FLOATS
            known[node] = graph.call_function(aten._to_copy.default, (copied,), {"dtype": dtype}) if is_float else copied
            continue
        copied.args = torch.fx.node.map_aggregate(copied.args, lambda value: _other(value, dtype))
        copied.kwargs = torch.fx.node.map_aggregate(copied.kwargs, lambda value: _other(value, dtype))
        known[node] = copied
    return torch.fx.GraphModule(partition.module, graph)


def _other(value: Any, dtype: torch.dtype) -> Any:
    return dtype if isinstance(value, torch.dtype) and value in _FLOATS else value


def _back(graph: torch.fx.Graph, node: Any, dtype: torch.dtype | None) -> Any:
    return graph.call_function(aten._to_copy.default, (node,), {"dtype": dtype}) if dtype in _FLOATS else node
