"""From a disagreement to a finding: known? confirm, localize, extract, minimize, find the trigger, sign."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from harness.backends.protocol import TargetSpec
from harness.engine.evaluate import Evaluation, Evaluator, Evidence, Runner
from harness.localize import locate, traces_of
from harness.minimize.edits import literal_case, neutralize, plain_names
from harness.minimize.passes import Traces
from harness.minimize.polish import polish
from harness.minimize.reduce import reduce_case
from harness.model.case import Case, Origin
from harness.model.codec import from_wire, to_wire
from harness.model.opnames import canonical
from harness.model.outcome import Job, Outcome, Status
from harness.model.values import Value
from harness.model.verdict import Kind, Verdict
from harness.triage import guilt
from harness.triage.features import node_features, trigger
from harness.triage.flip import needed_features
from harness.triage.known import KnownBug, KnownBugs, operators_of, suspects
from harness.triage.vote import ARTIFACT, Answer, Ballot, ballot, blame, told

_DEATHS = (Kind.CRASH, Kind.TIMEOUT, Kind.OOM)
TIMEOUT_PATIENCE = 5.0
# Once five times the deadline was not enough, candidates need not wait long: the smallest is given a whole deadline again.
CANDIDATE_PATIENCE = 0.4
# How often a candidate is run where not every run shows the bug: at one in two, 1 of 64 good candidates is missed.
FLAKY_TRIES = 6
# How often a later case is run after the one that may have broken the process: not every access hits the damage.
VICTIM_RUNS = 8
REPEATED_CALLS = 3
LAST_SECONDS = 5.0


class ReplayingRunner(Runner, Protocol):
    """A Runner that remembers what a dead worker had served, and can serve a sequence again."""

    def recent(self, target: str) -> tuple[Job, ...]:
        """The jobs that the last dead worker of `target` had served, oldest first, the fatal one last."""

    def replay(self, jobs: Sequence[Job]) -> Outcome:
        """Run `jobs` one after another in one fresh worker; the outcome of the last one, or of the first death."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard to try: fresh confirmations, and the minimizer's budget."""

    confirmations: int = 3
    minimize: bool = True
    max_executions: int = 400
    seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Finding:
    """A minimized disagreement with everything that is known of it.

    `operator` and `trigger` make the signature; `reproduced` is (k, n) over fresh workers; `sequence` holds the cases to
    run before this one in the same process, where it takes an earlier case to show.
    """

    evidence: Evidence
    target: TargetSpec
    operator: str
    trigger: tuple[str, ...]
    reproduced: tuple[int, int]
    origin: Origin | None = None
    route: str = ""
    complete: bool = True
    executions: int = 0
    victim: Case | None = None
    features: frozenset[str] = field(default_factory=frozenset)  # of the guilty node as it was drawn
    drawn: int = 0  # how many operators the disagreeing program had before it was minimized
    at_fault: str = ""  # which of the target's voters is, if a vote says so

    @property
    def case(self) -> Case:
        """The minimized case, literal."""
        return self.evidence.case

    @property
    def verdict(self) -> Verdict:
        """What disagrees."""
        return self.evidence.verdict


@dataclass(frozen=True, slots=True)
class Explained:
    """A disagreement that a known bug accounts for."""

    bug: KnownBug


@dataclass(frozen=True, slots=True)
class Dropped:
    """A disagreement that is not reported, with the reason."""

    reason: str


Result = Finding | Explained | Dropped


class Interrupted(Exception):
    """The user stopped the run while a disagreement was being investigated."""


