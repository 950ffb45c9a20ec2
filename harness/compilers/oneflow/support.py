"""Which nodes OneFlow takes, as far as can be said before it is asked: a node's translation, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from harness.backends.oneflow.errors import OneFlowUnsupported
from harness.backends.oneflow.translate import translate
from harness.capture.graph import function_target
from harness.compilers.oneflow.values import example, is_number, operand, tensors
from harness.errors import CaptureError
from harness.model.opnames import canonical, canonical_target
from harness.model.program import Node, Program
from harness.model.values import Ref, Value
from harness.torch_bridge.tensors import from_torch

# Kinds of refusal that are no lack of OneFlow's: these nodes are Python's or torch's own work.
BY_DESIGN = ("number", "random", "mode", "memory", "view", "excluded")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node runs in torch: a kind of BY_DESIGN or of OneFlowUnsupported, and the reason in words."""

    kind: str
    reason: str

    @property
    def by_design(self) -> bool:
        """Whether OneFlow lacks nothing here."""
        return self.kind in BY_DESIGN


def program_node(node: torch.fx.Node) -> Node:
    """The node as a Program holds it; raises CaptureError for a target or a constant that it cannot hold."""
    if node.op not in ("call_function", "call_method"):
        raise CaptureError(f"a node of opcode {node.op}")
    op, target = node.op, str(node.target)
    if node.op == "call_function":
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            raise CaptureError(f"{node.target} calls another graph")
        assert callable(node.target)
        op, target = function_target(node.target)
    args = tuple(_map(arg, lambda other: Ref(other.name)) for arg in node.args)
    return Node(node.name, op, target, args, {key: _map(arg, lambda other: Ref(other.name)) for key, arg in node.kwargs.items()})


def refusal(node: torch.fx.Node, exclude: Collection[str] = ()) -> Refusal | None:
    """Why OneFlow cannot take a node, from its arguments' examples; None where it may be able to.

    `exclude` holds canonical names of operators that it is not to be given.
    """
    value = example(node)
    inputs = [each for other in node.all_input_nodes for each in tensors(example(other))]
    if not inputs and not any(True for _ in tensors(value)):
        return Refusal("number", "computes with numbers")
    try:
        translated = program_node(node)
    except CaptureError as error:
        return Refusal("number" if is_number(value) else "untranslated", str(error))
    if exclude and canonical(translated, Program(())) in exclude:
        return Refusal("excluded", "is kept in torch by an option")
    if is_random(translated):
        return Refusal("random", "draws from torch's generator, so that seeds mean what they mean in eager")
    if picks(node):
        return None
    try:
        args = tuple(_map(arg, lambda other: operand(other.name, example(other))) for arg in node.args)
        kwargs = {key: _map(arg, lambda other: operand(other.name, example(other))) for key, arg in node.kwargs.items()}
        translate(translated, args, kwargs)
    except OneFlowUnsupported as error:
        kind = "number" if is_number(value) else error.kind
        return Refusal(kind, str(error).partition(": ")[2])
    except CaptureError as error:
        return Refusal("dtype", str(error))
    return None


def picks(node: torch.fx.Node) -> bool:
    """Whether a node only takes an item out of a container."""
    if node.op != "call_function" or getattr(node.target, "__name__", "") != "getitem" or not isinstance(node.args[0], torch.fx.Node):
        return False
    return isinstance(example(node.args[0]), tuple | list | dict)


def is_random(node: Node) -> bool:
    """Whether a node draws random numbers."""
    name = canonical_target(node.op, node.target)
    if "dropout" in name:
        named = dict(node.kwargs)
        training = named.get("training", node.args[2] if len(node.args) > 2 else True)
        return training is not False
    packet = getattr(torch.ops.aten, name, None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return False
    overloads: list[str] = packet.overloads()  # type: ignore[no-untyped-call]
    return any(torch.Tag.nondeterministic_seeded in getattr(packet, overload).tags for overload in overloads)


def _map(value: Any, node: Callable[[torch.fx.Node], Value]) -> Value:
    """An argument of an fx node as a Value, `node` saying what stands for another node."""
    if isinstance(value, torch.fx.Node):
        return node(value)
    if isinstance(value, tuple) and not isinstance(value, torch.Size):
        return tuple([_map(item, node) for item in value])
    if isinstance(value, list):
        return [_map(item, node) for item in value]
    if isinstance(value, dict):
        return {key: _map(item, node) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(_map(part, node) for part in (value.start, value.stop, value.step)))
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        raise CaptureError(f"the size {value} stands in the graph without a node that computes it")
    return from_torch(value)
