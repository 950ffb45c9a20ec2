"""Every error that fxdiff raises on purpose.

FxdiffError
├── UsageError            what the user asked for cannot be done as asked          (exit code 2)
│   ├── UnknownName       a target, operator, profile or key that does not exist; offers the nearest
│   └── FormatError       a file that is not what it should be: broken, foreign, hostile, of a later format
├── CaptureError          a module that cannot become a Program; says which part and why
├── Rejected              eager PyTorch itself refuses the case
├── Unsupported           the system under test says that it does not do this
├── TargetUnavailable     a target whose libraries or interpreter are missing     (exit code 4)
├── WorkerError           the machinery around a worker failed, not the target
└── HarnessError          a fault of fxdiff itself                                 (exit code 3)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class FxdiffError(Exception):
    """Base of all errors that fxdiff raises on purpose; its text is written for the user."""


class UsageError(FxdiffError):
    """The request cannot be carried out as it was made."""


class UnknownName(UsageError):
    """A name that does not exist, with the nearest ones that do."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        choices = sorted(known)
        near = difflib.get_close_matches(name, choices, n=3, cutoff=0.5)
        if near:
            hint = f"did you mean {', '.join(near)}?"
        elif choices and len(choices) <= 12:
            hint = f"known: {', '.join(choices)}"
        else:
            hint = f"{len(choices)} are known"
        super().__init__(f"unknown {kind} {name!r}: {hint}")
        self.kind = kind
        self.name = name
        self.near = tuple(near)


class FormatError(UsageError):
    """A stored file that cannot be read, with the place in it."""

    def __init__(self, message: str, *, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where


class CaptureError(FxdiffError):
    """A module that cannot be expressed as a Program."""


class Rejected(FxdiffError):
    """Eager PyTorch refuses the case, so no target can be judged by it."""


class Unsupported(FxdiffError):
    """The system under test says that it does not do this; never a finding."""


class TargetUnavailable(FxdiffError):
    """A target that cannot run on this machine; the text says what is missing."""


class WorkerError(FxdiffError):
    """The machinery around a worker failed."""


class HarnessError(FxdiffError):
    """A fault of fxdiff itself."""
