"""Which arguments a node writes to, as far as a signature tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from harness.compilers.oneflow.support import program_node
from harness.errors import CaptureError
from harness.model.opnames import canonical, is_in_place
from harness.model.program import Program

_STATISTICS = {"batch_norm": (1, 2, 5), "instance_norm": (1, 2, 5)}
_NAMES = ("running_mean", "running_var")
_TRAINING = {"batch_norm": ("training", False), "instance_norm": ("use_input_stats", True)}


def written(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The nodes whose memory this one writes to; every input of one that is not understood."""
    if node.op not in ("call_function", "call_method", "call_module"):
        return []
    if isinstance(node.target, torch._ops.OpOverload):
        return _by_schema(node, node.target)
    found = _nodes([node.kwargs["out"]]) if node.kwargs.get("out") is not None else []
    try:
        known = program_node(node)
    except CaptureError:
        return list(node.all_input_nodes)
    name = canonical(known, Program(()))
    if is_in_place(name):
        return found + _nodes([node.args[0] if node.args else node.kwargs.get("input")])
    if known.target in ("torch.nn.functional.batch_norm", "torch.nn.functional.instance_norm"):
        mean, variance, training = _STATISTICS[name]
        key, default = _TRAINING[name]
        if _argument(node, training, key, default) is not False:
            return found + _nodes([_argument(node, mean, _NAMES[0]), _argument(node, variance, _NAMES[1])])
    elif name in ("embedding", "embedding_bag") and node.op == "call_function" and _argument(node, 3, "max_norm") is not None:
        return found + list(node.all_input_nodes)
    elif "batch_norm" in name or "instance_norm" in name:
        return list(node.all_input_nodes)
    return found


def _by_schema(node: torch.fx.Node, op: torch._ops.OpOverload) -> list[torch.fx.Node]:
    found = []
    for index, argument in enumerate(op._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found.append(_argument(node, index, argument.name))
    return _nodes(found)


def _argument(node: torch.fx.Node, index: int, name: str, default: Any = None) -> Any:
    return node.args[index] if index < len(node.args) else node.kwargs.get(name, default)


def _nodes(values: Sequence[Any]) -> list[torch.fx.Node]:
    found: list[torch.fx.Node] = []
    for value in values:
        torch.fx.map_arg(value, found.append)
    return found
