"""Running one case on the reference and on targets, and judging it: what campaign, minimizer, replay and pytest share."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from harness.backends.protocol import TargetSpec
from harness.errors import HarnessError
from harness.localize import traces_of
from harness.minimize.edits import extract
from harness.minimize.passes import Traces
from harness.model.case import Case
from harness.model.codec import case_id, from_wire, to_wire
from harness.model.outcome import Job, Outcome, Status, Witness
from harness.model.values import Value
from harness.model.verdict import Kind, Verdict, same_kind
from oracles import DEFAULT, Policy, judge, judge_reference

REFERENCE = "eager"

# Asked for only once a value is in dispute: together they cost as much as the run itself.
_ARBITERS = ("twin", "spread")
_VALUE_KINDS = (Kind.VALUE, Kind.SPECIAL)
BATCH_PATIENCE = 2.0  # for what many cases may take together, some of them one by one
_PASS_BY_PASS = "pipeline"  # there the stage is the guilty pass
_ANY_STAGE = (*_VALUE_KINDS, Kind.DTYPE, Kind.SHAPE, Kind.STRUCTURE, Kind.MUTATION, Kind.WHOLE_ONLY)


class Runner(Protocol):
    """Whatever runs a job as a target and always comes back with an Outcome."""

    def run(self, job: Job, *, fresh: bool = False, patience: float = 1.0) -> Outcome:
        """Run `job`; `fresh` takes a newly forked worker, `patience` multiplies every deadline."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One case, what the reference and every target did, and what the oracles say.

    `served` holds, for each target whose worker died, the jobs that the dead process had served, this one last.
    """

    case: Case
    id: str
    reference: Outcome
    observed: Mapping[str, Outcome] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()
    served: Mapping[str, tuple[Job, ...]] = field(default_factory=dict)

    @property
    def valid(self) -> bool:
        """Whether eager took the case."""
        return self.reference.status is Status.OK

    def of(self, target: str) -> tuple[Verdict, ...]:
        """The verdicts on one target."""
        return tuple(verdict for verdict in self.verdicts if verdict.target == target)


class Evaluator:
    """Runs and judges cases through one Runner, in one thread."""

    def __init__(
        self,
        runner: Runner,
        *,
        policy: Policy = DEFAULT,
        want: tuple[str, ...] = ("trace", "fake"),
        options: Mapping[str, Mapping[str, Value]] | None = None,
    ) -> None:
        self.runner = runner
        self.policy = policy
        self.want = want
        self.options = options or {}
        self._encoded: tuple[Case, bytes] | None = None

    def _bytes(self, case: Case) -> bytes:
        """The case for workers; the last one is kept, since reference and targets ask for it one after another."""
        if self._encoded is None or self._encoded[0] is not case:
            self._encoded = (case, to_wire(case))
        return self._encoded[1]

    def reference(self, case: Case, *, fresh: bool = False, extra: Sequence[str] = ()) -> Outcome:
        """What eager does with the case, with traces."""
        want = tuple(dict.fromkeys((*self.want, *extra)))
        return self.runner.run(Job(self._bytes(case), REFERENCE, want, options=self.options.get(REFERENCE, {})), fresh=fresh)

    def observe(
        self,
        case: Case,
        target: TargetSpec,
        reference: Outcome,
        *,
        fresh: bool = False,
        patience: float = 1.0,
        want: tuple[str, ...] = (),
        options: Mapping[str, Value] | None = None,
    ) -> Outcome:
        """What a target does with the case; lockstep targets are handed the reference's traces."""
        witness = self.witness_bytes(target, reference)
        given = {**target.options, **self.options.get(target.name, {}), **(options or {})}
        job = Job(self._bytes(case), target.name, want, witness, given)
        return self.runner.run(job, fresh=fresh, patience=patience * target.patience)

    def witness_bytes(self, target: TargetSpec, reference: Outcome) -> bytes:
        """What a lockstep target is handed of the reference: its traces alone."""
        if "trace" not in target.needs:
            return b""
        return to_wire(Outcome(REFERENCE, Status.OK, witness=tuple(Witness(trace=each.trace) for each in reference.witness)))

    def judge(self, case: Case, reference: Outcome, observed: Outcome) -> tuple[Verdict, ...]:
        """The oracles' verdicts; where values are in dispute and rounding may explain it, the arbiters are heard first."""
        if observed.status is Status.OK and not (observed.nodes or observed.calls or observed.stories or observed.declared):
            return ()  # lockstep over nothing that computes
        verdicts = judge(case, reference, observed, policy=self.policy)
        if any(verdict.kind in _VALUE_KINDS for verdict in verdicts) and not _has_arbiters(reference):
            heard = self.reference(case, extra=_ARBITERS)
            if heard.status is Status.OK:
                verdicts = judge(case, heard, observed, policy=self.policy)
                if observed.nodes:
                    verdicts = tuple(verdict for verdict in verdicts if not self._is_rounding(case, heard, observed, verdict))
        return verdicts

    def _is_rounding(self, case: Case, reference: Outcome, observed: Outcome, verdict: Verdict) -> bool:
        """Whether the value of a node inside a program is right by the node's own arbiters, heard on that node alone.

        The program's twin speaks of its outputs only; what a node gives for its very inputs is told by the node by itself.
        """
        if verdict.kind not in _VALUE_KINDS or verdict.node is None or len(case.program.operators) < 2:
            return False
        alone = extract(case, [verdict.node], traces_of(reference))
        if alone is None:
            return False
        heard = self.reference(alone, extra=_ARBITERS)
        if heard.status is not Status.OK or not _has_arbiters(heard):
            return False
        results = tuple(result for result in observed.nodes if result.name == verdict.node)
        again = judge(alone, heard, dataclasses.replace(observed, nodes=results, calls=()), policy=self.policy)
        return not any(other.kind in _VALUE_KINDS and other.path == verdict.path for other in again)

    def evaluate(self, case: Case, targets: Sequence[TargetSpec], *, fresh: bool = False, patience: float = 1.0) -> Evaluation:
        """Run the case on the reference and, where eager takes it, on every target."""
        reference = self.reference(case, fresh=fresh)
        name = case_id(case)
        if reference.status is not Status.OK:
            return Evaluation(case, name, reference)
        verdicts = list(judge_reference(case, reference, policy=self.policy))
        observed: dict[str, Outcome] = {}
        forward: tuple[Case, Outcome] | None = None
        for target in targets:
            given, expected = case, reference
            if case.mode not in target.modes:
                forward = forward or (as_honoured(case, target), self.reference(as_honoured(case, target), fresh=fresh))
                given, expected = forward
                if expected.status is not Status.OK:
                    continue
            outcome = self.observe(given, target, expected, fresh=fresh, patience=patience)
            observed[target.name] = outcome
            verdicts.extend(self._judged(given, target, expected, outcome))
        return Evaluation(case, name, reference, observed, tuple(verdicts))

    def _judged(self, case: Case, target: TargetSpec, reference: Outcome, observed: Outcome) -> tuple[Verdict, ...]:
        """As `judge`; raises HarnessError, which names the target, where its answer fits no case."""
        try:
            return self.judge(case, reference, observed)
        except Exception as error:
            said = f"what {target.name} ({target.entry}) answers cannot be judged: {type(error).__name__}: {error}"
            raise HarnessError(said) from error

    def evaluate_many(self, cases: Sequence[Case], targets: Sequence[TargetSpec]) -> list[Evaluation]:
        """As `evaluate` each, where targets that take many cases at once are given those that eager takes together."""

        def alone(case: Case, target: TargetSpec) -> bool:
            return target.batch == 1 or case.mode not in target.modes

        found = [self.evaluate(case, [target for target in targets if alone(case, target)]) for case in cases]
        for target in targets:
            valid = [index for index, each in enumerate(found) if each.valid and not alone(each.case, target)]
            for start in range(0, len(valid), target.batch):
                chosen = valid[start : start + target.batch]
                for index, outcome in zip(chosen, self._observe_many([found[index] for index in chosen], target), strict=True):
                    each = found[index]
                    verdicts = (*each.verdicts, *self._judged(each.case, target, each.reference, outcome))
                    found[index] = dataclasses.replace(each, observed={**each.observed, target.name: outcome}, verdicts=verdicts)
        return found

    def _observe_many(self, evaluations: Sequence[Evaluation], target: TargetSpec) -> list[Outcome]:
        """What a target does with many cases in one job; where that dies, with either half, else with each by itself."""
        if len(evaluations) > 1:
            first, *rest = (to_wire(each.case) for each in evaluations)
            given = {**target.options, **self.options.get(target.name, {})}
            job = Job(first, target.name, options=given, more=tuple(rest))
            whole = self.runner.run(job, patience=BATCH_PATIENCE * target.patience)
            if whole.death is None and len(whole.more) == len(rest):
                shared = {
                    "seconds": {stage: spent / len(evaluations) for stage, spent in whole.seconds.items()},
                    "versions": whole.versions,
                }
                outcomes = [dataclasses.replace(whole, more=()), *(from_wire(Outcome, each) for each in whole.more)]
                return [dataclasses.replace(each, **shared) for each in outcomes]  # type: ignore[arg-type]
            if whole.status is Status.CRASH and len(evaluations) > 2:
                half = len(evaluations) // 2
                return self._observe_many(evaluations[:half], target) + self._observe_many(evaluations[half:], target)
        return [self.observe(each.case, target, each.reference) for each in evaluations]

    def evidence(
        self,
        case: Case,
        target: TargetSpec,
        verdict: Verdict,
        *,
        fresh: bool = False,
        patience: float = 1.0,
        options: Mapping[str, Value] | None = None,
    ) -> Evidence | None:
        """What shows on `case` that `target` disagrees in the same kind as `verdict`; None where it does not.

        Never locked to a message: the same kind, and for failures the same stage.
        """
        case = as_honoured(case, target)
        reference = self.reference(case, fresh=fresh)
        if reference.status is not Status.OK:
            return None
        if target.name == REFERENCE:
            observed, verdicts = reference, judge_reference(case, reference, policy=self.policy)
        else:
            observed = self.observe(case, target, reference, fresh=fresh, patience=patience, options=options)
            verdicts = self.judge(case, reference, observed)
        for found in verdicts:
            anywhere = found.kind in _ANY_STAGE and verdict.oracle != _PASS_BY_PASS
            if same_kind(found.kind, verdict.kind) and (found.stage == verdict.stage or anywhere):
                return Evidence(case, reference, observed, found)
        return None


def as_honoured(case: Case, target: TargetSpec) -> Case:
    """The case as a target takes it: its forward pass alone where the target has no such mode."""
    return case if case.mode in target.modes else dataclasses.replace(case, mode="fwd")


@dataclass(frozen=True, slots=True)
class Evidence:
    """A case that shows a disagreement, with both sides' outcomes."""

    case: Case
    reference: Outcome
    observed: Outcome
    verdict: Verdict

    @property
    def traces(self) -> Traces:
        """The reference's node traces, one mapping a call."""
        return traces_of(self.reference)


def _has_arbiters(reference: Outcome) -> bool:
    return any(witness.twin is not None or witness.spread is not None for witness in reference.witness)


def executions(evaluation: Evaluation) -> int:
    """How many (case, binding) pairs were executed over all targets, the reference included."""
    calls = len(evaluation.case.calls)
    return calls * (1 + sum(outcome.status is not Status.HARNESS_ERROR for outcome in evaluation.observed.values()))


def slim(outcome: Outcome) -> Outcome:
    """The outcome without witnesses, for saving."""
    return dataclasses.replace(outcome, witness=())
