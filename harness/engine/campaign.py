"""A campaign: cases by index, each evaluated, each disagreement investigated, everything told as events."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness import events
from harness.backends.protocol import TargetSpec
from harness.engine.evaluate import Evaluation, Evaluator, executions
from harness.engine.investigate import Dropped, Explained, Finding, Interrupted, Investigator, ReplayingRunner
from harness.engine.settings import CampaignSettings
from harness.engine.support import support_rows
from harness.errors import UsageError
from harness.model.case import Case, Origin
from harness.model.codec import case_id
from harness.model.outcome import Outcome, Status
from harness.model.verdict import Verdict
from harness.triage.known import KnownBug, KnownBugs, operators_of

INTERRUPTED = "interrupted"
Draw = Callable[[int], tuple[Case, Origin]]
Listener = Callable[[events.Event], None]


@dataclass(frozen=True, slots=True)
class Saved:
    """What became of a finding: its identity, and where it lies; `path` is empty where its reproducer did not show it."""

    signature: str
    slug: str
    path: str
    source: str
    note: str = ""


class Keeper(Protocol):
    """Signs findings and puts them on disk."""

    def sign(self, finding: Finding) -> str:
        """The signature of a finding."""

    def save(self, finding: Finding) -> Saved:
        """Write the finding and run its reproducer in a clean process."""


class Campaign:
    """Runs until its budget, its limits or the user end it."""

    def __init__(
        self,
        settings: CampaignSettings,
        *,
        draw: Draw,
        runner: Callable[[int], ReplayingRunner],
        known: KnownBugs,
        keeper: Keeper,
        listener: Listener,
    ) -> None:
        self.settings = settings
        self._draw = draw
        self._runner = runner
        self.known = known
        self._keeper = keeper
        self._listener = listener
        self._lock = threading.Lock()
        self._indices = self._numbers()
        self._done: set[int] = set(settings.skip)
        self._next = settings.first_index
        self._stop = threading.Event()
        self._abandoned = threading.Event()
        self._reason = "every case asked for was run"
        self._findings = 0
        self._hits: Counter[str] = Counter()
        self._busy: set[tuple[str, str, str]] = set()
        self._deferred: list[_Dispute] = []
        self._failures: list[BaseException] = []
        self._deadline = time.monotonic() + settings.time_budget if settings.time_budget is not None else None

    @property
    def next_index(self) -> int:
        """The first case that has not been run: where a resumed campaign goes on."""
        return self._next

    def stop(self, reason: str) -> None:
        """Take no further case; those at work are finished."""
        if not self._stop.is_set():
            self._reason = reason
            self._stop.set()

    def abandon(self) -> None:
        """Wait for nothing more; the cases at work are lost."""
        self.stop(INTERRUPTED)
        self._abandoned.set()

    def run(self) -> str:
        """Run the campaign to its end; the reason why it ended.

        An error in fxdiff itself that is not one case's fault is raised after the other jobs have stopped.
        """
        threads = [
            threading.Thread(target=self._work, args=(slot,), name=f"fxdiff-job-{slot}", daemon=True) for slot in range(self.settings.jobs)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive() and not self._abandoned.is_set():
                thread.join(0.2)
        if self._failures and not self._abandoned.is_set():
            raise self._failures[0]
        return self._reason

    def _numbers(self) -> Iterator[int]:
        first = self.settings.first_index
        count = self.settings.max_cases
        numbers = itertools.count(first) if count is None else iter(range(first, first + count))
        return (number for number in numbers if number not in self.settings.skip)

    def _take(self) -> int | None:
        if self._is_late():
            self.stop("the time budget is spent")
        if self._stop.is_set():
            return None
        with self._lock:
            return next(self._indices, None)

    def _take_some(self, size: int) -> list[int]:
        """As many cases as some target takes at once, or as there still are."""
        taken: list[int] = []
        while len(taken) < size and (index := self._take()) is not None:
            taken.append(index)
        return taken

    def _work(self, slot: int) -> None:
        try:
            runner = self._runner(slot)
            evaluator = Evaluator(runner, policy=self.settings.policy, options=self.settings.options)
            investigator = Investigator(
                evaluator, runner, self.known, self.settings.effort, stopped=self._is_interrupted, deadline=self._deadline
            )
            size = max(target.batch for target in self.settings.targets)
            while indices := self._take_some(size):
                for index in indices:
                    self._tell(events.CaseStarted(index))
                for index, origin, evaluation in self._evaluated(indices, evaluator):
                    self._account(index, origin, evaluation, runner, investigator)
                for index in indices:
                    self._finished(index)
                self._work_off(investigator, only_free=True)
            self._work_off(investigator)
        except BaseException as error:
            self._failures.append(error)
            self.stop(f"fxdiff failed: {type(error).__name__}")

    def _finished(self, index: int) -> None:
        with self._lock:
            self._done.add(index)
            while self._next in self._done:
                self._done.remove(self._next)
                self._next += 1

    def _tell(self, event: events.Event) -> None:
        with self._lock:
            self._listener(event)

    def _drawn(self, index: int) -> tuple[Case, Origin] | None:
        try:
            return self._draw(index)
        except Exception as error:  # a generator's fault costs this case, not the night
            message = f"the case could not be drawn: {type(error).__name__}: {error}"
            self._tell(events.HarnessFault(index, "", "generator", message, traceback.format_exc()))
            return None

    def _evaluated(self, indices: Sequence[int], evaluator: Evaluator) -> Iterator[tuple[int, Origin, Evaluation]]:
        """What became of each case, one after another, or of all together where some target takes many at once."""
        drawn = {index: found for index in indices if (found := self._drawn(index)) is not None}
        together: list[Evaluation] = []
        if len(drawn) > 1:
            with contextlib.suppress(Exception):  # whatever it is comes again below, for its own case
                together = evaluator.evaluate_many([case for case, _ in drawn.values()], self.settings.targets)
        for position, (index, (case, origin)) in enumerate(drawn.items()):
            try:
                yield index, origin, together[position] if together else evaluator.evaluate(case, self.settings.targets)
            except Exception as error:  # an oracle's fault, or a target's whose answer fits no case, costs this case
                message = f"the case could not be judged: {type(error).__name__}: {error}"
                self._tell(events.HarnessFault(index, case_id(case), "", message, traceback.format_exc()))

    def _account(self, index: int, origin: Origin, evaluation: Evaluation, runner: ReplayingRunner, investigator: Investigator) -> None:
        """Tell of one case, and settle what disagrees."""
        died = [name for name, outcome in evaluation.observed.items() if outcome.death is not None]
        evaluation = dataclasses.replace(evaluation, served={name: runner.recent(name) for name in died})
        self._report(index, evaluation)
        disputes = [_Dispute(index, evaluation, origin, target, verdict) for target, verdict in self._disputes(evaluation)]
        for dispute in disputes:
            self._tell(dispute.event())
        for dispute in disputes:
            self._handle(dispute, investigator)

    def _report(self, index: int, evaluation: Evaluation) -> None:
        everything = {"eager": evaluation.reference, **evaluation.observed}
        self._tell(
            events.CaseFinished(
                index,
                evaluation.id,
                evaluation.valid,
                {name: outcome.status.value for name, outcome in everything.items()},
                executions(evaluation) if evaluation.valid else 0,
                tuple(operators_of(evaluation.case).values()),
                support_rows(evaluation),
                "" if evaluation.valid else f"{evaluation.reference.node or ''}: {evaluation.reference.message}"[:300],
            )
        )
        for name, outcome in everything.items():
            if outcome.status is Status.HARNESS_ERROR:
                self._tell(_fault(index, evaluation.id, name, outcome))

    def _disputes(self, evaluation: Evaluation) -> list[tuple[TargetSpec, Verdict]]:
        """One verdict for each thing that may be wrong: per node in lockstep, else the most severe one of each target."""
        specs = {target.name: target for target in self.settings.targets}
        found: dict[tuple[str, str, str], tuple[TargetSpec, Verdict]] = {}
        for verdict in evaluation.verdicts:
            target = specs.get(verdict.target) or _REFERENCE
            place = (target.name, verdict.node or "", "" if verdict.node is None else verdict.kind.value)
            if place not in found or verdict.severity > found[place][1].severity:
                found[place] = (target, verdict)
        return list(found.values())

    def _handle(self, dispute: _Dispute, investigator: Investigator) -> None:
        """Settle a disagreement, or put it aside while its like is being investigated: then it may soon be known."""
        with self._lock:
            taken = dispute.place in self._busy
            if taken:
                self._deferred.append(dispute)
            else:
                self._busy.add(dispute.place)
        if taken:
            return
        try:
            self._settle(dispute, investigator)
        finally:
            with self._lock:
                self._busy.discard(dispute.place)

    def _settle(self, dispute: _Dispute, investigator: Investigator) -> None:
        """Tell exactly one event of what became of the disagreement."""
        try:
            explained = investigator.explain(dispute.evaluation, dispute.target, dispute.verdict)
            if isinstance(explained, Explained) and not self._recheck(explained.bug):
                self._hit(dispute, explained.bug)
                return
            if self._is_late():
                self._drop(dispute, f"{events.NOT_INVESTIGATED}: the time budget is spent")
                return
            index, case, target, kind = dispute.index, dispute.evaluation.id, dispute.target.name, dispute.verdict.kind.value
            self._tell(events.Investigating(index, case, target, kind))
            result = investigator.investigate(dispute.evaluation, dispute.target, dispute.verdict, explained)
            if isinstance(result, Explained):
                self._hit(dispute, result.bug)
            elif isinstance(result, Dropped):
                self._drop(dispute, result.reason)
            else:
                self._save(dispute, result)
        except Interrupted:
            self._drop(dispute, f"{events.NOT_INVESTIGATED}: interrupted")
        except UsageError:
            raise  # the log or the disk: nothing that follows could be kept
        except Exception as error:  # a fault of ours in one finding costs that finding, and is shown, not the night
            kind = dispute.verdict.kind.value
            message = f"investigation of {kind} failed: {type(error).__name__}: {error}"
            where = dispute.index, dispute.evaluation.id, dispute.target.name
            self._tell(events.HarnessFault(*where, message, traceback.format_exc(), kind))

    def _recheck(self, bug: KnownBug) -> bool:
        if bug.is_issue:
            return False  # people have said that they do not want to hear of it
        with self._lock:
            self._hits[bug.signature] += 1
            return self._hits[bug.signature] % self.settings.recheck_every == 0

    def _drop(self, dispute: _Dispute, reason: str) -> None:
        self._tell(events.Discarded(dispute.index, dispute.evaluation.id, dispute.target.name, dispute.verdict.kind.value, reason))

    def _hit(self, dispute: _Dispute, bug: KnownBug) -> None:
        self._tell(events.KnownHit(dispute.index, dispute.evaluation.id, dispute.target.name, bug.signature, bug.link))

    def _save(self, dispute: _Dispute, finding: Finding) -> None:
        finding = dataclasses.replace(finding, origin=dispute.origin)
        signature = self._keeper.sign(finding)
        bug = KnownBug(signature, finding.target.name, finding.verdict.kind.value, finding.operator, frozenset(finding.trigger))
        is_new = self.known.add(bug)
        if finding.features:
            self.known.remember(bug.target, bug.kind, finding.operator, finding.features, signature)
        if not is_new:
            self._hit(dispute, self.known.get(signature) or bug)
            return
        saved = self._keeper.save(finding)
        with self._lock:
            self._findings += 1
            enough = self.settings.max_findings is not None and self._findings >= self.settings.max_findings
        verdict = finding.verdict
        self._tell(
            events.FindingSaved(
                dispute.index,
                dispute.evaluation.id,
                signature,
                saved.slug,
                finding.target.name,
                verdict.kind.value,
                int(verdict.severity),
                finding.operator,
                finding.trigger,
                len(finding.case.program.operators),
                verdict.message,
                saved.path,
                saved.source,
                f"{finding.reproduced[0]}/{finding.reproduced[1]}",
                saved.note,
            )
        )
        if enough:
            self.stop("as many findings as asked for")

    def _work_off(self, investigator: Investigator, *, only_free: bool = False) -> None:
        """Look again at what was put aside; `only_free` leaves what its like still blocks."""
        while (dispute := self._next_deferred(only_free)) is not None:
            if self._is_interrupted():
                self._drop(dispute, f"{events.NOT_INVESTIGATED}: interrupted")
            elif only_free:
                self._handle(dispute, investigator)
            else:
                self._settle(dispute, investigator)

    def _next_deferred(self, only_free: bool) -> _Dispute | None:
        with self._lock:
            for position, dispute in enumerate(self._deferred):
                if not only_free or dispute.place not in self._busy:
                    return self._deferred.pop(position)
        return None

    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _is_interrupted(self) -> bool:
        return self._stop.is_set() and self._reason == INTERRUPTED


_REFERENCE = TargetSpec("eager", "harness.backends.eager:EagerBackend", "PyTorch eager, the reference", family="eager")


@dataclass(frozen=True, slots=True)
class _Dispute:
    """A disagreement that waits for an answer, and the place that keeps two jobs from investigating the same bug."""

    index: int
    evaluation: Evaluation
    origin: Origin
    target: TargetSpec
    verdict: Verdict

    @property
    def place(self) -> tuple[str, str, str]:
        operator = operators_of(self.evaluation.case).get(self.verdict.node or "", "")
        return self.target.name, self.verdict.kind.value, operator

    def event(self) -> events.Disagreement:
        verdict = self.verdict
        kind, severity = verdict.kind.value, int(verdict.severity)
        return events.Disagreement(self.index, self.evaluation.id, verdict.target, kind, severity, verdict.message, verdict.node or "")


def _fault(index: int, case: str, target: str, outcome: Outcome) -> events.HarnessFault:
    where = f" at {outcome.node}" if outcome.node else ""
    return events.HarnessFault(
        index, case, target, f"{outcome.stage}{where}: {outcome.message}"[:500], outcome.artifacts.get("traceback", "")
    )
