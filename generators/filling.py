"""How a storage's values are drawn: a recipe, its range in every binding, and what that says of the values."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from generators.choices import Choices
from generators.ranges import Vals
from generators.types import is_float, limits
from harness.model.fill import Fill

EVERYWHERE = (-math.inf, math.inf)

Spans = tuple[tuple[int, tuple[int, int]], ...]

_EXACT: Spans = ((10, (-8, 8)), (3, (0, 8)), (3, (1, 8)), (3, (-4, 4)), (2, (-2, 2)))
_EXACT_NARROW: Spans = ((5, (-4, 4)), (5, (-2, 2)), (2, (0, 4)), (2, (1, 4)), (2, (-8, 8)))
_ORDINARY: Spans = ((8, (-2, 2)), (4, (0, 1)), (4, (1, 4)), (4, (-1, 1)), (2, (-10, 10)))
_SIGNED: Spans = ((10, (-8, 8)), (4, (0, 8)), (4, (1, 8)), (3, (-3, 3)), (2, (-100, 100)))
_UNSIGNED: Spans = ((8, (0, 8)), (4, (1, 8)), (2, (0, 255)), (2, (100, 200)))
_WIDE: Spans = (*_SIGNED, (1, (-100000, 100000)), (1, (-(2**31), 2**31 - 1)))
_HUGE = 2**60


@dataclass(frozen=True, slots=True)
class Filling:
    """A storage, its role, its recipe, and the recipe's inclusive range in every binding (one item: in all)."""

    storage: str
    recipe: str
    low: tuple[int, ...]
    high: tuple[int, ...]
    role: str = "input"

    def named(self, storage: str, role: str) -> Filling:
        """The same filling for a storage."""
        return dataclasses.replace(self, storage=storage, role=role)

    def fill(self, binding: int, seed: int) -> Fill:
        """The recipe for one call."""
        index = binding if len(self.low) > 1 else 0
        return Fill(self.recipe, seed, self.low[index], self.high[index])

    def vals(self, dtype: str, distinct: bool) -> Vals:
        """What the recipe guarantees of the values in a dtype."""
        low, high = min(self.low), max(self.high)
        if dtype == "bool":
            return Vals(0, 1)
        if not is_float(dtype) or self.recipe in ("integers/1", "permutation/1", "constant/1"):
            return Vals(low, high, 0, distinct=distinct)
        if self.recipe == "exact/1":
            return Vals(low / 4, high / 4, 2)
        return Vals(low, high, None, True, self.recipe == "special/1")


def choose_filling(choices: Choices, dtype: str, lane: str, domain: tuple[float, float], strict: bool) -> Filling | None:
    """A filling for a new input whose values lie in `domain`, or None where the lane has none."""
    if dtype == "bool":
        return Filling("", "exact/1", (0,), (1,)) if domain[0] <= 0 and domain[1] >= 1 else None
    low, high = max(domain[0], limits(dtype)[0]), min(domain[1], limits(dtype)[1])
    if is_float(dtype):
        unit = 4 if lane == "exact" else 1
        recipe = {"exact": "exact/1", "ordinary": "ordinary/1", "special": "special/1"}[lane]
        if lane == "special" and (strict or choices.coin(30)):
            recipe = "ordinary/1"
        table: Spans = _ORDINARY if lane != "exact" else _EXACT_NARROW if dtype in ("float16", "bfloat16") else _EXACT
    elif dtype == "int64" and low <= -_HUGE and high >= _HUGE and choices.coin(2):
        return Filling("", "integers/1", (-_HUGE,), (_HUGE,))
    else:
        unit, recipe = 1, "integers/1"
        table = _UNSIGNED if dtype == "uint8" else _SIGNED if dtype == "int8" else _WIDE
    fitting = [(weight, span) for weight, span in table if low * unit <= span[0] and span[1] <= high * unit]
    if fitting:
        first, last = choices.weighted(fitting)
    else:
        first, last = math.ceil(max(low * unit, -4 * unit)), math.floor(min(high * unit, 4 * unit))
        if low * unit > first or first > last:
            first, last = math.ceil(low * unit), math.floor(min(high * unit, low * unit + 4 * unit))
        if first > last:
            return None
    return Filling("", recipe, (first,), (last,))
