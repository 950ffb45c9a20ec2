"""What a user may say in `torch.compile(..., backend="oneflow", options={...})`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import UnknownName, UsageError


@dataclass(frozen=True, slots=True)
class Options:
    """`partial`: whether operators that OneFlow lacks may run in torch. `deadline`: seconds that one trip to OneFlow may take.

    `exclude`: canonical names of operators (`conv2d`, `add_`) that run in torch though OneFlow does them, say wrongly.
    """

    partial: bool = True
    deadline: float = 300.0
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise UsageError for a value that cannot be meant."""
        if not isinstance(self.partial, bool):
            raise UsageError(f"option partial of backend oneflow is a bool, not {self.partial!r}")
        if isinstance(self.deadline, bool) or not isinstance(self.deadline, int | float) or not 0 < self.deadline < float("inf"):
            raise UsageError(f"option deadline of backend oneflow is a number of seconds above 0, not {self.deadline!r}")
        if not isinstance(self.exclude, tuple) or not all(isinstance(name, str) for name in self.exclude):
            raise UsageError(f"option exclude of backend oneflow is a list of operators' names, not {self.exclude!r}")


def read(given: Mapping[str, Any] | None) -> Options:
    """The options as a user gave them; raises UnknownName with the nearest, UsageError for a value."""
    known = {field.name for field in dataclasses.fields(Options)}
    for name in given or {}:
        if name not in known:
            raise UnknownName("option of backend oneflow", str(name), known)
    values = dict(given or {})
    if isinstance(values.get("exclude"), list | set | frozenset):
        values["exclude"] = tuple(sorted(values["exclude"], key=str))
    return Options(**values)
