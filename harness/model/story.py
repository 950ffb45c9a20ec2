"""A FixpointStory: one program on its way through a pipeline, pass by pass and again until nothing changes."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.model.values import Tensor, Value


class Fault(str, enum.Enum):
    """What is wrong after a pass, by itself, whatever the values are."""

    INVALID_IR = "invalid-ir"
    SILENT_ERROR = "silent-error"  # an error was reported, and the pass succeeded
    PASS_FAILURE = "pass-failure"  # on IR that is valid and, if it is our own input, legal
    WRONG_TYPE = "wrong-type"  # a declared type that the real tensor does not have
    UNEXECUTABLE = "unexecutable"  # an operation that eager PyTorch refuses, in what it took before
    CONTRADICTION = "contradiction"  # a result type that contradicts an earlier one
    LESS_PRECISE = "less-precise"  # a result type that says less than an earlier one
    CYCLE = "cycle"
    NO_CONVERGENCE = "no-convergence"
    SLOW = "slow"
    MEMORY = "memory"
    GROWTH = "growth"


class Ending(str, enum.Enum):
    """Why a pipeline was not run once more."""

    FIXPOINT = "fixpoint"
    REFUSED = "refused"  # a pass said that it does not do this
    FAULT = "fault"  # what it left cannot be gone on with
    CYCLE = "cycle"
    BOUND = "bound"


@dataclass(frozen=True, slots=True)
class StepFault:
    """A fault with its evidence: the operation, what was expected of it and what it is instead, in words."""

    kind: Fault
    message: str
    op: str = ""
    expected: str = ""
    actual: str = ""
    call: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """The operation whose value is no longer what it was before the pass; `node` is the program's node behind it."""

    op: str
    node: str
    expected: str
    actual: str
    call: int


@dataclass(frozen=True, slots=True)
class PassStep:
    """One pass, run once. The first step of a story is the import, which no pass has touched yet.

    `text` is the pass as a pipeline holds it, `digest` names the IR that it left and `size` counts its operations;
    `added` and `removed` are lines of text. `types` are the functions' types by name. `seconds` is CPU time, 0 where the same
    pass had been run on the same IR before (`reused`). `result` is an index into the story's results, None where
    the interpreter could not run the IR, for the reason in `uninterpreted`.
    """

    name: str
    text: str
    iteration: int
    digest: str
    size: int = 0
    changed: bool = False
    added: int = 0
    removed: int = 0
    seconds: float = 0.0
    reused: bool = False
    types: Mapping[str, str] = field(default_factory=dict)
    diagnostics: tuple[str, ...] = ()
    faults: tuple[StepFault, ...] = ()
    result: int | None = None
    uninterpreted: str = ""
    change: Change | None = None


@dataclass(frozen=True, slots=True)
class Interpreted:
    """What the interpreter made of one snapshot in one call, as a CallResult has it."""

    output: Value = None
    mutated: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FixpointStory:
    """A program, imported by one route, run through one pipeline until nothing changes or it cannot go on.

    `results` holds every distinct answer that the interpreter gave, each with one Interpreted for each of `calls`. `contract`
    is what torch-mlir's own verifier has against the IR at the end, empty where it satisfies the backend contract.
    """

    route: str
    pipeline: str
    calls: tuple[int, ...]
    steps: tuple[PassStep, ...]
    ending: Ending
    iterations: int = 0
    dynamic: bool = False
    results: tuple[tuple[Interpreted, ...], ...] = ()
    contract: str = ""
    message: str = ""