class Investigator:
    """Turns disagreements into findings; one per thread, sharing what is known.

    `stopped` is asked before every run of a candidate; once it says yes, Interrupted is raised. Minimization ends soon
    after `deadline` (on time.monotonic's clock), with what it has by then.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        runner: ReplayingRunner,
        known: KnownBugs,
        effort: Effort,
        *,
        stopped: Callable[[], bool] = lambda: False,
        deadline: float | None = None,
    ) -> None:
        self.evaluator = evaluator
        self.runner = runner
        self.known = known
        self.effort = effort
        self._stopped = stopped
        self._deadline = deadline

    def explain(self, evaluation: Evaluation, target: TargetSpec, verdict: Verdict) -> Explained | Evidence | None:
        """The known bug behind a disagreement, or what still shows once known triggers are neutralized.

        None means that nothing known is involved.
        """
        told = self.known.told(target.name, verdict.kind.value, verdict.message, operators_of(evaluation.case).values())
        if told is not None:
            return Explained(told)
        traces = traces_of(evaluation.reference)
        found = suspects(evaluation.case, traces, self.known, target.name, verdict.kind.value)
        if target.lockstep or verdict.node is not None:
            if verdict.node is None:
                return None
            return Explained(found[verdict.node]) if verdict.node in found else None
        if not found:
            return None
        first = next(iter(found.values()))
        if len(found) == len(evaluation.case.program.operators):
            return Explained(first)
        rest = neutralize(evaluation.case, list(found), traces)
        if rest is None:
            return None
        still = self._evidence(rest, target, verdict, patience=self._patience(verdict))
        return still if still is not None else Explained(first)

    def investigate(
        self, evaluation: Evaluation, target: TargetSpec, verdict: Verdict, explained: Explained | Evidence | None = None
    ) -> Result:
        """The finding behind a disagreement, given what `explain` said of it.

        One that is explained is minimized all the same: the caller asks for it to see whether the known bug hides another.
        """
        start = Evidence(evaluation.case, evaluation.reference, evaluation.observed.get(target.name, evaluation.reference), verdict)
        if isinstance(explained, Evidence):
            start = explained
        confirmed = self._confirm(start.case, target, verdict)
        if confirmed is None:
            if verdict.kind in _DEATHS:
                return self._culprit(start, target, evaluation.served.get(target.name, ()))
            return Dropped(f"did not come back in {2 * self.effort.confirmations} fresh workers")
        evidence, (hits, runs) = confirmed
        result = self._narrow(evidence, target, flaky=hits < runs, recheck=isinstance(explained, Explained))
        drawn = len(evaluation.case.program.operators)
        return dataclasses.replace(result, drawn=drawn) if isinstance(result, Finding) else result

    def _patience(self, verdict: Verdict) -> float:
        return TIMEOUT_PATIENCE if verdict.kind is Kind.TIMEOUT and not self._is_late() else 1.0

    def _evidence(
        self,
        case: Case,
        target: TargetSpec,
        verdict: Verdict,
        *,
        fresh: bool = False,
        patience: float = 1.0,
        options: Mapping[str, Value] | None = None,
    ) -> Evidence | None:
        """What the evaluator says, unless the user does not want to know any more."""
        self._check()
        return self.evaluator.evidence(case, target, verdict, fresh=fresh, patience=patience, options=options)

    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _seconds(self) -> float:
        """How long a reduction may take: less towards the end of the run, but never too little for the first steps."""
        if self._deadline is None:
            return self.effort.seconds
        return min(self.effort.seconds, max(LAST_SECONDS, self._deadline - time.monotonic()))

    def _check(self) -> None:
        if self._stopped():
            raise Interrupted

    def _confirm(
        self, case: Case, target: TargetSpec, verdict: Verdict, *, patience: float | None = None
    ) -> tuple[Evidence, tuple[int, int]] | None:
        """The disagreement in fresh workers, and how many of how many showed it; twice as many where the first show nothing.

        A deadline is first given five times the time, so that a slow machine is no hang; then the others need not wait.
        """
        hits = runs = 0
        last: Evidence | None = None
        patience = patience if patience is not None else self._patience(verdict)
        while runs < self.effort.confirmations or (last is None and runs < 2 * self.effort.confirmations):
            found = self._evidence(case, target, verdict, fresh=True, patience=patience)
            runs += 1
            if found is not None:
                hits, last, patience = hits + 1, found, 1.0
            if self._is_late():
                break  # one confirmation has to do
        if last is None and len(case.calls) == 1:
            # Memory that a target takes up again unwashed is clean in a fresh process: only a later call can show it.
            return self._confirm(dataclasses.replace(case, calls=case.calls * REPEATED_CALLS), target, verdict)
        return (last, (hits, runs)) if last is not None else None

    def _narrow(self, evidence: Evidence, target: TargetSpec, *, flaky: bool, recheck: bool) -> Result:
        verdict = evidence.verdict
        # A smaller case must not turn one disagreement into another that people have accepted.
        accepted = self._accepted(evidence, target)
        patience = CANDIDATE_PATIENCE if verdict.kind is Kind.TIMEOUT else 1.0

        def shows(case: Case) -> Traces | None:
            for _ in range(FLAKY_TRIES if flaky else 1):
                found = self._evidence(case, target, verdict, patience=patience)
                if found is not None and self._accepted(found, target) <= accepted:
                    return found.traces
            return None

        flips_end: list[float] = []

        def probe(case: Case) -> bool | None:
            flips_end[:] = flips_end or [time.monotonic() + self._seconds()]
            if time.monotonic() > flips_end[0]:
                return False  # out of time, every feature counts as needed
            if self.evaluator.reference(case).status is not Status.OK:
                return None
            return shows(case) is not None

        guilty = [name for name in (verdict.node, evidence.observed.node) if name is not None]
        location = locate(evidence.case, evidence.traces, shows, suspects=guilty) if len(evidence.case.program.operators) > 1 else None
        operator, features = self._drawn_as(evidence, location.node if location is not None else None)
        case, traces = (location.case, location.traces) if location is not None else (evidence.case, evidence.traces)
        known = self.known.match(target.name, verdict.kind.value, operator, features) if location is not None else None
        if known is not None and not recheck:
            return Explained(known)
        complete, count = True, 0
        if self.effort.minimize:
            literal = literal_case(case)
            reduction = reduce_case(literal, traces, shows, max_executions=self.effort.max_executions, seconds=self._seconds())
            told, _ = polish(reduction.case, reduction.traces, shows, deadline=time.monotonic() + self._seconds())
            case, complete, count = plain_names(told), reduction.complete, reduction.executions
        final = self._confirm(literal_case(case), target, verdict, patience=1.0)
        if final is None:
            return Dropped("the minimized case does not come back in fresh workers")
        settled, reproduced = final
        settled, at_fault = self._vote(self._followed(self._with_artifacts(settled, target), target), target)
        found = trigger(settled.case, settled.traces[0] if settled.traces else {})
        if self.effort.minimize:
            found = needed_features(settled.case, found, probe)
        return Finding(
            settled,
            target,
            self._operator(settled),
            found,
            reproduced,
            complete=complete,
            executions=count,
            route=self._route(settled, target),
            features=features,
            at_fault=at_fault,
        )

    def _followed(self, settled: Evidence, target: TargetSpec) -> Evidence:
        """The guilty pass and pattern among the artifacts, for a target whose pipeline can be followed."""
        if not target.follow_run or self._is_late():
            return settled
        route = settled.observed.artifacts.get("route", "").partition("+")[0]
        options = {**target.follow_run, **({"route": route} if route else {})}

        def follow(**more: str) -> Outcome:
            self._check()
            return self.evaluator.observe(settled.case, target, settled.reference, fresh=True, options={**options, **more})

        followed = settled.observed
        if settled.verdict.oracle == guilt.ORACLE:
            found = guilt.of_verdict(settled.verdict)
        else:
            followed = follow()
            verdicts = self.evaluator.judge(settled.case, settled.reference, followed)
            found = guilt.of_followed(settled.verdict, followed, verdicts, lowering=target.voter)
        if found.address:
            found = guilt.with_pattern(found, follow(**found.search))
        artifacts = {**settled.observed.artifacts, **guilt.snapshots(found, followed), guilt.ARTIFACT: guilt.to_text(found)}
        return dataclasses.replace(settled, observed=dataclasses.replace(settled.observed, artifacts=artifacts))

    def _vote(self, settled: Evidence, target: TargetSpec) -> tuple[Evidence, str]:
        """What the other ways to the same results say, among the artifacts, and which of all ways is at fault."""
        if not target.voters or self._is_late():
            return settled, ""
        ballots = []
        for voter, options in target.voters.items():
            if voter == target.voter:
                ballots.append(Ballot(voter, Answer.ALIKE))
                continue
            self._check()
            observed = self.evaluator.observe(settled.case, target, settled.reference, fresh=True, options=options)
            verdicts = self.evaluator.judge(settled.case, settled.reference, observed)
            ballots.append(ballot(voter, settled.observed, settled.verdict, observed, verdicts))
        artifacts = {**settled.observed.artifacts, ARTIFACT: told(ballots, target.voter, layered=target.layered)}
        observed = dataclasses.replace(settled.observed, artifacts=artifacts)
        return dataclasses.replace(settled, observed=observed), blame(ballots, target.voter, layered=target.layered)

    def _accepted(self, evidence: Evidence, target: TargetSpec) -> frozenset[str]:
        """The known issues that would account for this disagreement."""
        kind, case = evidence.verdict.kind.value, evidence.case
        found = [*suspects(case, evidence.traces, self.known, target.name, kind).values()]
        told = self.known.told(target.name, kind, evidence.verdict.message, operators_of(case).values())
        return frozenset(bug.signature for bug in (*found, told) if bug is not None and bug.is_issue)

    def _with_artifacts(self, settled: Evidence, target: TargetSpec) -> Evidence:
        """What a dead process could not leave behind: the input of the stage that it died in."""
        if settled.observed.death is None or not target.evidence_run:
            return settled
        early = self.evaluator.observe(settled.case, target, settled.reference, fresh=True, options=target.evidence_run)
        observed = dataclasses.replace(settled.observed, artifacts={**early.artifacts, **settled.observed.artifacts})
        return dataclasses.replace(settled, observed=observed)

    def _route(self, settled: Evidence, target: TargetSpec) -> str:
        """For a target that is imported by a shortcut: whether its users' own route shows the same."""
        if not target.users_route:
            return ""
        confirmed = self._evidence(settled.case, target, settled.verdict, fresh=True, options=target.users_route)
        return "users" if confirmed is not None else "raw"

    def _operator(self, evidence: Evidence) -> str:
        """The canonical operator of a minimized case: its only one, or all of them joined."""
        names = list(dict.fromkeys(operators_of(evidence.case).values()))
        return "+".join([name for name in names if name != "getitem"] or names) or "identity"

    def _drawn_as(self, evidence: Evidence, node: str | None) -> tuple[str, frozenset[str]]:
        if node is None:
            return self._operator(evidence), frozenset()
        program = evidence.case.program
        trace = evidence.traces[0] if evidence.traces else {}
        return canonical(program.node(node), program), node_features(evidence.case, program.node(node), trace)

    def _culprit(self, start: Evidence, target: TargetSpec, served: Sequence[Job]) -> Result:
        """The earlier case that left a worker broken: replay what the dead worker had served, find it, minimize it."""
        if len(served) < 2:
            return Dropped("the death did not come back, and the worker had served nothing before")
        victim = served[-1]
        if self._dies(after(victim, victim)):
            return self._minimize_culprit(victim, None, target, start)
        if not self._dies(served):
            return Dropped(f"the death did not come back, alone or after the {len(served) - 1} cases before it")
        culprit = next((job for job in reversed(served[:-1]) if self._dies(after(job, victim))), None)
        if culprit is None:
            return Dropped("the death takes several earlier cases together; they are kept in the worker's history")
        return self._minimize_culprit(culprit, victim, target, start)

    def _dies(self, jobs: Sequence[Job]) -> bool:
        self._check()
        return _is_death(self.runner.replay(jobs))

    def _minimize_culprit(self, culprit: Job, victim: Job | None, target: TargetSpec, start: Evidence) -> Result:
        """The smallest case after which `victim` dies, or, without one, that dies itself when it is run again."""
        case = literal_case(from_wire(Case, culprit.case_bytes))

        def outcome_after(candidate: Case) -> tuple[Outcome, Outcome] | None:
            reference = self.evaluator.reference(candidate)
            if reference.status is not Status.OK:
                return None
            job = dataclasses.replace(culprit, case_bytes=to_wire(candidate), reference=self.evaluator.witness_bytes(target, reference))
            self._check()
            return reference, self.runner.replay(after(job, victim if victim is not None else job))

        def shows(candidate: Case) -> Traces | None:
            found = outcome_after(candidate)
            return traces_of(found[0]) if found is not None and _is_death(found[1]) else None

        def probe(candidate: Case) -> bool | None:
            found = outcome_after(candidate)
            return _is_death(found[1]) if found is not None else None

        first = outcome_after(case)
        if first is None or not _is_death(first[1]):
            return Dropped("the death after an earlier case came back only once")
        traces = traces_of(first[0])
        location = locate(case, traces, shows) if len(case.program.operators) > 1 else None
        if location is not None:
            case, traces = location.case, location.traces
        limit = self.effort.max_executions if self.effort.minimize else 0
        reduction = reduce_case(case, traces, shows, max_executions=limit, seconds=self._seconds())
        case = plain_names(reduction.case) if self.effort.minimize else reduction.case
        runs = [outcome_after(case) for _ in range(self.effort.confirmations)]
        kept = [run for run in runs if run is not None and _is_death(run[1])]
        if not kept:
            return Dropped("the minimized earlier case does not kill the later one again")
        reference, died = kept[-1]
        verdict = dataclasses.replace(start.verdict, message=f"a later case dies after this one ran: {start.verdict.message}", node=None)
        evidence = Evidence(case, reference, died, verdict)
        needed = trigger(case, traces_of(reference)[0])
        if self.effort.minimize:
            needed = needed_features(case, needed, probe)
        return Finding(
            evidence,
            target,
            self._operator(evidence),
            (*needed, "kills-later-case"),
            (len(kept), self.effort.confirmations),
            complete=reduction.complete,
            executions=reduction.executions,
            victim=from_wire(Case, victim.case_bytes) if victim is not None else case,
        )


def after(culprit: Job, victim: Job) -> list[Job]:
    """A case and the later ones that may die of it, for one process."""
    return [culprit, *[victim] * VICTIM_RUNS]


def _is_death(outcome: Outcome) -> bool:
    return outcome.status in (Status.CRASH, Status.TIMEOUT, Status.OOM)
