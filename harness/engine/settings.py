"""What a campaign is asked to do; defaults stand here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.backends.protocol import TargetSpec
from harness.engine.investigate import Effort
from harness.model.values import Value
from oracles import DEFAULT, Policy


@dataclass(frozen=True, slots=True)
class CampaignSettings:
    """One fuzzing campaign; durations in seconds of wall time, `time_budget` None means until stopped.

    The cases are `max_cases` from `first_index` on, less those in `skip`, which an earlier part of the run has settled.
    """

    seed: int
    targets: tuple[TargetSpec, ...]
    output: Path
    profile: str = "default"
    jobs: int = 1
    time_budget: float | None = None
    first_index: int = 0
    max_cases: int | None = None
    skip: frozenset[int] = frozenset()
    max_findings: int | None = None
    effort: Effort = field(default_factory=Effort)
    options: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    policy: Policy = DEFAULT
    command: str = ""
    recheck_every: int = 20  # one known hit in so many is minimized all the same, or one bug hides every later one
