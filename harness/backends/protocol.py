"""The protocol that every target is written against, and the registry of targets.

A target is a class with three methods; fxdiff imports it in a process of its own, so it may crash, hang or leak.
Register it with `register(TargetSpec(...))` from a module named by `--import`, or from the entry-point group
`fxdiff.targets`. This module imports neither torch nor Hypothesis.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

from harness.errors import HarnessError, UnknownName, UsageError
from harness.model.case import Case
from harness.model.outcome import Job, Outcome


class Progress(Protocol):
    """Where a backend says what it is about to do, so that a death has an address."""

    def stage(self, name: str) -> None:
        """Enter a stage: its deadline starts, and its CPU time is counted."""

    def node(self, name: str) -> None:
        """Name the node that is about to run."""


class Backend(Protocol):
    """One system under test."""

    def warm(self) -> None:
        """Import and warm libraries in the zygote, before any fork. Threads started here hang the children."""

    def start(self) -> None:
        """Prepare a freshly forked worker."""

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        """Run every call of `case` and return the evidence.

        Raise Unsupported where the system itself refuses, Rejected where eager does; anything else that escapes
        becomes harness_error. The system's own exceptions are caught here and returned as status `error`.
        """

    def versions(self) -> Mapping[str, str]:
        """Name and version of every library that can change the result."""


class BatchBackend(Backend, Protocol):
    """A system under test that is much cheaper for many cases at once."""

    def run_many(self, cases: Sequence[Case], job: Job, progress: Progress) -> Sequence[Outcome]:
        """Run every case by the options of `job` and return the evidence of each, in order, as `run` would."""


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """What the engine knows of a target without importing it.

    `entry` is `module:Class`; `environment` is `main` or `oneflow`; targets with one `zygote` share the warmed parent
    process of that name, which is itself forked from that of `parent_zygote` where one of its targets is in use.
    `needs` is evidence that the reference must supply (`trace`). `modes` are the modes of cases that it honours: one without
    `grad` runs the forward pass alone. `family` groups targets for reports and signatures. Where bulk runs take a
    shortcut, `users_route` holds the options of the way that users go; `evidence_run` those of a run that stops early and
    leaves behind, as artifacts, what a process that dies cannot. `choices` names the options that may follow the name, as
    in `torch-mlir:linalg?extra=cse`, with what each does; `options` are those that did. `voters` are other ways to the same
    results, by name, with the options that take them, and `voter` is this target's own name among them: what they say of a
    disagreement tells which part is at fault; a bug in one of `shared_stages` is known to all of a family that have it. A
    target of `batch` takes as many cases in one job (BatchBackend). `patience` multiplies every deadline, where compiling
    takes its time.
    `follow_run` holds the options of a run that follows the pipeline pass by pass, to say where a finding comes from.
    Voters that are `layered` stand in order, each with a part of the system more than the one before.
    """

    name: str
    entry: str
    summary: str
    environment: str = "main"
    zygote: str = "torch"
    family: str = ""
    needs: tuple[str, ...] = ()
    lockstep: bool = False
    default: bool = False
    parent_zygote: str = ""
    modes: tuple[str, ...] = ("fwd",)
    users_route: Mapping[str, str] = field(default_factory=dict)
    evidence_run: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    voters: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    voter: str = ""
    shared_stages: tuple[str, ...] = ()
    batch: int = 1
    patience: float = 1.0
    layered: bool = False
    follow_run: Mapping[str, str] = field(default_factory=dict)


WITHOUT_OPTIONS = "without options"  # the voter that a target with options has more than the plain one
_TARGETS: dict[str, TargetSpec] = {}
_FAMILIES: dict[str, Callable[[str], TargetSpec]] = {}


def _load_own() -> None:
    """Have fxdiff's own targets registered before anybody asks for one, or takes the name of one."""
    importlib.import_module("harness.backends.registered")


def register(spec: TargetSpec) -> TargetSpec:
    """Add a target; raises UsageError where the name is taken by another one."""
    _load_own()
    if _TARGETS.get(spec.name, spec) != spec:
        raise UsageError(f"target {spec.name!r} is registered twice, by {_TARGETS[spec.name].entry} and {spec.entry}")
    _TARGETS[spec.name] = spec
    return spec


def target(name: str) -> TargetSpec:
    """The target of this name, with the options that follow it, as in `NAME?KEY=VALUE&KEY=VALUE`.

    Raises UnknownName with the nearest name of a target or an option, UsageError for an option without a value.
    """
    _load_own()
    base, mark, text = name.partition("?")
    prefix, colon, rest = base.partition(":")
    if base in _TARGETS:
        spec = _TARGETS[base]
    elif colon and rest and prefix in _FAMILIES:
        spec = _FAMILIES[prefix](rest)
    else:
        raise UnknownName("target", base, _TARGETS)
    return _with_options(spec, text) if mark else spec


def _with_options(spec: TargetSpec, text: str) -> TargetSpec:
    given: dict[str, str] = {}
    for part in text.split("&"):
        key, _, value = part.partition("=")
        if key not in spec.choices:
            raise UnknownName(f"option of {spec.name}", key, spec.choices)
        if not value:
            raise UsageError(f"the option {key!r} of {spec.name} needs a value: {key}=...; {spec.choices[key]}")
        given[key] = value
    name = f"{spec.name}?{'&'.join(f'{key}={given[key]}' for key in sorted(given))}"
    voters = {**spec.voters, WITHOUT_OPTIONS: dict.fromkeys(given, "")} if spec.voters else spec.voters
    return replace(spec, name=name, options={**spec.options, **given}, voters=voters, default=False)


def register_family(prefix: str, make: Callable[[str], TargetSpec]) -> None:
    """Have `make` give the targets `prefix:NAME` for names that nobody registered."""
    _FAMILIES[prefix] = make


def targets() -> tuple[TargetSpec, ...]:
    """Every registered target, by name."""
    _load_own()
    return tuple(_TARGETS[name] for name in sorted(_TARGETS))


def load_backend(entry: str) -> Backend:
    """Instantiate the class that a `module:Class` entry names, with the text after a second colon as its argument.

    Raises HarnessError where there is none.
    """
    module_name, _, rest = entry.partition(":")
    class_name, colon, argument = rest.partition(":")
    cls = getattr(importlib.import_module(module_name), class_name, None)
    if cls is None:
        raise HarnessError(f"target entry {entry!r}: {module_name} has no {class_name!r}")
    return cast(Backend, cls(argument) if colon else cls())
