"""The story of one program, for people: passes, what each changed, and where it went wrong."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence

from harness.model.story import Ending, FixpointStory, PassStep
from harness.model.verdict import Kind, Verdict

MAX_DIFF = 60  # lines
SNAPSHOT = "ir/"
_TYPES = (Kind.DECLARED_DTYPE, Kind.DECLARED_SHAPE)
_ENDINGS = {
    Ending.FIXPOINT: "nothing changes any more",
    Ending.REFUSED: "refused",
    Ending.FAULT: "cannot go on",
    Ending.CYCLE: "a cycle",
    Ending.BOUND: "still changing at the bound",
}


def story_lines(
    story: FixpointStory, verdicts: Sequence[Verdict], snapshots: Mapping[str, str], *, every: bool = False, diff: bool = False
) -> Iterator[str]:
    """One story, line by line; `every` keeps passes that changed nothing, `diff` shows all changes, not only the guilty ones."""
    runs = f"{story.iterations} iteration{'s' if story.iterations != 1 else ''}"
    sizes = ", sizes symbolic" if story.dynamic else ""
    yield f"{story.pipeline} ({story.route}{sizes}): {runs}, {_ENDINGS[story.ending]}{_contract(story)}"
    previous: PassStep | None = None
    quiet = 0
    for index, step in enumerate(story.steps):
        said = [verdict for verdict in verdicts if _is_of(verdict, story, index)]
        if not (every or said or step.changed or step.faults or step.diagnostics or previous is None):
            quiet += 1
        else:
            yield _step_line(step)
            yield from _types(previous, step)
            yield from (f"       {text}" for text in step.diagnostics)
            for verdict in said:
                yield f"     ! {verdict.kind.value}: {verdict.message.partition('): ')[2] or verdict.message}"
                yield from _evidence(verdict)
            if (said or diff) and previous is not None and step.changed:
                yield from _diff(snapshots, previous.digest, step.digest)
        previous = step
    if quiet:
        yield f"     ({quiet} passes that changed nothing are left out)"
    why = next((step.uninterpreted for step in story.steps if step.uninterpreted), "")
    if why:
        yield f"     values are not compared: {why}"
    if story.ending is Ending.REFUSED:
        yield f"     {story.message.splitlines()[0][:200]}"


def _contract(story: FixpointStory) -> str:
    if story.ending is not Ending.FIXPOINT:
        return ""
    return (
        "; the backend contract is met"
        if not story.contract
        else f"; the backend contract is not met: {story.contract.splitlines()[0][:160]}"
    )


def _is_of(verdict: Verdict, story: FixpointStory, index: int) -> bool:
    guilty = verdict.detail.get("guilty", {})
    same = (guilty.get("pipeline"), guilty.get("route"), guilty.get("step")) == (story.pipeline, story.route, index)
    shown = f"{story.pipeline} ({story.route})" in guilty.get("shown_by", ())
    return same or (shown and _first(story, verdict) == index)


def _first(story: FixpointStory, verdict: Verdict) -> int | None:
    """Where a story first shows what a verdict tells of another one."""
    guilty = verdict.detail["guilty"]
    steps = enumerate(story.steps)
    return next(
        (
            index
            for index, step in steps
            if step.name == guilty["pass"] and step.digest == guilty["after"] and (step.changed or step.faults)
        ),
        None,
    )


def _step_line(step: PassStep) -> str:
    number = f"{step.iteration:>3}" if step.iteration else "   "
    change = f"+{step.added} -{step.removed}" if step.changed else ""
    time = f"{step.seconds * 1000:.1f} ms" if step.seconds else ("as before" if step.reused else "")
    return f"{number}  {step.name:44} {change:>11} {step.size:>5} ops  {time}".rstrip()


def _types(previous: PassStep | None, step: PassStep) -> Iterator[str]:
    for name, kind in step.types.items():
        if previous is None or previous.types.get(name) not in (None, kind):
            yield f"       @{name}: {kind}"


def _evidence(verdict: Verdict) -> Iterator[str]:
    guilty = verdict.detail["guilty"]
    if guilty.get("op"):
        node = f" (node {guilty['node']})" if guilty.get("node") else ""
        yield f"       {guilty['op']}{node}"
    if guilty.get("expected") or guilty.get("actual"):
        right, wrong = ("the tensor", "declared") if verdict.kind in _TYPES else ("before", "after")
        yield f"         {right + ':':12} {guilty['expected']}"
        yield f"         {wrong + ':':12} {guilty['actual']}"


def _diff(snapshots: Mapping[str, str], before: str, after: str) -> Iterator[str]:
    old, new = snapshots.get(SNAPSHOT + before), snapshots.get(SNAPSHOT + after)
    if old is None or new is None:
        return
    lines = [line for line in difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=1)][2:]
    for line in lines[:MAX_DIFF]:
        yield f"       {line}"
    if len(lines) > MAX_DIFF:
        yield f"       and {len(lines) - MAX_DIFF} lines more"


def story_data(story: FixpointStory) -> dict[str, object]:
    """A story as plain data, without the values."""
    return {
        "route": story.route,
        "pipeline": story.pipeline,
        "dynamic": story.dynamic,
        "calls": list(story.calls),
        "ending": story.ending.value,
        "iterations": story.iterations,
        "contract": story.contract,
        "message": story.message,
        "steps": [_step_data(step) for step in story.steps],
    }


def _step_data(step: PassStep) -> dict[str, object]:
    change = step.change
    return {
        "pass": step.name,
        "text": step.text,
        "iteration": step.iteration,
        "digest": step.digest,
        "operations": step.size,
        "changed": step.changed,
        "added": step.added,
        "removed": step.removed,
        "seconds": step.seconds,
        "reused": step.reused,
        "types": dict(step.types),
        "diagnostics": list(step.diagnostics),
        "faults": [{"kind": fault.kind.value, "message": fault.message, "op": fault.op} for fault in step.faults],
        "answers": step.result,
        "uninterpreted": step.uninterpreted,
        "changed_operation": None
        if change is None
        else {"op": change.op, "node": change.node, "before": change.expected, "after": change.actual, "call": change.call},
    }
