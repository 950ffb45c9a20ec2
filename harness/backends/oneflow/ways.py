"""The other ways of running a program in OneFlow: as a module in a compiled graph, or traced, or rewritten.

Each way takes the module of `translated` and gives back something to call. They share one worker protocol, and every one of
them can be taken in the worker of another through the job's option `way`: that is how they vote on a disagreement.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.backends.oneflow import session
from harness.backends.oneflow.errors import OneFlowUnsupported
from harness.backends.oneflow.refusals import judge
from harness.backends.oneflow.translate.plan import Plan
from harness.backends.oneflow.translated import NodeRefused, Translated, build, translated
from harness.backends.oneflow.values import from_flow
from harness.backends.protocol import Progress
from harness.errors import FxdiffError, HarnessError
from harness.model.case import Case
from harness.model.codec import from_wire
from harness.model.outcome import CallResult, Declared, Job, Outcome, Status
from harness.model.values import Tensor, Value


@dataclass(slots=True)
class Evidence:
    """What a way leaves behind besides results."""

    declared: list[Declared] = field(default_factory=list)
    artifacts: dict[str, str] = field(default_factory=dict)
    spent: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    """What a way is given: the module, its source, the inputs of one call, and where to tell what it does."""

    oneflow: Any
    module: Any
    source: Translated
    call: int
    inputs: tuple[Any, ...]
    progress: Progress
    evidence: Evidence
    options: Mapping[str, Value] = field(default_factory=dict)


class Way(Protocol):
    """Runs a module on its inputs."""

    def __call__(self, subject: Subject) -> Any:
        """What the module returns; raises OneFlowUnsupported where the way does not take such a module."""


class ModuleBackend:
    """A target that runs the translated module in one way."""

    def __init__(self, way: str, ways: Mapping[str, Way]) -> None:
        self._way = way
        self._ways = ways

    def warm(self) -> None:
        """Import what OneFlow needs of Python, and leave its library alone: see `session.map_library`."""
        session.import_dependencies()

    def start(self) -> None:
        """Import OneFlow in this worker."""
        session.start_worker()

    def versions(self) -> Mapping[str, str]:
        """OneFlow and numpy."""
        return session.versions()

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        """Run every call, each with fresh inputs, parameters, buffers and modules, as eager does.

        Raises OneFlowUnsupported where gradients are wanted, HarnessError where the reference brought no trace.
        """
        if case.mode != "fwd":
            raise OneFlowUnsupported("untranslated", f"mode {case.mode!r}; only the forward pass is run in OneFlow")
        oneflow = session.import_oneflow()
        if not job.reference:
            raise HarnessError("a program is translated from the reference's witnesses, which did not come")
        witnesses = from_wire(Outcome, job.reference).witness
        if len(witnesses) != len(case.calls):
            raise HarnessError(f"the reference brought {len(witnesses)} witnesses for {len(case.calls)} calls")
        way = self._ways[str(job.options.get("way", self._way))]
        evidence = Evidence()
        results: list[CallResult] = []
        with oneflow.no_grad():
            for call, witness in enumerate(witnesses):
                progress.stage("translate")
                try:
                    source = translated(case, call, witness.trace)
                    module, tensors = build(oneflow, case, call, source)
                except NodeRefused as refusal:
                    return _stopped(job, evidence, results, Status.UNSUPPORTED, refusal.node, str(refusal))
                evidence.artifacts["module.py" if call == 0 else f"module_{call}.py"] = source.text
                before = {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}
                inputs = tuple(tensors[name] for name in source.inputs)
                subject = Subject(oneflow, module, source, call, inputs, progress, evidence, job.options)
                try:
                    output = from_flow(oneflow, way(subject), "output")
                    session.synchronize(oneflow)
                    results.append(CallResult(output, _mutations(oneflow, tensors, before)))
                except OneFlowUnsupported as refusal:
                    return _stopped(job, evidence, results, Status.UNSUPPORTED, None, str(refusal))
                except FxdiffError:
                    raise
                except Exception as error:
                    node = source.node_of(error)
                    status, message = judge(error, source.plans.get(node or "", Plan(None)))
                    return _stopped(job, evidence, results, status, node, message)
                finally:
                    del subject, module, tensors
        gc.collect()
        return Outcome(
            job.target,
            Status.OK,
            calls=tuple(results),
            declared=tuple(evidence.declared),
            artifacts=evidence.artifacts,
            spent=evidence.spent,
        )


def _stopped(job: Job, evidence: Evidence, results: list[CallResult], status: Status, node: str | None, message: str) -> Outcome:
    return Outcome(
        job.target,
        status,
        calls=tuple(results),
        message=message,
        node=node,
        call=len(results),
        artifacts=evidence.artifacts,
        spent=evidence.spent,
    )


def _mutations(oneflow: Any, tensors: Mapping[str, Any], before: Mapping[str, bytes]) -> dict[str, Tensor]:
    return {name: from_flow(oneflow, tensor, name) for name, tensor in tensors.items() if tensor.numpy().tobytes() != before[name]}


def as_it_is(subject: Subject) -> Any:
    """Call the module: what tells a fault of the translation from one of the way."""
    subject.progress.stage("run")
    return subject.module(*subject.inputs)
