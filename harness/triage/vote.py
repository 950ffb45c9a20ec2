"""Which part of a system is at fault: the same case by other ways through it, each right, wrong alike, or no help."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.backends.protocol import WITHOUT_OPTIONS
from harness.model.outcome import Outcome, Status
from harness.model.verdict import Kind, Verdict, same_kind

ARTIFACT = "vote"
EVERY_WAY = "every way"
OPTIONS = "the options"
_VALUES = (Kind.VALUE, Kind.SPECIAL)
_ENOUGH = 2
_NEAR = 1e-3
_CHECK = re.compile(r"[\w/]+\.(?:cpp|h|cc|cu):\d+\]")  # where a check stands, as glog tells it


class Answer(str, enum.Enum):
    """What one way to the results says of a disagreement."""

    RIGHT = "right"
    ALIKE = "wrong alike"
    OTHERWISE = "wrong otherwise"
    SILENT = "refuses"


@dataclass(frozen=True, slots=True)
class Ballot:
    """One way's answer, with what it said of its refusal or of its other failure."""

    voter: str
    answer: Answer
    says: str = ""

    def __str__(self) -> str:
        return f"{self.voter}: {self.answer.value}" + (f": {self.says}" if self.says else "")


def ballot(voter: str, accused: Outcome, verdict: Verdict, observed: Outcome, verdicts: Sequence[Verdict]) -> Ballot:
    """What `observed`, judged by `verdicts`, says of the disagreement that `verdict` names in `accused`."""
    if not verdicts:
        if observed.status is Status.OK:
            return Ballot(voter, Answer.RIGHT)
        return Ballot(voter, Answer.SILENT, observed.message.strip().split("\n")[0][:120])
    same = next((found for found in verdicts if _alike(verdict, found, accused, observed)), None)
    return Ballot(voter, Answer.ALIKE) if same is not None else Ballot(voter, Answer.OTHERWISE, verdicts[0].message.split("\n")[0][:120])


def _alike(verdict: Verdict, found: Verdict, accused: Outcome, observed: Outcome) -> bool:
    if not same_kind(verdict.kind, found.kind) or found.path != verdict.path:
        return False
    if verdict.kind not in _VALUES:
        return found.stage == verdict.stage or _same_words(verdict, found, accused, observed)
    if accused.calls == observed.calls:
        return True
    keys = ("index", "differing", "total")
    return all(verdict.detail.get(key) == found.detail.get(key) for key in keys) and _near(verdict.detail, found.detail)


def _same_words(verdict: Verdict, found: Verdict, accused: Outcome, observed: Outcome) -> bool:
    """Whether two failures say the same, wherever they say it: one message, or a check that failed in one line of the sources."""
    if accused.death is None and observed.death is None:
        return bool(accused.message) and accused.message == observed.message
    checks = [_CHECK.search(each.message) for each in (verdict, found)]
    return checks[0] is not None and checks[1] is not None and checks[0][0] == checks[1][0]


def _near(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    first, second = one.get("actual"), other.get("actual")
    if isinstance(first, int | float) and isinstance(second, int | float):
        return math.isclose(first, second, rel_tol=_NEAR) or (math.isnan(first) and math.isnan(second))
    return first == second


def blame(ballots: Sequence[Ballot], accused: str, *, layered: bool = False) -> str:
    """The voter at fault: EVERY_WAY where all that ran are wrong alike, `accused` where any is right; else nothing.

    Of voters in layers, each of which is the one before and something more, the first that is wrong is at fault.

    `accused` is the voter whose disagreement is at issue; it stands among the ballots as wrong. OPTIONS are at fault where
    it is right without them.
    """
    if any(each.voter == WITHOUT_OPTIONS and each.answer is Answer.RIGHT for each in ballots):
        return OPTIONS
    if layered:
        wrong = (each.voter for each in ballots if each.answer in (Answer.ALIKE, Answer.OTHERWISE))
        return next((voter for voter in wrong if voter != WITHOUT_OPTIONS), "")
    ran = [each for each in ballots if each.voter != WITHOUT_OPTIONS and each.answer is not Answer.SILENT]
    if any(each.answer is Answer.RIGHT for each in ran):
        return accused  # what all ways have in common is right
    return EVERY_WAY if len(ran) >= _ENOUGH and all(each.answer is Answer.ALIKE for each in ran) else ""


def told(ballots: Sequence[Ballot], accused: str, *, layered: bool = False) -> str:
    """The vote as text for an outcome's artifacts: a line for each ballot, and what follows from them."""
    lines = [f"{each.voter}: wrong" if each.voter == accused else str(each) for each in ballots]
    conclusion = conclude(ballots, accused, layered=layered)
    return "\n".join([*lines, f"so: {conclusion}"] if conclusion else lines)


def conclude(ballots: Sequence[Ballot], accused: str, *, layered: bool = False) -> str:
    """The vote in a sentence; empty where nobody else could say anything."""
    at_fault = blame(ballots, accused, layered=layered)
    if at_fault == EVERY_WAY:
        return "all are wrong alike, so it is wrong before they part"
    if at_fault == OPTIONS:
        return "without these options it is right"
    if not at_fault:
        return ""
    if layered:
        return f"the layer at fault is {at_fault}"
    wrong = [each.voter for each in ballots if each.answer in (Answer.ALIKE, Answer.OTHERWISE)]
    return f"only {accused} is wrong" if len(wrong) == 1 else f"{' and '.join(wrong)} are wrong, each by itself"


def in_a_line(vote: str) -> str:
    """A vote as `told` writes it, in one line."""
    return "; ".join(vote.split("\n"))
