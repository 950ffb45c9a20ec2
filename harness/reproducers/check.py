"""What a reproducer compares: the results in dispute, what they should be, and how near is near enough."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass

from harness.model.values import Tensor, Value, leaves
from harness.model.verdict import Kind, Verdict

PROCESS_KINDS = (Kind.CRASH, Kind.TIMEOUT, Kind.OOM)
ERROR_KINDS = (Kind.ERROR, Kind.INVALID_IR)
DECLARED_KINDS = (Kind.DECLARED_DTYPE, Kind.DECLARED_SHAPE)
VALUE_KINDS = (Kind.VALUE, Kind.SPECIAL)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """|actual - expected| <= atol + rtol * |expected|; with `signs`, zeros must agree in sign too."""

    rtol: float = 0.0
    atol: float = 0.0
    signs: bool = False


def tolerance_of(verdict: Verdict) -> Tolerance:
    """The tolerance that the verdict's worst element went past, half of it absolute and half in proportion."""
    signs = verdict.detail.get("special") == "signed-zero"
    allowed, expected = verdict.detail.get("tolerance"), verdict.detail.get("expected")
    if not isinstance(allowed, float) or not math.isfinite(allowed) or allowed <= 0:
        return Tolerance(signs=signs)
    if isinstance(expected, int | float) and math.isfinite(expected) and abs(expected) > allowed:
        return Tolerance(allowed / 2 / abs(expected), allowed / 2, signs)
    return Tolerance(0.0, allowed, signs)


def compared(verdict: Verdict, output: Value) -> list[int]:
    """Which tensors of `output`, in order, a verdict is about: one where it names a place, else all of them."""
    places = [path for path, leaf in leaves(output) if isinstance(leaf, Tensor)]
    if verdict.kind in VALUE_KINDS and verdict.path in places:
        return [places.index(verdict.path)]
    return list(range(len(places)))


def docstring(verdict: Verdict, note: str = "") -> str:
    """A reproducer's first words: what is wrong, and what its exit codes mean."""
    # Filled before it is escaped: a line may end between the two characters of an escape.
    lines = [_inside(textwrap.fill(_printable(line), 110)) for line in verdict.message.split("\n")][:12]
    summary = "\n".join(lines).strip() or f"{verdict.kind.value} in {verdict.target}"
    ending = "Exits 1 while the bug exists, 0 once it is fixed, 2 if it cannot run.\n"
    return f'"""{summary}\n\n{ending}{_inside(note)}"""'


def _inside(text: str) -> str:
    """`text` as it can stand in a docstring, whatever it holds."""
    return _printable(text).replace("\\", "\\\\").replace('"', "'")


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)
