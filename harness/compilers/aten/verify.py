"""Whether a partitioned graph is still the graph that was given: checked on its structure, before anything runs.

Each value of a graph gets a number by what computes it: inputs by position, everything else by operator and arguments. Two
graphs are the same where their outputs have the same numbers, their effects happen in the same order, and whatever is
written to is read by the same operators beforehand.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
import torch.fx

from harness.compilers.aten.capability import Capability, is_view, operator_name, stays_pure
from harness.compilers.aten.errors import PartitionError
from harness.compilers.aten.partition import PREFIX, Block


def check_blocks(module: torch.fx.GraphModule, blocks: Sequence[Block], capability: Capability) -> None:
    """Raise PartitionError where a block holds what it may not, two share a node, or one both feeds and reads another."""
    owner: dict[torch.fx.Node, int] = {}
    for number, block in enumerate(blocks):
        name = f"{PREFIX}{number}"
        for node in block:
            if node.graph is not module.graph:
                raise PartitionError("is not a node of this graph", partition=name, node=node.name)
            if node in owner:
                raise PartitionError(f"stands in {PREFIX}{owner[node]} too", partition=name, node=node.name)
            if isinstance(node.target, torch._ops.OpOverload) and not stays_pure(node.target):
                raise PartitionError(
                    f"{operator_name(node.target)} has an effect that the block would swallow", partition=name, node=node.name
                )
            if not capability.is_node_supported({}, node):
                raise PartitionError(f"{operator_name(node.target)} is not supported", partition=name, node=node.name)
            owner[node] = number
    _check_acyclic(module, owner)


def _check_acyclic(module: torch.fx.GraphModule, owner: Mapping[torch.fx.Node, int]) -> None:
    """Kahn's algorithm over blocks and single nodes."""

    def group(node: torch.fx.Node) -> Hashable:
        return owner.get(node, node)

    reads: dict[Hashable, set[Hashable]] = {}
    for node in module.graph.nodes:
        reads.setdefault(group(node), set()).update(group(each) for each in node.all_input_nodes if group(each) != group(node))
    waiting = dict(reads)
    while waiting:
        ready = [key for key, inputs in waiting.items() if not inputs & waiting.keys()]
        if not ready:
            number = next(key for key in waiting if isinstance(key, int))
            node = next(node for node in module.graph.nodes if owner.get(node) == number and _from_outside(node, number, owner, waiting))
            raise PartitionError("a cycle: it waits for what waits for this block", partition=f"{PREFIX}{number}", node=node.name)
        for key in ready:
            del waiting[key]


def _from_outside(node: torch.fx.Node, number: int, owner: Mapping[torch.fx.Node, int], waiting: Mapping[Hashable, Any]) -> bool:
    return any(owner.get(each) != number and owner.get(each, each) in waiting for each in node.all_input_nodes)


@dataclass(slots=True)
class Numbering:
    """The numbers of computed values, shared by the graphs that are compared."""

    known: dict[Hashable, int] = field(default_factory=dict)

    def number(self, key: Hashable) -> int:
        """The number of what is computed so."""
        return self.known.setdefault(key, len(self.known))


@dataclass(frozen=True, slots=True)
class Shape:
    """What a graph computes: its outputs, its effects in order, who read what an effect writes, and each value's place."""

    outputs: Any
    effects: tuple[int, ...]
    read_before: tuple[tuple[int, frozenset[int]], ...]
    places: Mapping[int, tuple[str, str]]


def shape_of(module: torch.fx.GraphModule, numbering: Numbering) -> Shape:
    """What `module` computes, its `block_N` submodules looked into. Raises PartitionError for a block's output that is not there."""
    return _Reader(numbering).read(module)


