"""What the engine may set about workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.errors import UsageError


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Limits of a worker; seconds are wall-clock seconds, and 1 MB is 2**20 bytes.

    A stage without an entry in `stage_seconds` is bound by `case_seconds` alone. A worker is retired after
    `retire_after` cases, or once it sits idle on half of what `memory_mb` leaves it. `history` is how many of a process's
    jobs are kept for replay. `tick_seconds` is how often deadlines and memory are looked at.
    """

    case_seconds: float = 30.0
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    memory_mb: int = 3072
    retire_after: int = 200
    threads: int = 1
    warm_seconds: float = 180.0
    start_seconds: float = 60.0
    message_mb: int = 512
    history: int = 20
    tick_seconds: float = 0.1

    def __post_init__(self) -> None:
        """Raise UsageError for a limit that no worker could keep."""
        for name in ("case_seconds", "memory_mb", "retire_after", "threads", "warm_seconds", "start_seconds", "message_mb", "tick_seconds"):
            if getattr(self, name) <= 0:
                raise UsageError(f"worker setting {name} must be above 0, not {getattr(self, name)}")
        if self.history < 1:
            raise UsageError(f"worker setting history must be at least 1, not {self.history}")
        for stage, seconds in self.stage_seconds.items():
            if seconds <= 0:
                raise UsageError(f"the deadline of stage {stage!r} must be above 0, not {seconds}")
