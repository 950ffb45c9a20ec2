"""Expected and actual values side by side, elements that differ marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.corpus.entry import Entry
from harness.model.dtypes import DTYPES, Array, widen
from harness.model.outcome import Outcome, Status
from harness.model.values import Tensor, Value, leaves
from harness.model.verdict import Kind

ROWS, COLUMNS = 12, 8
_OF_VALUES = (Kind.VALUE, Kind.SPECIAL, Kind.DTYPE, Kind.SHAPE, Kind.STRUCTURE, Kind.MUTATION)
MARK = "*"
LEGEND = f"{MARK} marks the elements that are not equal"


@dataclass(frozen=True, slots=True)
class Sides:
    """What eager gave and what the target gave, as lines of equal number; `place` says of which output."""

    expected: tuple[str, ...]
    actual: tuple[str, ...]
    place: str = ""
    worst: tuple[int, ...] | None = None


def sides(entry: Entry) -> Sides:
    """Both sides of an entry's disagreement; for what gave no value, what it did instead."""
    verdict = entry.verdict
    call = (verdict.call or 0) if verdict is not None else 0
    place = verdict.path if verdict is not None else ""
    expected = _at(_output(entry.reference, call), place)
    actual = _at(actual_output(entry), place)
    written = entry.reference.calls[call].mutated if len(entry.reference.calls) > call else {}
    if place in written:
        expected = written[place]
        actual = entry.observed.calls[call].mutated.get(place) if len(entry.observed.calls) > call else None
    if isinstance(expected, Tensor) and isinstance(actual, Tensor):
        index = verdict.detail.get("index") if verdict is not None else None
        worst = tuple(index) if isinstance(index, tuple | list) and all(type(each) is int for each in index) else None
        left, right = compared_lines(expected, actual, worst)
        return Sides(left, right, place, worst)
    said = did(entry.observed) or _story_says(entry)
    return Sides(lines_of(expected), (said,) if said else lines_of(actual), place)


def actual_output(entry: Entry) -> Value:
    """What the target returned in the call at issue; None where it returned nothing."""
    call = (entry.verdict.call or 0) if entry.verdict is not None else 0
    if entry.observed.calls:
        return _output(entry.observed, call)
    if entry.observed.stories:
        return _interpreted(entry, call)
    name = entry.verdict.node if entry.verdict is not None else None
    found = [each for each in entry.observed.nodes if each.call == call and each.status is Status.OK and name in (None, each.name)]
    return found[-1].output if found else None


def _interpreted(entry: Entry, call: int) -> Value:
    """What the IR gives after the guilty pass; None where it is not the values that are wrong."""
    guilty = entry.verdict.detail.get("guilty", {}) if entry.verdict is not None else {}
    for story in entry.observed.stories:
        for step in story.steps:
            if (step.name, step.digest) == (guilty.get("pass"), guilty.get("after")) and step.result is not None and call in story.calls:
                return story.results[step.result][story.calls.index(call)].output
    return None


def _story_says(entry: Entry) -> str:
    """What a pass did that is not about values; empty where it is, or where no pass is at issue."""
    verdict = entry.verdict
    if not entry.observed.stories or verdict is None or verdict.kind in _OF_VALUES:
        return ""
    return verdict.message.partition("): ")[2].split("\n")[0][:300]


def did(outcome: Outcome) -> str:
    """What a target did that returned no value, in a few words; empty where it returned one."""
    if outcome.status is Status.OK:
        return ""
    if outcome.status is Status.TIMEOUT:
        return "no answer before the deadline"
    if outcome.death is not None:
        code = outcome.death.exit_code
        return f"the process dies: {outcome.death.signal or (outcome.status.value if code is None else f'exit code {code}')}"
    first = next((line.strip() for line in outcome.message.splitlines() if line.strip()), "no message")
    return f"fails: {first[:300]}"


