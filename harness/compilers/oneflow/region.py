"""A part of a graph that runs in OneFlow: one trip there for the forward pass, one for the backward pass."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx

from harness.backends.oneflow.service.messages import decode, encode, flat
from harness.compilers.oneflow.errors import CompiledError, NodeFailed, NodeRefused, WorkerDied
from harness.compilers.oneflow.options import Options
from harness.compilers.oneflow.support import Refusal, program_node
from harness.compilers.oneflow.tensors import in_memory_order, pack, unpack
from harness.compilers.oneflow.values import example, memory_order, tensors
from harness.compilers.oneflow.worker import WORKERS, Worker, said
from harness.compilers.oneflow.writes import written
from harness.model.codec import to_wire
from harness.model.program import Node, Program, TensorSpec
from harness.model.values import Ref

_NUMBERS = itertools.count()


class Region(torch.nn.Module):
    """Calls OneFlow with the region's inputs; `graph` is the same as an fx graph, for what OneFlow turns out to refuse."""

    def __init__(self, graph: torch.fx.GraphModule, options: Options) -> None:
        super().__init__()
        self.graph_module = (graph,)  # in a tuple, so that it is no submodule
        self.options = options
        self.refused: dict[str, Refusal] = {}
        nodes = list(graph.graph.nodes)
        results = nodes[-1].all_input_nodes
        self.inputs = [node.name for node in nodes if node.op == "placeholder"]
        self.outputs = [node.name for node in results]
        owners = {node: node.name for node in nodes if node.op == "placeholder"}
        self.writes = list(dict.fromkeys(owners[other] for node in nodes for other in written(node) if other in owners))
        self.declared = [_declared(example(node)) for node in results]
        self.program = to_wire(_program(nodes))
        self.number = next(_NUMBERS)
        self.rehearsed: set[tuple[bool, ...]] = set()
        self._split: torch.fx.GraphModule | None = None
        weakref.finalize(self, _drop_program, self.number)

    def forward(self, *values: Any) -> Any:
        """The region's outputs as a tuple.

        What OneFlow refuses runs in torch from then on, unless `partial` is off, which raises NotInOneFlow. Raises
        NodeFailed, WorkerDied and CannotPass with the node's name.
        """
        if self._split is None:
            try:
                return self._trip(values)
            except NodeRefused as stop:
                self.refused[stop.node] = Refusal(*_kind(str(stop)))
                self.resplit()
        assert self._split is not None
        return self._split(*values)

    def resplit(self) -> None:
        """Split the region around what OneFlow has refused; raises NotInOneFlow where nothing may run in torch."""
        from harness.compilers.oneflow.splitting import split  # it makes regions

        self._split = split(self.graph_module[0], self.options, self.refused)

    def nodes(self) -> list[str]:
        """The names of the nodes that the region runs."""
        return [node.name for node in self.graph_module[0].graph.nodes if node.op not in ("placeholder", "output")]

    def inner(self) -> torch.fx.GraphModule | None:
        """What the region became after OneFlow refused a part of it."""
        return self._split

    def _trip(self, values: Sequence[Any]) -> tuple[Any, ...]:
        leaves = [leaf for leaf in flat(list(values)) if isinstance(leaf, torch.Tensor)]
        needs = tuple(torch.is_grad_enabled() and leaf.requires_grad for leaf in leaves)
        trip = _Trip(self, values, needs)
        results = _Function.apply(trip, *leaves) if any(needs) else trip.forward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for name, new in trip.written.items():
                values[self.inputs.index(name)].copy_(new)
        return trip.outputs(results)

    def named(self, error: CompiledError) -> CompiledError:
        """The error with the place in the user's code that its node comes from."""
        node = next((node for node in self.graph_module[0].graph.nodes if node.name == error.node), None)
        if node is not None:
            target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", node.target)
            error.add(f"\n    {error.node} is {target}{_place(node)}")
        return error


@dataclass(frozen=True, slots=True)
class _Declared:
    """What Dynamo says of a tensor that comes back: dtype, and dims in memory where they do not lie as they are written."""

    dtype: torch.dtype
    order: tuple[int, ...] | None


def _declared(value: Any) -> list[_Declared]:
    return [_Declared(tensor.dtype, memory_order(tensor)) for tensor in tensors(value)]


