"""What a story says: the first pass after which the meaning, the IR or a type is no longer right."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from harness.model.outcome import CallResult, Outcome
from harness.model.story import Fault, FixpointStory, Interpreted, PassStep, StepFault
from harness.model.values import Value
from harness.model.verdict import Kind, Severity, Verdict

# What a run of one program over `calls` gave, judged against eager: verdicts on values, types, structure and mutations.
Compare = Callable[[tuple[int, ...], tuple[CallResult, ...]], Sequence[Verdict]]

_KINDS = {
    Fault.INVALID_IR: (Kind.INVALID_IR, Severity.INVALID_IR, "leaves invalid IR"),
    Fault.SILENT_ERROR: (Kind.SILENT_ERROR, Severity.ERROR, "reports an error and succeeds"),
    Fault.PASS_FAILURE: (Kind.ERROR, Severity.ERROR, "fails"),
    Fault.UNEXECUTABLE: (Kind.UNEXECUTABLE, Severity.CONTRACT, "leaves IR that eager PyTorch does not run"),
    Fault.WRONG_TYPE: (Kind.DECLARED_SHAPE, Severity.CONTRACT, "declares a type that the real tensor does not have"),
    Fault.CONTRADICTION: (Kind.DECLARED_SHAPE, Severity.CONTRACT, "contradicts an earlier type"),
    Fault.LESS_PRECISE: (Kind.DECLARED_SHAPE, Severity.CONTRACT, "says less than an earlier type"),
    Fault.CYCLE: (Kind.NO_CONVERGENCE, Severity.INVALID_IR, "goes round in a cycle"),
    Fault.NO_CONVERGENCE: (Kind.NO_CONVERGENCE, Severity.INVALID_IR, "does not converge"),
    Fault.SLOW: (Kind.BLOW_UP, Severity.CRASH, "takes too long"),
    Fault.MEMORY: (Kind.BLOW_UP, Severity.CRASH, "takes too much memory"),
    Fault.GROWTH: (Kind.BLOW_UP, Severity.CRASH, "makes the IR grow without end"),
}
_TYPES = (Kind.DECLARED_SHAPE, Kind.DECLARED_DTYPE)
_OF_VALUES = (Kind.VALUE, Kind.SPECIAL, Kind.DTYPE, Kind.SHAPE, Kind.STRUCTURE, Kind.MUTATION)
_FOLLOWS = {Fault.UNEXECUTABLE, Fault.WRONG_TYPE}  # of a pass whose wrong values are told already


def of_stories(observed: Outcome, compare: Compare) -> Iterator[Verdict]:
    """What is wrong in each story, each kind by the first pass that shows it; what several stories show is told once."""
    judged: list[tuple[tuple[int, ...], tuple[Interpreted, ...], Sequence[Verdict]]] = []

    def verdicts(calls: tuple[int, ...], answers: tuple[Interpreted, ...]) -> Sequence[Verdict]:
        for known_calls, known, found in judged:
            if (known_calls, known) == (calls, answers):
                return found
        found = compare(calls, tuple(CallResult(each.output, each.mutated) for each in answers))
        judged.append((calls, answers, found))
        return found

    kept: dict[tuple[Value, ...], Verdict] = {}
    for story in observed.stories:
        wrong = [verdicts(story.calls, answers) for answers in story.results]
        place = f"{story.pipeline} ({story.route})"
        for verdict in _of_story(story, observed.target, wrong):
            key = (verdict.kind, verdict.stage, verdict.path, verdict.call)
            first = kept.setdefault(key, verdict)
            guilty = dict(first.detail["guilty"])
            places = guilty.get("shown_by", [])
            if place not in places:
                kept[key] = dataclasses.replace(first, detail={**first.detail, "guilty": {**guilty, "shown_by": [*places, place]}})
    yield from kept.values()


def _of_story(story: FixpointStory, target: str, wrong: Sequence[Sequence[Verdict]]) -> Iterator[Verdict]:
    """`wrong` holds the verdicts on each of the story's results."""
    guilty = next((i for i, step in enumerate(story.steps) if step.result is not None and wrong[step.result]), None)
    if guilty is not None:
        step = story.steps[guilty]
        assert step.result is not None
        for verdict in wrong[step.result]:
            yield dataclasses.replace(
                verdict,
                oracle="pipeline",
                target=target,
                stage=step.name,
                message=_sentence(story, step, verdict.message),
                detail={**verdict.detail, "guilty": evidence(story, guilty)},
            )
    told: set[Kind] = set()
    for index, step in enumerate(story.steps):
        for fault in step.faults:
            kind, severity, what = _KINDS[fault.kind]
            if kind in _TYPES:
                kind = _type_kind(fault)
            follows = guilty is not None and index >= guilty and fault.kind in _FOLLOWS
            if kind in told or follows:
                continue
            told.add(kind)
            first = fault.message.strip().split("\n")[0][:300]
            detail: dict[str, Value] = {"guilty": evidence(story, index, fault)}
            if kind in _TYPES:
                detail |= {"expected": fault.expected, "actual": fault.actual, "source": "torch-mlir"}
            text = _sentence(story, step, f"{step.name} {what}: {first}")
            yield Verdict("pipeline", kind, target, severity, text, step.name, None, fault.call, detail=detail)


def evidence(story: FixpointStory, index: int, fault: StepFault | None = None) -> dict[str, Value]:
    """Which pass, in which iteration of which pipeline by which route, between which snapshots, and what shows it."""
    step, before = story.steps[index], story.steps[max(index - 1, 0)]
    found: dict[str, Value] = {
        "pass": step.name,
        "text": step.text,
        "iteration": step.iteration,
        "step": index,
        "route": story.route,
        "pipeline": story.pipeline,
        "dynamic": story.dynamic,
        "before": before.digest,
        "after": step.digest,
    }
    if fault is not None:
        found |= {"op": fault.op, "expected": fault.expected, "actual": fault.actual}
    elif step.change is not None:
        change = step.change
        found |= {"op": change.op, "node": change.node, "expected": change.expected, "actual": change.actual, "call": change.call}
    return found


def _type_kind(fault: StepFault) -> Kind:
    """Whether it is the dtype or the shape that is wrong: types are spelled `[2,?],float32`."""
    expected, actual = (text.rpartition(",") for text in (fault.expected, fault.actual))
    return Kind.DECLARED_SHAPE if expected[0] != actual[0] else Kind.DECLARED_DTYPE


def _sentence(story: FixpointStory, step: PassStep, text: str) -> str:
    place = f"after {step.name} in iteration {step.iteration} of {story.pipeline}" if step.iteration else "as imported"
    return f"{place} ({story.route}): {text}"


def is_of_values(verdict: Verdict) -> bool:
    """Whether it is the meaning that a pass has changed."""
    return verdict.oracle == "pipeline" and verdict.kind in _OF_VALUES
