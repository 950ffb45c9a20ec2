"""Shrinking an entry again: the same target, the same kind of disagreement, a smaller case."""

from __future__ import annotations

import dataclasses
import enum
import time
from collections.abc import Callable
from dataclasses import dataclass

from harness.backends.protocol import TargetSpec
from harness.corpus.entry import Entry
from harness.engine.evaluate import Evaluation, Evaluator
from harness.engine.investigate import Dropped, Effort, Explained, Investigator, ReplayingRunner
from harness.engine.keeper import CUT_SHORT, FindingKeeper
from harness.errors import UsageError
from harness.minimize.edits import literal_case
from harness.minimize.order import size_key
from harness.model.codec import case_id
from harness.model.outcome import Status
from harness.triage.known import KnownBugs

# What an interruption can cost at most, in seconds: each slice that helped is written down.
SLICE = 60.0
UNBOUNDED = 10**9


class Shrunk(str, enum.Enum):
    """How far an entry was shrunk."""

    SMALLER = "SMALLER"
    MINIMAL = "ALREADY MINIMAL"
    OUT_OF_BUDGET = "OUT OF BUDGET"
    GONE = "NOT SEEN"  # the disagreement does not show, so nothing can be said of smaller cases


@dataclass(frozen=True, slots=True)
class Step:
    """One slice: the entry as it is now, and whether a further slice may find something smaller."""

    entry: Entry
    state: Shrunk
    complete: bool
    message: str = ""


class Shrinker:
    """Shrinks entries on one runner; `save` is given each smaller entry at once and gives it back as it was written."""

    def __init__(
        self,
        evaluator: Evaluator,
        runner: ReplayingRunner,
        keeper: FindingKeeper,
        save: Callable[[Entry], Entry],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._evaluator = evaluator
        self._runner = runner
        self._keeper = keeper
        self._save = save
        self._clock = clock

    def shrink(self, entry: Entry, target: TargetSpec, *, seconds: float) -> Step:
        """Shrink an entry within a budget of wall time; raises UsageError for what cannot be shrunk again."""
        if entry.victim is not None:
            raise UsageError(f"{entry.slug} kills a later case in the same process; such a pair is not shrunk again")
        if entry.verdict is None:
            raise UsageError(f"{entry.slug} is {entry.status} and holds no disagreement to keep")
        deadline = self._clock() + seconds
        smaller, allowed = False, SLICE
        while True:
            left = deadline - self._clock()
            step = self._slice(entry, target, max(1.0, min(allowed, left)))
            if step.state is Shrunk.SMALLER:
                smaller, entry = True, step.entry
            else:
                allowed = max(left, SLICE)  # what a slice has tried in vain, the next one tries again: give it the whole budget
            over = deadline - self._clock() <= 0
            if step.state is Shrunk.GONE or step.complete or over:
                state = Shrunk.SMALLER if smaller and step.state is not Shrunk.GONE else step.state
                return dataclasses.replace(step, entry=entry, state=state)

    def _slice(self, entry: Entry, target: TargetSpec, seconds: float) -> Step:
        assert entry.verdict is not None
        reference = self._evaluator.reference(entry.case)
        if reference.status is not Status.OK:
            return Step(entry, Shrunk.GONE, True, f"eager no longer takes the case: {reference.message}")
        evaluation = Evaluation(entry.case, case_id(entry.case), reference)
        effort = Effort(max_executions=UNBOUNDED, seconds=seconds)
        investigator = Investigator(self._evaluator, self._runner, KnownBugs(), effort)
        finding = investigator.investigate(evaluation, target, entry.verdict)
        if isinstance(finding, Dropped | Explained):
            return Step(entry, Shrunk.GONE, True, finding.reason if isinstance(finding, Dropped) else finding.bug.signature)
        ended = Shrunk.MINIMAL if finding.complete else Shrunk.OUT_OF_BUDGET
        if size_key(finding.case) >= size_key(literal_case(entry.case)):
            return Step(entry, ended, finding.complete)
        fresh, proof = self._keeper.rendered(finding)
        proven = entry.repro is None or proof.shown
        if not proven:
            return Step(entry, ended, True, f"the reproducer of a smaller case does not show the bug: {proof.output.strip()[-200:]}")
        drawn = entry.found.nodes or len(entry.case.program.operators)
        kept = dataclasses.replace(entry.found, nodes=drawn)
        notes = "; ".join(dict.fromkeys([*_own_notes(entry.notes), *filter(None, fresh.notes.split("; "))]))
        told = dataclasses.replace(fresh, upstream=entry.upstream, found=kept, path=entry.path, notes=notes)
        return Step(self._save(told), Shrunk.SMALLER, finding.complete)


def _own_notes(notes: str) -> list[str]:
    """What people wrote: the remarks on how minimization went are made anew."""
    remarks = (CUT_SHORT, "flaky: ", "repro.py goes through fxdiff: ")
    return [part for part in notes.split("; ") if part and not part.startswith(remarks)]