def lines_of(value: Value) -> tuple[str, ...]:
    """A value as a few lines: dtype and shape of each tensor, then its elements."""
    found: list[str] = []
    for path, leaf in leaves(value):
        head = f"{path} " if path else ""
        if isinstance(leaf, Tensor):
            found.append(f"{head}{leaf.dtype} {list(leaf.shape)}")
            found += _rows(leaf, _formatted(leaf), None)
        else:
            found.append(f"{head}{leaf!r}")
    return tuple(found)


def compared_lines(expected: Tensor, actual: Tensor, worst: tuple[int, ...] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Two tensors as lines, elements that differ marked; of large ones, what surrounds the worst."""
    left, right = _formatted(expected), _formatted(actual)
    head = tuple(f"{tensor.dtype} {list(tensor.shape)}" for tensor in (expected, actual))
    if expected.shape == actual.shape:
        differ = left != right if expected.dtype == actual.dtype else _unequal(expected, actual)
        places = np.argwhere(differ)
        if worst is None or len(worst) != len(expected.shape) or any(i >= n for i, n in zip(worst, expected.shape, strict=True)):
            worst = tuple(int(each) for each in places[0]) if len(places) else None
        for place in places:
            for side in (left, right):
                side[tuple(place)] += MARK
    else:
        worst = None
    return (head[0], *_rows(expected, left, worst)), (head[1], *_rows(actual, right, worst))


def _unequal(expected: Tensor, actual: Tensor) -> Array:
    """Where elements of different dtypes are different numbers."""
    one, two = (widen(tensor.array(), tensor.dtype) if tensor.dtype == "bfloat16" else tensor.array() for tensor in (expected, actual))
    result: Array = np.asarray((one != two) & ~((one != one) & (two != two)))
    return result


def beside(left: Sequence[str], right: Sequence[str], heads: tuple[str, str]) -> list[str]:
    """Two columns of text under their headings."""
    width = max(len(line) for line in (heads[0], *left))
    rows = max(len(left), len(right))
    columns = [[heads[0], *left], [heads[1], *right]]
    padded = [[*column, *[""] * (rows + 1 - len(column))] for column in columns]
    return [f"{one:{width}}  |  {two}".rstrip() for one, two in zip(*padded, strict=True)]


def _output(outcome: Outcome, call: int) -> Value:
    return outcome.calls[call].output if len(outcome.calls) > call else None


def _at(value: Value, path: str) -> Value:
    """The leaf at a verdict's path, or all of the value where there is none."""
    return next((leaf for where, leaf in leaves(value) if where == path), value)


def _formatted(tensor: Tensor) -> Array:
    """Every element as text, as Python would write it."""
    array = widen(tensor.array(), tensor.dtype) if DTYPES[tensor.dtype].kind in ("float", "complex") else tensor.array()
    flat = array.reshape(-1)
    texts = [str(each) for each in flat]
    result: Array = np.array(texts, dtype=object).reshape(tensor.shape)
    return result


def _rows(tensor: Tensor, texts: Array, worst: tuple[int, ...] | None) -> list[str]:
    """A window of rows (the last dim is a row) around the worst element, as Python writes lists."""
    if texts.size == 0:
        return ["(no elements)"]
    if not tensor.shape:
        return [str(texts[()])]
    columns = tensor.shape[-1]
    table = texts.reshape(-1, columns)
    flat = int(np.ravel_multi_index(worst, tensor.shape)) if worst is not None else 0
    row, column = divmod(flat, columns)
    first, start = _window(row, len(table), ROWS), _window(column, columns, COLUMNS)
    found = [f"... {first} rows before"] if first else []
    for number in range(first, min(first + ROWS, len(table))):
        shown = list(table[number, start : start + COLUMNS])
        cut = (["..."] if start else []) + shown + (["..."] if start + COLUMNS < columns else [])
        found.append(f"[{', '.join(cut)}]")
    left = len(table) - first - ROWS
    return found + ([f"... {left} rows more"] if left > 0 else [])


def _window(at: int, length: int, size: int) -> int:
    return max(0, min(at - size // 2, length - size))
