"""Where a torch-mlir finding comes from: the guilty pass and pattern, or the stage below the torch dialect."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.model.outcome import Outcome, Status
from harness.model.story import Ending
from harness.model.values import Value
from harness.model.verdict import Kind, Verdict

ARTIFACT = "guilty"
SNAPSHOT = "ir/"  # and the digest: the artifact of a snapshot
ORACLE = "pipeline"  # the oracle whose verdicts name a pass
_BELOW = {"linalg": "TorchToLinalg or later", "tosa": "TorchToTosa or later", "stablehlo": "TorchToStablehlo or later"}
_VALUES = (Kind.VALUE, Kind.SPECIAL, Kind.DTYPE, Kind.SHAPE, Kind.STRUCTURE, Kind.MUTATION, Kind.WHOLE_ONLY)
_LEFT = (Kind.ERROR, Kind.UNEXECUTABLE, Kind.SILENT_ERROR)
_FAILURES = (Kind.ERROR, Kind.INVALID_IR, Kind.CRASH, Kind.TIMEOUT, Kind.OOM)
_TYPES = (Kind.DECLARED_DTYPE, Kind.DECLARED_SHAPE)


@dataclass(frozen=True, slots=True)
class Guilt:
    """The part at fault, `place`: a pass, `import`, or the lowering below the torch dialect; empty where nobody can tell.

    `reason` says why nobody can, or what shows it. The operation's value is `expected` before the pass and `actual` after it.
    `text` is the pass as a pipeline holds it, `before` and `after` name the snapshots on its two sides.
    """

    place: str
    reason: str = ""
    pipeline: str = ""
    route: str = ""
    iteration: int = 0
    step: int = 0
    op: str = ""
    node: str = ""
    expected: str = ""
    actual: str = ""
    pattern: str = ""
    pattern_op: str = ""
    text: str = ""
    before: str = ""
    after: str = ""

    @property
    def address(self) -> str:
        """The step, as a job that looks for the pattern names it; empty where there is no pass."""
        return f"{self.route}|{self.pipeline}|{self.step}" if self.step else ""

    @property
    def search(self) -> dict[str, str]:
        """The options of a job that looks for the pattern."""
        return {"route": self.route.partition("+")[0], "pipeline": self.pipeline, "pattern": self.address}


def of_verdict(verdict: Verdict) -> Guilt:
    """What a verdict of the pipeline's oracle says."""
    told: Mapping[str, Value] = verdict.detail["guilty"]
    return Guilt(
        told["pass"],
        verdict.message.split("\n")[0],
        told["pipeline"],
        told["route"],
        told["iteration"],
        told["step"],
        told.get("op", ""),
        told.get("node", ""),
        told.get("expected", ""),
        told.get("actual", ""),
        text=told.get("text", ""),
        before=told.get("before", ""),
        after=told.get("after", ""),
    )


def of_followed(verdict: Verdict, followed: Outcome, verdicts: Sequence[Verdict], *, lowering: str) -> Guilt:
    """Who is guilty of `verdict`, given the same case followed pass by pass and what the oracles say of that.

    Where no pass of the torch dialect is, it is the lowering, unless a snapshot could not be run.
    """
    if followed.death is not None:
        return Guilt(followed.stage, f"the process ends here too: {followed.message or followed.status.value}")
    ranked = sorted((found for found in verdicts if found.oracle == ORACLE), key=lambda found: _rank(verdict, found))
    if ranked and _rank(verdict, ranked[0]) < _UNRELATED:
        return of_verdict(ranked[0])
    if followed.status not in (Status.OK, Status.UNSUPPORTED) or not followed.stories:
        return Guilt("", followed.message.split("\n")[0] or f"not followed: {followed.status.value}")
    story = followed.stories[0]
    unrun = next((step for step in story.steps if step.result is None), None)
    if unrun is not None and verdict.kind in _VALUES:
        return Guilt("", f"after {unrun.name}: {unrun.uninterpreted or 'not run'}")
    if story.ending is Ending.REFUSED:
        return Guilt(story.steps[-1].name, story.message.split("\n")[0])
    return Guilt(_BELOW.get(lowering, "below the torch dialect"), "every snapshot of the torch dialect gives what eager gives")


_UNRELATED = 3


def _rank(verdict: Verdict, found: Verdict) -> int:
    """How near a verdict of the pipeline's oracle is to the one to be explained."""
    if found.kind is verdict.kind:
        return 0
    if found.kind in _VALUES and verdict.kind in _VALUES:
        return 1
    if verdict.kind in (*_VALUES, *_TYPES) and found.kind in (*_VALUES, *_TYPES, *_LEFT):
        return 2
    if verdict.kind in _FAILURES and found.kind in (*_VALUES, *_TYPES, *_LEFT, Kind.INVALID_IR):
        return 2  # a lowering trips over what an earlier pass left
    return _UNRELATED


def with_pattern(guilt: Guilt, followed: Outcome) -> Guilt:
    """The guilt with the pattern that a run which looked for it found."""
    name, _, op = followed.artifacts.get("pattern", "").partition("\n")
    return dataclasses.replace(guilt, pattern=name, pattern_op=op)


def snapshots(guilt: Guilt, followed: Outcome) -> dict[str, str]:
    """The IR on the two sides of the guilty pass, as artifacts."""
    wanted = {SNAPSHOT + digest for digest in (guilt.before, guilt.after) if digest}
    return {name: text for name, text in followed.artifacts.items() if name in wanted}


def to_text(guilt: Guilt) -> str:
    """The guilt as the artifact holds it."""
    return json.dumps(plain(guilt), indent=1, sort_keys=True)


def from_text(text: str) -> Guilt | None:
    """The guilt that an artifact holds; None for a text that is none."""
    try:
        data = json.loads(text)
    except ValueError:
        return None
    if not isinstance(data, dict):
        return None
    kept: dict[str, Any] = {
        item.name: data[item.name] for item in dataclasses.fields(Guilt) if type(data.get(item.name)).__name__ == item.type
    }
    return Guilt(**{"place": "", **kept})


def of_entry(observed: Outcome) -> Guilt | None:
    """What is stored with an outcome."""
    text = observed.artifacts.get(ARTIFACT, "")
    return from_text(text) if text else None


def data(observed: Outcome) -> dict[str, object] | None:
    """What is stored with an outcome, as plain data."""
    found = of_entry(observed)
    return plain(found) if found is not None else None


def plain(found: Guilt) -> dict[str, object]:
    """A guilt as plain data, without what is not known."""
    return {key: value for key, value in dataclasses.asdict(found).items() if value not in ("", 0)}


def in_a_line(guilt: Guilt) -> str:
    """Who is guilty, for people."""
    if not guilt.place:
        return f"not known: {guilt.reason}"
    words = guilt.place
    if guilt.pattern:
        words += f", pattern {guilt.pattern}"
    if guilt.op and guilt.op not in words:
        words += f", at {guilt.op.removeprefix('torch.')}"
    if guilt.iteration > 1:
        words += f", in iteration {guilt.iteration} of {guilt.pipeline}"
    return words
