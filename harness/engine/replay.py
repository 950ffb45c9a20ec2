"""Running a corpus entry again: does its target still behave as the entry says?"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from dataclasses import dataclass

from harness.backends.protocol import TargetSpec
from harness.corpus.entry import FIXED, OPEN, Entry
from harness.engine.evaluate import Evaluator
from harness.engine.investigate import TIMEOUT_PATIENCE, ReplayingRunner, after
from harness.model.case import Case
from harness.model.codec import to_wire
from harness.model.outcome import Job, Outcome, Status
from harness.model.verdict import Kind, Verdict, same_kind
from oracles import judge


class State(str, enum.Enum):
    """What became of an entry's bug."""

    STILL_FAILS = "STILL FAILS"
    FIXED = "FIXED"
    CHANGED = "CHANGED"  # it disagrees, in another kind
    REFUSES = "REFUSES"  # the target now says that it does not do this
    REFERENCE_CHANGED = "REFERENCE CHANGED"  # eager gives other values than stored
    CANNOT_RUN = "CANNOT RUN"


@dataclass(frozen=True, slots=True)
class Replay:
    """One entry run again: its state, one sentence, and the outcomes behind it."""

    entry: Entry
    state: State
    message: str
    reference: Outcome | None = None
    observed: Outcome | None = None
    verdict: Verdict | None = None

    @property
    def as_expected(self) -> bool:
        """Whether the entry's status holds: open bugs still fail, fixed ones stay fixed."""
        return self.state is (State.STILL_FAILS if self.entry.status == OPEN else State.FIXED)

    @property
    def conclusive(self) -> bool:
        """Whether the run says anything of the bug."""
        return self.state not in (State.REFUSES, State.CANNOT_RUN, State.REFERENCE_CHANGED)


def replay_entry(entry: Entry, target: TargetSpec, evaluator: Evaluator, runner: ReplayingRunner, *, against_stored: bool = True) -> Replay:
    """Run an entry's case on its target, as often as its reproducibility asks for.

    Eager must give the stored values, or nothing is said of the target; `against_stored=False` takes what it gives now.
    """
    shown, runs = entry.reproduced
    tries = 1 if shown == runs else 2 * runs
    last = Replay(entry, State.CANNOT_RUN, "was not run")
    for _ in range(tries):
        last = _once(entry, target, evaluator, runner, against_stored)
        if last.state is not State.FIXED:
            return last
    return last


@dataclass(frozen=True, slots=True)
class CaseReplay:
    """What one target did with a case of which nothing is expected."""

    target: str
    state: str
    message: str

    @property
    def disagrees(self) -> bool:
        """Whether it is at odds with eager."""
        return self.state == "DISAGREES"

    @property
    def conclusive(self) -> bool:
        """Whether it gave something to compare."""
        return self.state in ("DISAGREES", "AGREES")


def replay_case(case: Case, targets: Sequence[TargetSpec], evaluator: Evaluator) -> list[CaseReplay]:
    """A case on every target: DISAGREES, AGREES, REFUSES or CANNOT RUN, each with a sentence."""
    evaluation = evaluator.evaluate(case, targets)
    if not evaluation.valid:
        message = f"eager does not take the case: {evaluation.reference.message}"
        return [CaseReplay(target.name, State.CANNOT_RUN.value, message) for target in targets]
    found = []
    for target in targets:
        outcome, verdicts = evaluation.observed[target.name], evaluation.of(target.name)
        if outcome.status in (Status.HARNESS_ERROR, Status.INCONCLUSIVE):
            found.append(CaseReplay(target.name, State.CANNOT_RUN.value, outcome.message))
        elif verdicts:
            found += [CaseReplay(target.name, "DISAGREES", verdict.message) for verdict in verdicts]
        elif outcome.status is Status.UNSUPPORTED or (outcome.nodes and all(each.status is Status.UNSUPPORTED for each in outcome.nodes)):
            said = outcome.message or outcome.nodes[0].message
            found.append(CaseReplay(target.name, State.REFUSES.value, said.split("\n")[0]))
        else:
            found.append(CaseReplay(target.name, "AGREES", "with eager"))
    return found


def _once(entry: Entry, target: TargetSpec, evaluator: Evaluator, runner: ReplayingRunner, against_stored: bool) -> Replay:
    reference = evaluator.reference(entry.case)
    if reference.status in (Status.HARNESS_ERROR, Status.INCONCLUSIVE):
        return Replay(entry, State.CANNOT_RUN, f"eager could not be run: {reference.message}", reference)
    if reference.status is not Status.OK:
        return Replay(entry, State.REFERENCE_CHANGED, f"eager no longer takes the case: {reference.message}", reference)
    stored = dataclasses.replace(entry.reference, witness=reference.witness)
    changed = judge(entry.case, stored, dataclasses.replace(reference, declared=())) if against_stored else ()
    if changed:
        return Replay(entry, State.REFERENCE_CHANGED, f"eager gives other values than stored: {changed[0].message}", reference)
    if entry.victim is not None:
        return _with_victim(entry, target, evaluator, runner, reference)
    kind = entry.verdict.kind if entry.verdict is not None else entry.signature.kind
    patience = TIMEOUT_PATIENCE if kind is Kind.TIMEOUT and entry.status == FIXED else 1.0
    options = target.users_route if entry.route == "users" else None
    observed = evaluator.observe(entry.case, target, reference, patience=patience, options=options)
    return _classify(entry, reference, observed, evaluator.judge(entry.case, reference, observed), kind)


def _classify(entry: Entry, reference: Outcome, observed: Outcome, verdicts: tuple[Verdict, ...], kind: Kind) -> Replay:
    if observed.status in (Status.HARNESS_ERROR, Status.INCONCLUSIVE):
        return Replay(entry, State.CANNOT_RUN, observed.message, reference, observed)
    same = next((verdict for verdict in verdicts if same_kind(verdict.kind, kind)), None)
    if same is not None:
        return Replay(entry, State.STILL_FAILS, same.message, reference, observed, same)
    if verdicts:
        return Replay(
            entry, State.CHANGED, f"was {kind.value}, is {verdicts[0].kind.value}: {verdicts[0].message}", reference, observed, verdicts[0]
        )
    if observed.status is Status.UNSUPPORTED:
        return Replay(entry, State.REFUSES, f"{observed.target} now refuses: {observed.message}", reference, observed)
    return Replay(entry, State.FIXED, f"{observed.target} agrees with eager", reference, observed)


def _with_victim(entry: Entry, target: TargetSpec, evaluator: Evaluator, runner: ReplayingRunner, reference: Outcome) -> Replay:
    assert entry.victim is not None
    victim = evaluator.reference(entry.victim)
    jobs = [
        Job(to_wire(case), target.name, (), evaluator.witness_bytes(target, known))
        for case, known in ((entry.case, reference), (entry.victim, victim))
    ]
    observed = runner.replay(after(*jobs))
    if observed.status in (Status.CRASH, Status.TIMEOUT, Status.OOM):
        return Replay(entry, State.STILL_FAILS, f"the later case still ends in {observed.status.value}", reference, observed, entry.verdict)
    if observed.status in (Status.HARNESS_ERROR, Status.INCONCLUSIVE):
        return Replay(entry, State.CANNOT_RUN, observed.message, reference, observed)
    return Replay(entry, State.FIXED, "the later case survives", reference, observed)
