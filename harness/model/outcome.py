"""An Outcome: what one target did with one Case, as evidence that can be judged again later."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.model.story import FixpointStory
from harness.model.values import Tensor, Value

OWN_LIMIT = "fxdiff does not"  # what a refusal says that is none of the system's: an adapter of ours falls short
TARGETS_FAULT = "a fault of the target"  # how a harness_error begins that a target of somebody else's brought about


class Status(str, enum.Enum):
    """How a run ended; the closed set that everything else decides by."""

    OK = "ok"
    UNSUPPORTED = "unsupported"  # the system's own word that it does not do this
    ERROR = "error"  # the system raised or reported a failure on a legal program
    CRASH = "crash"  # the process died by a signal or exited by itself
    TIMEOUT = "timeout"
    OOM = "oom"
    INCONCLUSIVE = "inconclusive"
    HARNESS_ERROR = "harness_error"  # an exception that nobody understood: ours until shown otherwise
    REJECTED = "rejected"  # eager itself refuses the case


@dataclass(frozen=True, slots=True)
class NodeTrace:
    """One node as the reference ran it: inputs snapshotted just before, outputs just after.

    Nodes of one `unit` share storage with a mutation and must run together. `peak` and `grain` are the largest
    magnitude and the exponent of the smallest set bit over the node's finite float outputs, for exactness.
    """

    name: str
    args: tuple[Value, ...] = ()
    kwargs: Mapping[str, Value] = field(default_factory=dict)
    output: Value = None
    unit: str | None = None
    peak: float | None = None
    grain: int | None = None


@dataclass(frozen=True, slots=True)
class Witness:
    """What only the reference gives, for one call: node traces, the float64 twin's output, and the output's spread.

    `spread` has the output's structure; each float tensor holds, as float64, how far that element moved when inputs and
    nodes were nudged by one ulp.
    """

    trace: tuple[NodeTrace, ...] = ()
    twin: Value = None
    spread: Value = None


@dataclass(frozen=True, slots=True)
class Declared:
    """A type that a system claimed before or without running: per flattened output tensor.

    `shape` has None for an unknown dim and is itself None for an unknown rank; `dtype` None is unknown. `call` None means
    that the claim covers every call. A claim is held against what eager gives, or, where `own`, against what came out of
    the system itself.
    """

    source: str
    path: str
    dtype: str | None
    shape: tuple[int | None, ...] | None
    call: int | None = None
    own: bool = False


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A message that the system emitted: severity `error`, `warning` or `note`, and the stage and pass if known."""

    severity: str
    message: str
    stage: str = ""


@dataclass(frozen=True, slots=True)
class Death:
    """How a worker process ended."""

    signal: str = ""
    exit_code: int | None = None
    stderr: str = ""
    spinning: bool | None = None
    rss_mb: int = 0


@dataclass(frozen=True, slots=True)
class CallResult:
    """What one call returned, and the inputs, parameters and buffers that differ afterwards, by placeholder."""

    output: Value = None
    mutated: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeResult:
    """What a lockstep target did with one node, fed the reference's inputs in call `call`."""

    name: str
    call: int
    status: Status
    output: Value = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The evidence of one run of one Case on one Target.

    `stage` is the last stage entered and `node` the node at work there, if known. `seconds` is CPU time by stage. A
    backend says `spent` where this run has broken the process for the next one; the worker is then replaced. `more` holds
    the outcomes of a job's further cases, each as a message of its own.
    """

    target: str
    status: Status
    stage: str = ""
    calls: tuple[CallResult, ...] = ()
    declared: tuple[Declared, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    message: str = ""
    node: str | None = None
    call: int | None = None
    death: Death | None = None
    nodes: tuple[NodeResult, ...] = ()
    witness: tuple[Witness, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)  # what a compiler did: graphs, recompiles, partitions
    artifacts: Mapping[str, str] = field(default_factory=dict)  # text worth saving: IR snapshots, pipelines, tracebacks
    stories: tuple[FixpointStory, ...] = ()  # of targets that follow a pipeline pass by pass
    spent: bool = False
    more: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is asked to do: run `case` as `target`.

    `want` names extra evidence (`trace`, `twin`, `spread`, `fake`, `ir`); `reference` carries the reference's witnesses
    to lockstep targets; `options` come from the target's text and the settings. `more` holds further cases for targets that
    take several at once.
    """

    case_bytes: bytes
    target: str
    want: tuple[str, ...] = ()
    reference: bytes = b""
    options: Mapping[str, Value] = field(default_factory=dict)
    more: tuple[bytes, ...] = ()
