"""What is known of a tensor's values while a Program is drawn: bounds, binary grid, exactness.

Bounds keep a case inside what PyTorch defines (no float-to-int cast out of range, no zero divisor, no negative shift);
the grid proves that a float result is exact in any order of evaluation: every value is a multiple of 2**-grain, and no
bound needs more bits than the dtype has.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

from generators.types import is_float, limits, mantissa

MAX_GRAIN = 40


@dataclass(frozen=True, slots=True)
class Vals:
    """Bounds on a tensor's finite values, and what else is certain.

    `grain`: all values are multiples of 2**-grain, None if not known. `exact`: every conforming implementation computes
    these very values, so that discontinuous operators may read them. `special`: NaN or infinities may occur.
    `distinct`: no two elements are equal.
    """

    lo: float
    hi: float
    grain: int | None = 0
    exact: bool = True
    special: bool = False
    distinct: bool = False

    @property
    def peak(self) -> float:
        """The largest possible magnitude."""
        return max(abs(self.lo), abs(self.hi))

    def within(self, lo: float, hi: float) -> bool:
        """Whether every value certainly lies in [lo, hi]."""
        return not self.special and lo <= self.lo and self.hi <= hi

    def having(self, lo: float, hi: float) -> Vals:
        """The same grid and certainty with other bounds, elements no longer distinct."""
        return Vals(lo, hi, self.grain, self.exact, self.special)

    def rough(self, lo: float, hi: float) -> Vals:
        """Rounded values within other bounds."""
        return Vals(lo, hi, None, False, self.special)

    def repeated(self) -> Vals:
        """The same values, perhaps each several times."""
        return self if not self.distinct else dataclasses.replace(self, distinct=False)


BOOLEAN = Vals(0, 1)


def constant(value: bool | int | float) -> Vals:
    """The range of one number; the grid is known where it is coarse enough to be of use."""
    number = float(value)
    if not math.isfinite(number):
        return Vals(0.0, 0.0, None, True, True)
    for grain in range(9):
        if (number * 2**grain).is_integer():
            return Vals(number, number, grain)
    return Vals(number, number, None)


def union(left: Vals, right: Vals) -> Vals:
    """What holds of a mixture of two tensors' values."""
    grain = None if left.grain is None or right.grain is None else max(left.grain, right.grain)
    return Vals(
        min(left.lo, right.lo),
        max(left.hi, right.hi),
        grain,
        left.exact and right.exact,
        left.special or right.special,
    )


def add(left: Vals, right: Vals) -> Vals:
    """Of left + right."""
    mixed = union(left, right)
    return _exact_only_on_grid(mixed.having(left.lo + right.lo, left.hi + right.hi))


def neg(vals: Vals) -> Vals:
    """Of -vals."""
    return dataclasses.replace(vals, lo=-vals.hi, hi=-vals.lo)


def sub(left: Vals, right: Vals) -> Vals:
    """Of left - right."""
    return add(left, neg(right))


def mul(left: Vals, right: Vals) -> Vals:
    """Of left * right."""
    grain = None if left.grain is None or right.grain is None else left.grain + right.grain
    ends = [left.lo * right.lo, left.lo * right.hi, left.hi * right.lo, left.hi * right.hi]
    special = left.special or right.special
    return _exact_only_on_grid(Vals(min(ends), max(ends), grain, left.exact and right.exact, special))


def total(vals: Vals, count: int) -> Vals:
    """Of the sum of up to `count` values."""
    return _exact_only_on_grid(vals.having(min(0.0, vals.lo * count), max(0.0, vals.hi * count)))


def mean(vals: Vals, counts: tuple[int, ...]) -> Vals:
    """Of the mean of so many values, per binding; exact for powers of two only."""
    if vals.grain is None or any(count < 1 or count & (count - 1) for count in counts):
        return vals.rough(vals.lo, vals.hi)
    return Vals(vals.lo, vals.hi, vals.grain + (max(counts) - 1).bit_length(), vals.exact, vals.special)


def whole(vals: Vals, function: Callable[[float], float]) -> Vals:
    """Of a monotone function that rounds to whole numbers."""
    return Vals(float(function(vals.lo)), float(function(vals.hi)), 0, vals.exact, vals.special)


def _exact_only_on_grid(vals: Vals) -> Vals:
    return vals if vals.grain is not None else dataclasses.replace(vals, exact=False)


def is_exact_in(dtype: str, vals: Vals, peak: float | None = None) -> bool:
    """Whether a float dtype holds every such value, and every partial sum up to `peak`, without rounding."""
    if vals.grain is None or vals.special or vals.grain > MAX_GRAIN:
        return False
    highest = max(vals.peak, peak or 0.0)
    return highest * 2.0**vals.grain <= 2.0 ** mantissa(dtype) and highest <= limits(dtype)[1]


def settle(dtype: str, vals: Vals, peak: float | None = None) -> Vals | None:
    """What is known once the values are stored in `dtype`; None where PyTorch does not define the result.

    Unsigned integers wrap; signed ones must not overflow, which PyTorch leaves to C++.
    """
    lo, hi = limits(dtype)
    if dtype == "bool":
        return Vals(max(0.0, min(1.0, vals.lo)), min(1.0, max(0.0, vals.hi)), 0, vals.exact, False)
    if is_float(dtype):
        if is_exact_in(dtype, vals, peak):
            return vals
        if vals.grain is not None:
            vals = dataclasses.replace(vals, grain=None, exact=False, distinct=False)
        return vals
    if lo <= vals.lo and vals.hi <= hi:
        return vals if vals.grain == 0 and not vals.special else Vals(vals.lo, vals.hi, 0, vals.exact, False, vals.distinct)
    if dtype != "uint8":
        return None
    return Vals(lo, hi, 0, vals.exact, False)
