"""How fxdiff says that something is missing: what, why it matters, and the command that mends it."""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import TargetUnavailable


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that a target needs and this machine lacks."""

    what: str
    why: str
    mend: str

    def __str__(self) -> str:
        return f"{self.what}. {self.why} To mend it: {self.mend}"

    def unavailable(self) -> TargetUnavailable:
        """The same as an exception."""
        return TargetUnavailable(str(self))
