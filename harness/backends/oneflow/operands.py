"""From the concrete arguments of a node to the arguments of a translation: tensors become named Operands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.backends.oneflow.translate.plan import Expr, Operand
from harness.errors import HarnessError
from harness.model.outcome import NodeTrace
from harness.model.program import Node
from harness.model.values import Ref, Tensor, Value, leaves


@dataclass(frozen=True, slots=True)
class Source:
    """Where an operand's tensor comes from: part of a node's result, and its value as the reference had it."""

    node: str
    path: tuple[Value, ...]
    tensor: Tensor


@dataclass(slots=True)
class Arguments:
    """A node's arguments for `translate`, and the source of each operand by name."""

    args: tuple[Expr, ...] = ()
    kwargs: Mapping[str, Expr] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)


def arguments(node: Node, args: tuple[Value, ...], kwargs: Mapping[str, Value]) -> Arguments:
    """The node's concrete `args` and `kwargs` with Operands for tensors, named after the nodes that the program reads.

    Raises HarnessError where the values do not match what the program reads.
    """
    result = Arguments()
    result.args = tuple(_walk(node, template, value, result.sources) for template, value in _pairs(node, node.args, args))
    if set(node.kwargs) != set(kwargs):
        raise HarnessError(f"node {node.name!r} was traced with other keyword arguments than it has")
    result.kwargs = {key: _walk(node, node.kwargs[key], value, result.sources) for key, value in kwargs.items()}
    return result


def state_operands(state: Mapping[str, Tensor], module: str) -> tuple[dict[str, Operand], dict[str, Source]]:
    """Operands and sources of the own tensors of the module of this attribute name."""
    operands, sources = {}, {}
    for name, tensor in state.items():
        operand = Operand(f"state_{_identifier(name)}", tensor.dtype, tensor.shape)
        operands[name] = operand
        sources[operand.name] = Source(f"module {module}", (name,), tensor)
    return operands, sources


def is_structural(node: Node, trace: NodeTrace) -> bool:
    """Whether the node only picks from a container or computes with Python numbers, which is Python's work."""
    if node.op != "call_function" or not node.target.startswith("operator."):
        return False
    if node.target == "operator.getitem":
        return not isinstance(trace.args[0], Tensor)
    return not any(isinstance(leaf, Tensor) for _, leaf in leaves(trace.args))


def _pairs(node: Node, templates: tuple[Value, ...], values: tuple[Value, ...]) -> list[tuple[Value, Value]]:
    if len(templates) != len(values):
        raise HarnessError(f"node {node.name!r} has {len(templates)} arguments and was traced with {len(values)}")
    return list(zip(templates, values, strict=True))


def _walk(node: Node, template: Value, value: Value, sources: dict[str, Source]) -> Expr:
    if isinstance(template, Ref):
        return _operand(template.node, (), value, sources)
    if isinstance(template, tuple | list) and isinstance(value, tuple | list):
        if len(template) != len(value):
            raise HarnessError(f"node {node.name!r} was traced with other arguments than it has")
        parts = [_walk(node, t, v, sources) for t, v in zip(template, value, strict=True)]
        return parts if isinstance(value, list) else tuple(parts)
    if isinstance(template, dict) and isinstance(value, dict):
        return {key: _walk(node, template[key], item, sources) for key, item in value.items()}
    if isinstance(template, slice) and isinstance(value, slice):
        bounds = ((template.start, value.start), (template.stop, value.stop), (template.step, value.step))
        return slice(*(_walk(node, t, v, sources) for t, v in bounds))
    if isinstance(value, Tensor):
        return _operand(f"literal{len(sources)}", (), value, sources)
    return value


def _operand(origin: str, path: tuple[Value, ...], value: Value, sources: dict[str, Source]) -> Expr:
    if isinstance(value, Tensor):
        name = "_".join([origin, *(_identifier(str(step)) for step in path)])
        sources[name] = Source(origin, path, value)
        return Operand(name, value.dtype, value.shape)
    if isinstance(value, tuple):
        return tuple(_operand(origin, (*path, i), item, sources) for i, item in enumerate(value))
    if isinstance(value, list):
        return [_operand(origin, (*path, i), item, sources) for i, item in enumerate(value)]
    if isinstance(value, dict):
        return {key: _operand(origin, (*path, key), item, sources) for key, item in value.items()}
    return value


def _identifier(text: str) -> str:
    return re.sub(r"\W+", "_", text)
