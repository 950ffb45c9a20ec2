"""What a run says while it runs. Reports of every kind are made from these events and from nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.model.values import Value


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The first event: what was asked for and what runs."""

    seed: int
    profile: str
    generator: str
    targets: tuple[str, ...]
    jobs: int
    command: str
    versions: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    first_index: int = 0
    output: str = ""
    imports: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IssueListed:
    """A known issue of this run: whether it still speaks (`active`, `expired`, `outdated`), of what, and how hits call it."""

    name: str
    link: str
    standing: str
    signature: str
    targets: tuple[str, ...] = ()
    operator: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class CaseStarted:
    """A case is at work: where a run ends without warning, its log names the cases that it was at."""

    index: int


@dataclass(frozen=True, slots=True)
class CaseFinished:
    """One case ran on every target; `statuses` by target, `executions` counts (target, call) pairs.

    `support` lists `(target, operator, dtype, status)` rows joined by `|`, for the operators that a target refused or ran.
    """

    index: int
    case: str
    valid: bool
    statuses: Mapping[str, str] = field(default_factory=dict)
    executions: int = 0
    operators: tuple[str, ...] = ()
    support: tuple[str, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """An oracle's verdict on one case, before anything is known about it."""

    index: int
    case: str
    target: str
    kind: str
    severity: int
    message: str
    node: str = ""


@dataclass(frozen=True, slots=True)
class KnownHit:
    """A disagreement that a known bug explains."""

    index: int
    case: str
    target: str
    signature: str
    link: str = ""


@dataclass(frozen=True, slots=True)
class Investigating:
    """A disagreement that no known bug explains is being confirmed, localized and minimized."""

    index: int
    case: str
    target: str
    kind: str


@dataclass(frozen=True, slots=True)
class FindingSaved:
    """A new bug: minimized, signed, and on disk at `path` if its reproducer showed it in a clean process."""

    index: int
    case: str
    signature: str
    slug: str
    target: str
    kind: str
    severity: int
    operator: str
    trigger: tuple[str, ...]
    nodes: int
    message: str
    path: str = ""
    source: str = ""
    reproduced: str = ""
    note: str = ""


NOT_INVESTIGATED = "not investigated"


@dataclass(frozen=True, slots=True)
class Discarded:
    """A disagreement that did not come back, or that turned out not to be one; with the reason.

    A reason that begins with NOT_INVESTIGATED says that the run ended first: a resumed run looks at the case again.
    """

    index: int
    case: str
    target: str
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class HarnessFault:
    """Something of ours went wrong with one case; never a finding, always shown.

    `kind` is that of the disagreement whose investigation failed, and empty where the case itself did.
    """

    index: int
    case: str
    target: str
    message: str
    traceback: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The last event: why the run ended and what it cost."""

    reason: str
    seconds: float
    cpu: Mapping[str, float] = field(default_factory=dict)
    next_index: int = 0
    exit_code: int = 0
    notes: Mapping[str, Value] = field(default_factory=dict)


Event = (
    RunStarted
    | IssueListed
    | CaseStarted
    | CaseFinished
    | Disagreement
    | KnownHit
    | Investigating
    | FindingSaved
    | Discarded
    | HarnessFault
    | RunFinished
)
EVENTS: dict[str, type[Event]] = {
    cls.__name__: cls
    for cls in (
        RunStarted,
        IssueListed,
        CaseStarted,
        CaseFinished,
        Disagreement,
        KnownHit,
        Investigating,
        FindingSaved,
        Discarded,
        HarnessFault,
        RunFinished,
    )
}
