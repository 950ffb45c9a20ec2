"""A Verdict: what one oracle says of one Outcome against the reference."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.model.values import Value


class Severity(enum.IntEnum):
    """From a refusal up to a dead process: the order in which reports list findings."""

    REFUSAL = 1
    SPECIAL_VALUE = 2  # NaN, infinities, signed zero, overflow, out-of-range casts, ties
    CONTRACT = 3  # wrong dtype, shape, structure, mutation or declared type
    ERROR = 4  # a legal program is refused without the system's word that it does not do this
    WRONG_VALUE = 5  # on ordinary inputs
    INVALID_IR = 6  # or no convergence
    CRASH = 7  # or hang, or blow-up in memory, on a legal program


class Kind(str, enum.Enum):
    """The kind of disagreement; part of a bug's identity."""

    VALUE = "value"
    SPECIAL = "special"
    DTYPE = "dtype"
    SHAPE = "shape"
    STRUCTURE = "structure"
    MUTATION = "mutation"
    DECLARED_DTYPE = "declared-dtype"
    DECLARED_SHAPE = "declared-shape"
    ERROR = "error"
    SILENT_ERROR = "silent-error"
    INVALID_IR = "invalid-ir"
    NO_CONVERGENCE = "no-convergence"
    UNEXECUTABLE = "unexecutable"  # a pass leaves what eager PyTorch refuses
    BLOW_UP = "blow-up"  # in time, memory or size, by a pass that comes back
    CRASH = "crash"
    TIMEOUT = "timeout"
    OOM = "oom"
    WHOLE_ONLY = "whole-only"  # the whole fails and every node alone passes
    RECOMPILE = "recompile"  # compiled again where what was compiled should have held
    GRAPH_BREAK = "graph-break"  # a straight-line program was compiled in pieces
    STALE_GUARD = "stale-guard"  # what was compiled for an earlier call was used where it does not hold
    SELF_CHECK = "self-check"  # what must hold of a compiler whatever the program does not hold
    STATE = "state-left"  # a mode, a default or a configuration differs afterwards


_WITHOUT_BOUND = (Kind.TIMEOUT, Kind.OOM)


def same_kind(one: Kind, other: Kind) -> bool:
    """Whether two kinds are the same disagreement.

    What never ends and fills memory on its way meets the deadline or the memory limit first, as the machine's speed has it.
    """
    return one is other or (one in _WITHOUT_BOUND and other in _WITHOUT_BOUND)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One disagreement: who, what, where, how bad, in one sentence, with its evidence.

    `path` addresses the output (`[0]['boxes']`) or the mutated placeholder; `node` is the guilty node if the outcome
    itself names it; `call` the binding at fault. `detail` holds numbers for people and for the minimizer: for values
    `index`, `expected`, `actual`, `differing`, `total`.
    """

    oracle: str
    kind: Kind
    target: str
    severity: Severity
    message: str
    stage: str = ""
    node: str | None = None
    call: int | None = None
    path: str = ""
    detail: Mapping[str, Value] = field(default_factory=dict)
