"""A campaign: cases by index, each evaluated, each disagreement investigated, everything told as events."""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from harness import events
from harness.backends.protocol import TargetSpec
from harness.engine.evaluate import Evaluation, Evaluator, executions
from harness.engine.investigate import Dropped, Explained, Finding, Investigator, ReplayingRunner
from harness.engine.settings import CampaignSettings
from harness.engine.support import support_rows
from harness.errors import UsageError
from harness.model.case import Case, Origin
from harness.model.outcome import Outcome, Status
from harness.model.verdict import Verdict
from harness.triage.known import KnownBug, KnownBugs, operators_of

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
        self._done: set[int] = set()
        self._next = settings.first_index
        self._stop = threading.Event()
        self._abandoned = threading.Event()
        self._reason = "every case asked for was run"
        self._findings = 0
        self._hits: Counter[str] = Counter()
        self._busy: set[tuple[str, str, str]] = set()
        self._deferred: list[tuple[int, Evaluation, TargetSpec, Verdict]] = []
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
        self.stop("interrupted")
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
        return itertools.count(first) if count is None else iter(range(first, first + count))

    def _take(self) -> int | None:
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self.stop("the time budget is spent")
        if self._stop.is_set():
            return None
        with self._lock:
            return next(self._indices, None)

    def _work(self, slot: int) -> None:
        try:
            runner = self._runner(slot)
            evaluator = Evaluator(runner, options=self.settings.options)
            investigator = Investigator(evaluator, runner, self.known, self.settings.effort)
            while (index := self._take()) is not None:
                self._one(index, evaluator, investigator)
                self._finished(index)
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

    def _one(self, index: int, evaluator: Evaluator, investigator: Investigator) -> None:
        try:
            case, origin = self._draw(index)
        except Exception as error:  # a generator's fault costs this case, not the night
            message = f"the case could not be drawn: {type(error).__name__}: {error}"
            self._tell(events.HarnessFault(index, "", "generator", message, traceback.format_exc()))
            return
        evaluation = evaluator.evaluate(case, self.settings.targets)
        self._report(index, evaluation)
        for target, verdict in self._disputes(evaluation):
            self._tell(
                events.Disagreement(
                    index, evaluation.id, verdict.target, verdict.kind.value, int(verdict.severity), verdict.message, verdict.node or ""
                )
            )
            self._handle(index, evaluation, origin, target, verdict, investigator)

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

    def _handle(
        self, index: int, evaluation: Evaluation, origin: Origin, target: TargetSpec, verdict: Verdict, investigator: Investigator
    ) -> None:
        explained = investigator.explain(evaluation, target, verdict)
        if isinstance(explained, Explained) and not self._recheck(explained.bug):
            self._hit(index, evaluation, target, explained.bug)
            return
        place = (target.name, verdict.kind.value, _operator_at(evaluation, verdict))
        with self._lock:
            taken = place in self._busy
            if taken:
                self._deferred.append((index, evaluation, target, verdict))
            else:
                self._busy.add(place)
        if taken:
            return
        try:
            self._tell(events.Investigating(index, evaluation.id, target.name, verdict.kind.value))
            self._settle(index, evaluation, origin, target, verdict, investigator)
        finally:
            with self._lock:
                self._busy.discard(place)

    def _recheck(self, bug: KnownBug) -> bool:
        with self._lock:
            self._hits[bug.signature] += 1
            return self._hits[bug.signature] % self.settings.recheck_every == 0

    def _settle(
        self, index: int, evaluation: Evaluation, origin: Origin, target: TargetSpec, verdict: Verdict, investigator: Investigator
    ) -> None:
        try:
            result = investigator.investigate(evaluation, target, verdict)
            if isinstance(result, Explained):
                self._hit(index, evaluation, target, result.bug)
            elif isinstance(result, Dropped):
                self._tell(events.Discarded(index, evaluation.id, target.name, verdict.kind.value, result.reason))
            else:
                self._save(index, evaluation, origin, result)
        except UsageError:
            raise  # the log or the disk: nothing that follows could be kept
        except Exception as error:  # a fault of ours in one finding costs that finding, and is shown, not the night
            message = f"investigation of {verdict.kind.value} failed: {type(error).__name__}: {error}"
            self._tell(events.HarnessFault(index, evaluation.id, target.name, message, traceback.format_exc()))

    def _hit(self, index: int, evaluation: Evaluation, target: TargetSpec, bug: KnownBug) -> None:
        self._tell(events.KnownHit(index, evaluation.id, target.name, bug.signature, bug.link))

    def _save(self, index: int, evaluation: Evaluation, origin: Origin, finding: Finding) -> None:
        finding = dataclasses.replace(finding, origin=origin)
        signature = self._keeper.sign(finding)
        bug = KnownBug(signature, finding.target.name, finding.verdict.kind.value, finding.operator, frozenset(finding.trigger))
        is_new = self.known.add(bug)
        if finding.features:
            self.known.remember(bug.target, bug.kind, finding.operator, finding.features, signature)
        if not is_new:
            self._hit(index, evaluation, finding.target, self.known.get(signature) or bug)
            return
        saved = self._keeper.save(finding)
        with self._lock:
            self._findings += 1
            enough = self.settings.max_findings is not None and self._findings >= self.settings.max_findings
        verdict = finding.verdict
        self._tell(
            events.FindingSaved(
                index,
                evaluation.id,
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

    def _work_off(self, investigator: Investigator) -> None:
        """Look again at what was put aside because its like was being investigated."""
        while not self._stop.is_set() or self._reason != "interrupted":
            with self._lock:
                if not self._deferred:
                    return
                index, evaluation, target, verdict = self._deferred.pop(0)
            explained = investigator.explain(evaluation, target, verdict)
            if isinstance(explained, Explained):
                self._hit(index, evaluation, target, explained.bug)
            elif self._deadline is None or time.monotonic() < self._deadline:
                self._settle(index, evaluation, self._draw(index)[1], target, verdict, investigator)
            else:
                self._tell(
                    events.Discarded(index, evaluation.id, target.name, verdict.kind.value, "not investigated: the time budget is spent")
                )


_REFERENCE = TargetSpec("eager", "harness.backends.eager:EagerBackend", "PyTorch eager, the reference", family="eager")


def _operator_at(evaluation: Evaluation, verdict: Verdict) -> str:
    names: Mapping[str, str] = operators_of(evaluation.case)
    return names.get(verdict.node or "", "")


def _fault(index: int, case: str, target: str, outcome: Outcome) -> events.HarnessFault:
    where = f" at {outcome.node}" if outcome.node else ""
    return events.HarnessFault(
        index, case, target, f"{outcome.stage}{where}: {outcome.message}"[:500], outcome.artifacts.get("traceback", "")
    )