@dataclass
class _Trip:
    """One call: what is sent, what came back, and what a backward pass needs to know."""

    region: Region
    values: Sequence[Any]
    needs: tuple[bool, ...]
    written: dict[str, torch.Tensor] = field(default_factory=dict)
    plain: list[Any] = field(default_factory=list)
    differentiable: tuple[bool, ...] = ()
    worker: Worker | None = None
    number: int | None = None

    def forward(self) -> tuple[torch.Tensor, ...]:
        """Call OneFlow; the tensors of the outputs, in order."""
        region = self.region
        with WORKERS.lock:
            worker = WORKERS.current()
            if region.number not in worker.loaded:
                worker.ask({"op": "program", "number": region.number, "program": region.program}, region.options.deadline)
                worker.loaded.add(region.number)
            self.number = next(_NUMBERS) if any(self.needs) else None
            worker.incoming.begin()
            message = {
                "op": "call",
                "number": region.number,
                "values": [
                    encode(value, f"input {name!r}", lambda item, where: pack(item, where, worker.incoming), _normal)
                    for name, value in zip(region.inputs, self.values, strict=True)
                ],
                "needs grad": self.needs,
                "writes": region.writes,
                "names": region.outputs,
                "keep": self.number,
                "rehearse": self.number is not None and self.needs not in region.rehearsed,
            }
            try:
                answer = worker.ask(message, region.options.deadline)
            except NodeRefused:
                raise
            except CompiledError as error:
                raise region.named(error) from None
            if self.number is not None:
                region.rehearsed.add(self.needs)
            self.worker = worker
            self.differentiable = tuple(answer["differentiable"])
            self.written = {name: decode(item, lambda packed: unpack(packed, worker.outgoing)) for name, item in answer["written"].items()}
            self.plain = [decode(item, lambda packed: unpack(packed, worker.outgoing)) for item in answer["outputs"]]
        return tuple(
            [
                tensor
                for name, value, declared in zip(region.outputs, self.plain, region.declared, strict=True)
                for tensor in self._as_declared(name, value, declared)
            ]
        )

    def _as_declared(self, name: str, value: Any, declared: Sequence[_Declared]) -> list[torch.Tensor]:
        """The tensors of one output, in the dtype and memory order that Dynamo goes on with.

        Raises NodeFailed where OneFlow returned another structure.
        """
        leaves = [leaf for leaf in flat(value) if isinstance(leaf, torch.Tensor)]
        if len(leaves) != len(declared):
            kind = type(value).__name__
            text = f"node {name!r}: OneFlow returned a {kind} with {len(leaves)} tensors where torch has {len(declared)}"
            raise self.region.named(NodeFailed(text, name))
        return [in_memory_order(leaf.to(each.dtype), each.order) for leaf, each in zip(leaves, declared, strict=True)]

    def outputs(self, results: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        """The outputs with these tensors in their places."""
        rest = iter(results)
        found = tuple([_filled(value, rest) for value in self.plain])
        # The autograd graph keeps this object, and would keep itself through the outputs.
        self.values, self.plain, self.written = (), [], {}
        return found

    def backward(self, grads: Sequence[torch.Tensor | None]) -> tuple[torch.Tensor | None, ...]:
        """The gradients of the inputs' tensors, computed by OneFlow's autograd from what the forward pass left there."""
        region, worker = self.region, self.worker
        assert worker is not None
        with WORKERS.lock:
            if not worker.lives():
                raise WorkerDied("OneFlow's process died after it had run this forward pass, and its gradients died with it; run it again")
            worker.incoming.begin()
            message = {
                "op": "backward",
                "call": self.number,
                "grads": [encode(g, f"gradient {i}", lambda item, where: pack(item, where, worker.incoming)) for i, g in enumerate(grads)],
            }
            try:
                answer = worker.ask(message, region.options.deadline)
            except NodeRefused as stop:
                region.refused[stop.node] = Refusal(*_kind(str(stop)))
                region.resplit()
                text = f"OneFlow refuses {said(stop.node, True)}, which from now on runs in torch: {stop}"
                raise region.named(NodeFailed(text, stop.node)) from None
            except CompiledError as error:
                raise region.named(error) from None
            return tuple(decode(item, lambda packed: unpack(packed, worker.outgoing)) for item in answer["grads"])

    def __del__(self) -> None:
        if self.worker is not None and self.number is not None and any(self.differentiable):
            self.worker.drop_call(self.number)


class _Function(torch.autograd.Function):
    """Joins OneFlow's autograd to torch's."""

    @staticmethod
    def forward(ctx: Any, trip: _Trip, *leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = trip.forward()
        ctx.trip = trip
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*[tensor for tensor, has in zip(results, trip.differentiable, strict=True) if not has])
        return results

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        return (None, *ctx.trip.backward(grads))


def _filled(value: Any, rest: Iterator[torch.Tensor]) -> Any:
    """`value` with the next of `rest` in the place of each tensor."""
    if isinstance(value, tuple):
        return tuple([_filled(item, rest) for item in value])
    if isinstance(value, list):
        return [_filled(item, rest) for item in value]
    if isinstance(value, dict):
        return {key: _filled(item, rest) for key, item in value.items()}
    return next(rest) if isinstance(value, torch.Tensor) else value


def _program(nodes: Sequence[torch.fx.Node]) -> Program:
    converted = []
    for node in nodes:
        if node.op == "placeholder":
            # Sizes and containers come as values too; what OneFlow is handed at each call says what it is.
            converted.append(Node(node.name, "placeholder", node.name, role="input", spec=TensorSpec("float32", ())))
        elif node.op == "output":
            converted.append(Node(node.name, "output", "output", (tuple(Ref(other.name) for other in node.all_input_nodes),)))
        else:
            converted.append(program_node(node))
    return Program(tuple(converted))


def _place(node: torch.fx.Node) -> str:
    """Where in the user's code a node comes from, after a line break; empty where Dynamo does not say."""
    lines = [line.strip() for line in str(node.meta.get("stack_trace") or "").splitlines()]
    frames = [index for index, line in enumerate(lines) if line.startswith('File "')]
    if not frames:
        return ""
    return f"\n    at {' '.join(lines[frames[-1] : frames[-1] + 2])}"


def _normal(value: Any) -> Any:
    return tuple(value) if isinstance(value, torch.Size) else value


def _kind(message: str) -> tuple[str, str]:
    kind, separator, reason = message.partition(": ")
    return (kind, " ".join(reason.split())) if separator else ("refused", message)


def _drop_program(number: int) -> None:
    worker = WORKERS.peek()
    if worker is not None:
        worker.drop_program(number)
