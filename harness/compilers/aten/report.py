"""What one compilation did, for people and for checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.compilers.aten.capability import PredicateFailure


@dataclass(frozen=True, slots=True)
class BlockReport:
    """One partition: its nodes by name with their operators, and whether torch runs it because the build failed."""

    name: str
    nodes: Mapping[str, str]
    failure: str = ""


@dataclass(slots=True)
class Report:
    """One graph's compilation: `stage` is inference, forward or backward; `kept` counts what stayed in torch by operator."""

    stage: str
    blocks: list[BlockReport] = field(default_factory=list)
    kept: Mapping[str, int] = field(default_factory=dict)
    lowered: Mapping[str, int] = field(default_factory=dict)
    predicate_failures: tuple[PredicateFailure, ...] = ()
    layouts_mended: int = 0
    unused: tuple[str, ...] = ()  # nodes that the engine takes, large enough a block, and yet in none

    @property
    def passed_through(self) -> int:
        """How many partitions torch runs because their engine could not be built."""
        return sum(bool(block.failure) for block in self.blocks)

    def counts(self) -> dict[str, int]:
        """The report in numbers, for an Outcome."""
        return {
            "graphs": 1,
            "partitions": len(self.blocks),
            "nodes-in-partitions": sum(len(block.nodes) for block in self.blocks),
            "nodes-kept-in-torch": sum(self.kept.values()),
            "passed-through": self.passed_through,
            "predicate-failures": len(self.predicate_failures),
            "layouts-mended": self.layouts_mended,
        }
