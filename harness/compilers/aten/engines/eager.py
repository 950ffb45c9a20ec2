"""The engine that compiles nothing: PyTorch runs the partition. What differs from eager with it is the compiler's fault."""

from __future__ import annotations

import torch.fx

from harness.compilers.aten.engines.protocol import Partition, Runnable


class EagerEngine:
    """Takes every operator, and runs the subgraph as it is."""

    name = "eager"

    def supports(self, node: torch.fx.Node) -> bool:
        """Always."""
        return True

    def build(self, partition: Partition) -> Runnable:
        """The subgraph's own code."""
        return partition.module
