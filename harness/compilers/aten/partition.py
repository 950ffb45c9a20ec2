"""Grouping supported nodes into partitions: which nodes, then which graph. Both steps can be replaced, and both are checked."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Protocol

import torch
import torch.fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

from harness.compilers.aten.capability import Capability
from harness.compilers.aten.settings import AtenSettings

PREFIX = "block_"
Block = list[torch.fx.Node]


class Partitioner(Protocol):
    """Proposes blocks of nodes, and makes each a submodule."""

    def propose(self, module: torch.fx.GraphModule, capability: Capability) -> list[Block]:
        """Disjoint blocks of supported nodes, each in the order of the graph."""

    def fuse(self, module: torch.fx.GraphModule, blocks: Sequence[Block]) -> torch.fx.GraphModule:
        """`module` with each block replaced by a submodule `block_N` that returns a tuple; may change `module`."""


class _Fusing:
    def fuse(self, module: torch.fx.GraphModule, blocks: Sequence[Block]) -> torch.fx.GraphModule:
        """Let torch.fx make the submodules."""
        fused = fuse_by_partitions(module, [dict.fromkeys(block) for block in blocks], prefix=PREFIX, always_return_tuple=True)
        fused.recompile()
        return fused


class CapabilityPartitioner(_Fusing):
    """torch.fx's own: as few and as large blocks as can be without a cycle."""

    def propose(self, module: torch.fx.GraphModule, capability: Capability) -> list[Block]:
        """Its proposal, in the order of the graph."""
        proposed = CapabilityBasedPartitioner(module, capability, allows_single_node_partition=True).propose_partitions()
        order = {node: index for index, node in enumerate(module.graph.nodes)}
        blocks = [sorted(partition.nodes, key=order.__getitem__) for partition in proposed]
        return sorted(blocks, key=lambda block: order[block[0]])


class SequentialPartitioner(_Fusing):
    """Runs of supported nodes that stand next to one another: no cycle is possible, whatever the graph."""

    def propose(self, module: torch.fx.GraphModule, capability: Capability) -> list[Block]:
        """The runs."""
        blocks: list[Block] = []
        current: Block = []
        for node in module.graph.nodes:
            if capability.is_node_supported({}, node):
                current.append(node)
            elif current and node.op not in ("placeholder", "get_attr"):
                blocks.append(current)
                current = []
        return [*blocks, current] if current else blocks


def partitioner(name: str) -> Partitioner:
    """The partitioner of this name."""
    return SequentialPartitioner() if name == "sequential" else CapabilityPartitioner()


def large_enough(blocks: Sequence[Block], settings: AtenSettings) -> list[Block]:
    """Those of at least `min_block_size` operators; taking a tuple apart is none."""
    return [block for block in blocks if sum(node.target is not operator.getitem for node in block) >= max(1, settings.min_block_size)]
