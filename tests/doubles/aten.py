"""The aten path with one part made wrong on purpose: partitioners, engines, and an engine that settings make wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensorMode

from harness.compilers.aten.capability import Capability, writes
from harness.compilers.aten.engines.eager import EagerEngine
from harness.compilers.aten.engines.protocol import Partition, Runnable
from harness.compilers.aten.partition import Block, CapabilityPartitioner

aten = torch.ops.aten


class MakesACycle(CapabilityPartitioner):
    """Puts everything that is supported into one block, whatever stands between."""

    def propose(self, module: torch.fx.GraphModule, capability: Capability) -> list[Block]:
        return [[node for node in module.graph.nodes if capability.is_node_supported({}, node)]]


class TakesEverything(CapabilityPartitioner):
    """Puts what writes into the block too, where nobody reads its result: it is swallowed."""

    def propose(self, module: torch.fx.GraphModule, capability: Capability) -> list[Block]:
        return [[node for node in module.graph.nodes if node.op == "call_function"]]


class SwallowsMutation(CapabilityPartitioner):
    """Loses what writes while it fuses, since nobody reads its result."""

    def fuse(self, module: torch.fx.GraphModule, blocks: Sequence[Block]) -> torch.fx.GraphModule:
        fused = super().fuse(module, blocks)
        for node in [node for node in fused.graph.nodes if node.op == "call_function" and writes(node)]:
            node.replace_all_uses_with(node.args[0])
            fused.graph.erase_node(node)
        return fused


class WritesTooEarly(CapabilityPartitioner):
    """Moves what reads an old value behind what overwrites it."""

    def fuse(self, module: torch.fx.GraphModule, blocks: Sequence[Block]) -> torch.fx.GraphModule:
        fused = super().fuse(module, blocks)
        (node,) = [node for node in fused.graph.nodes if node.op == "call_function" and writes(node)]
        for reader in [user for user in node.all_input_nodes[0].users if user.target is aten.cos.default]:
            node.append(reader)
        return fused


class DropsAnOutput(CapabilityPartitioner):
    """Forgets the last output of every block that has several."""

    def fuse(self, module: torch.fx.GraphModule, blocks: Sequence[Block]) -> torch.fx.GraphModule:
        fused = super().fuse(module, blocks)
        for inner in fused.children():
            assert isinstance(inner, torch.fx.GraphModule)
            output = inner.graph.output_node()
            (results,) = output.args
            assert isinstance(results, tuple)
            if len(results) > 1:
                output.args = (results[:-1],)
        return fused


class MixesUpUsers(CapabilityPartitioner):
    """Hands the first output of a block to whoever wants the second."""

    def fuse(self, module: torch.fx.GraphModule, blocks: Sequence[Block]) -> torch.fx.GraphModule:
        fused = super().fuse(module, blocks)
        for node in fused.graph.nodes:
            if len(node.args) == 2 and node.args[1] == 1 and isinstance(node.args[0], torch.fx.Node) and node.args[0].op == "call_module":
                node.args = (node.args[0], 0)
        return fused


class ChangesAnOperator(CapabilityPartitioner):
    """Fuses add into sub."""

    def fuse(self, module: torch.fx.GraphModule, blocks: Sequence[Block]) -> torch.fx.GraphModule:
        fused = super().fuse(module, blocks)
        for inner in fused.children():
            assert isinstance(inner, torch.fx.GraphModule)
            for node in inner.graph.nodes:
                if node.target is aten.add.Tensor:
                    node.target = aten.sub.Tensor
        return fused


class LeavesOut(CapabilityPartitioner):
    """Leaves every second node that is supported to torch, and says nothing."""

    def propose(self, module: torch.fx.GraphModule, capability: Capability) -> list[Block]:
        return [[node] for node in module.graph.nodes if capability.is_node_supported({}, node)][::2]


class WrongEngine(EagerEngine):
    """Takes tanh for sigmoid."""

    name = "wrong"

    def build(self, partition: Partition) -> Runnable:
        for node in partition.module.graph.nodes:
            if node.target is aten.sigmoid.default:
                node.target = aten.tanh.default
        partition.module.recompile()
        return partition.module


class PatchedEngine(EagerEngine):
    """Runs the partition, and lets `change` have its results."""

    name = "patched"

    def __init__(self, change: Callable[[Sequence[torch.Tensor]], Any]) -> None:
        self.change = change

    def build(self, partition: Partition) -> Runnable:
        module, change = partition.module, self.change
        return lambda *inputs: change(module(*inputs))


class RoundsSmallBlocks(EagerEngine):
    """Computes a block of one operator in bfloat16: the block size, which may change nothing, changes results."""

    name = "rounds-small-blocks"

    def build(self, partition: Partition) -> Runnable:
        module = partition.module
        if len(partition.nodes) > 1:
            return module
        return lambda *inputs: [out.bfloat16().to(out.dtype) if out.dtype.is_floating_point else out for out in module(*inputs)]


class KeepsAFake(EagerEngine):
    """Keeps an example input that it made for itself."""

    name = "keeps-a-fake"

    def build(self, partition: Partition) -> Runnable:
        module, example = partition.module, FakeTensorMode().from_tensor(torch.ones(2))

        def run(*inputs: Any) -> Any:
            return module(*inputs) if example is not None else ()

        return run


class ReturnsAFake(EagerEngine):
    """Returns tensors without data."""

    name = "returns-a-fake"

    def build(self, partition: Partition) -> Runnable:
        module = partition.module
        return lambda *inputs: [torch.empty_like(out, device="meta") for out in module(*inputs)]


class LeavesAModeOn(EagerEngine):
    """Turns a fake mode on and forgets it."""

    name = "leaves-a-mode-on"

    def build(self, partition: Partition) -> Runnable:
        FakeTensorMode().__enter__()
        return partition.module


class RaisingPredicate(EagerEngine):
    """Reads an argument that need not be there."""

    name = "raising-predicate"

    def supports(self, node: torch.fx.Node) -> bool:
        return node.args[2] is not None


class CannotBuild(EagerEngine):
    """Never builds."""

    name = "cannot-build"

    def build(self, partition: Partition) -> Runnable:
        raise RuntimeError("no builder on purpose")


class Opaque(EagerEngine):
    """Right, and contiguous whatever was declared; knows of no gradient and shares no memory."""

    name = "opaque"

    def build(self, partition: Partition) -> Runnable:
        module = partition.module
        return lambda *inputs: [out.detach().clone(memory_format=torch.contiguous_format) for out in module(*inputs)]