def check_same(before: Shape, after: Shape) -> None:
    """Raise PartitionError that names the first value which only one of the graphs computes."""
    if after.outputs == before.outputs and after.effects == before.effects and after.read_before == before.read_before:
        return
    for number, (block, node) in after.places.items():
        if number not in before.places:
            raise PartitionError(
                "computes what the given graph does not: its operator or its arguments were changed", partition=block, node=node
            )
    if after.effects != before.effects:
        lost = next((number for number in before.effects if number not in after.effects), None)
        if lost is None:
            raise PartitionError("effects happen in another order")
        raise PartitionError("its effect was swallowed", node=before.places[lost][1])
    if after.outputs != before.outputs:
        for number, (_, node) in before.places.items():
            if number not in after.places:
                raise PartitionError("is no longer computed, though it reached an output", node=node)
        raise PartitionError("an output is another value than before")
    effect = next(a for a, b in zip(before.read_before, after.read_before, strict=True) if a != b)
    raise PartitionError("what it writes to is read on the other side of it than before", node=before.places[effect[0]][1])


class _Reader:
    def __init__(self, numbering: Numbering) -> None:
        self.numbering = numbering
        self.places: dict[int, tuple[str, str]] = {}
        self.effects: list[int] = []
        self.order: list[tuple[int, tuple[int, ...]]] = []
        self.read_before: list[tuple[int, frozenset[int]]] = []
        self.roots: dict[int, int] = {}

    def read(self, module: torch.fx.GraphModule) -> Shape:
        inputs = [self.numbering.number(("input", index)) for index, _ in enumerate(_placeholders(module.graph))]
        outputs = self.graph(module, inputs, "")
        return Shape(outputs, tuple(self.effects), tuple(self.read_before), self.places)

    def graph(self, module: torch.fx.GraphModule, inputs: Sequence[Any], block: str) -> Any:
        if len(inputs) != len(list(_placeholders(module.graph))):
            raise PartitionError(f"is given {len(inputs)} inputs", partition=block)
        values: dict[torch.fx.Node, Any] = dict(zip(_placeholders(module.graph), inputs, strict=True))
        for node in module.graph.nodes:
            if node.op == "placeholder":
                continue
            if node.op == "output":
                return torch.fx.map_arg(node.args[0], values.__getitem__)
            values[node] = self.node(module, node, values, block)
        return ()

    def node(self, module: torch.fx.GraphModule, node: torch.fx.Node, values: Mapping[torch.fx.Node, Any], block: str) -> Any:
        if node.op == "call_module" and str(node.target).startswith(PREFIX):
            inner = module.get_submodule(str(node.target))
            assert isinstance(inner, torch.fx.GraphModule)
            return self.graph(inner, [values[each] for each in node.args], str(node.target))  # type: ignore[index]
        if node.target is operator.getitem and isinstance(node.args[0], torch.fx.Node) and isinstance(values[node.args[0]], tuple):
            several, index = values[node.args[0]], node.args[1]
            if not isinstance(index, int) or not 0 <= index < len(several):
                raise PartitionError(f"has {len(several)} outputs, and {index} is asked for", partition=str(node.args[0].target))
            return several[index]
        if node.op == "get_attr":
            return self.numbering.number(("attribute", id(_attribute(module, str(node.target)))))
        return self.operator(node, values, block)

    def operator(self, node: torch.fx.Node, values: Mapping[torch.fx.Node, Any], block: str) -> int:
        args, kwargs = torch.fx.map_arg((node.args, dict(node.kwargs)), lambda each: cast(Any, _Number(values[each])))
        effect = isinstance(node.target, torch._ops.OpOverload) and not stays_pure(node.target)
        key = (node.op, str(node.target), repr(args), repr(kwargs), len(self.effects) if effect else None)
        number = self.numbering.number(key)
        self.places.setdefault(number, (block, node.name))
        read = tuple(self.roots.get(values[each], values[each]) for each in node.all_input_nodes if isinstance(values[each], int))
        if is_view(node) and read:
            self.roots[number] = read[0]
        if effect:
            self.effects.append(number)
            written = read[0] if read else -1
            self.read_before.append((number, frozenset(each for each, reads in self.order if written in reads)))
        self.order.append((number, read))
        return number


class _Number:
    """A value's number among other arguments, so that it is not mistaken for an int."""

    def __init__(self, number: Any) -> None:
        self.number = number

    def __repr__(self) -> str:
        return f"%{self.number}"


def _placeholders(graph: torch.fx.Graph) -> Iterator[torch.fx.Node]:
    return (node for node in graph.nodes if node.op == "placeholder")


def _attribute(module: torch.nn.Module, path: str) -> Any:
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part)
    return value
