"""How large and how fine a set of numbers is: what decides whether arithmetic on them rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from harness.model.dtypes import DTYPES, Array, widen
from harness.model.values import Tensor, Value

# The exponent of the smallest normal number, and the largest finite number, of each float dtype's real part.
_RANGE = {
    "float64": (-1022, float(np.finfo(np.float64).max)),
    "float32": (-126, float(np.finfo(np.float32).max)),
    "float16": (-14, 65504.0),
    "bfloat16": (-126, 3.3895313892515355e38),
    "complex64": (-126, float(np.finfo(np.float32).max)),
    "complex128": (-1022, float(np.finfo(np.float64).max)),
}
_FINEST = 1 << 20  # the grain of nothing but zeros: coarser than anything


@dataclass(frozen=True, slots=True)
class Span:
    """Numbers of magnitude at most `peak`, all multiples of 2**grain."""

    peak: float
    grain: int

    def fits(self, dtype: str) -> bool:
        """Whether every such number is a normal number of `dtype`, or zero, so that no operation on them rounds."""
        info = DTYPES[dtype]
        if not info.mantissa or self.peak == 0:
            return True
        smallest, largest = _RANGE[dtype]
        if not self.peak <= largest:
            return False
        return math.frexp(self.peak)[1] - self.grain <= info.mantissa and self.grain >= smallest

    def __or__(self, other: Span) -> Span:
        return Span(max(self.peak, other.peak), min(self.grain, other.grain))

    def __add__(self, other: Span) -> Span:
        return Span(self.peak + other.peak, min(self.grain, other.grain))

    def __mul__(self, other: Span) -> Span:
        if self.peak == 0 or other.peak == 0:
            return Span(0.0, _FINEST)
        return Span(self.peak * other.peak, self.grain + other.grain)

    def times(self, count: int) -> Span:
        """A sum of `count` such numbers, in any order."""
        return Span(self.peak * count, self.grain)


ZERO = Span(0.0, _FINEST)


def largest(dtype: str) -> float:
    """The largest finite number of a float or complex dtype."""
    return _RANGE[dtype][1]


def epsilon(dtype: str) -> float:
    """The distance from 1 to the next number of `dtype`; 0 where it is no float."""
    mantissa = DTYPES[dtype].mantissa
    return 2.0 ** (1 - mantissa) if mantissa else 0.0


def parts(array: Array, dtype: str) -> Array:
    """The real numbers in a carrier array: a complex number's parts as a last dim of two."""
    wide = widen(array, dtype)
    if DTYPES[dtype].kind == "complex":
        return np.stack([wide.real, wide.imag], axis=-1)
    return wide


def measure(numbers: Array) -> Span:
    """The span of the finite numbers in a real array."""
    if numbers.dtype.kind in "iub":
        return Span(float(np.abs(numbers.astype(np.float64)).max(initial=0.0)), 0)
    values = np.abs(numbers.astype(np.float64).ravel())
    values = values[np.isfinite(values) & (values > 0)]
    if not values.size:
        return ZERO
    fraction, exponent = np.frexp(values)
    whole = np.ldexp(fraction, 53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    return Span(float(values.max()), int((exponent - 53 + lowest).min()))


def measure_value(value: Value) -> Span:
    """The span of a tensor or a Python number; other values count as zero."""
    if isinstance(value, Tensor):
        return measure(parts(value.array(), value.dtype))
    if isinstance(value, complex):
        return measure(np.array([value.real, value.imag]))
    if isinstance(value, int | float):
        try:
            return measure(np.array(float(value)))
        except OverflowError:
            return Span(math.inf, 0)
    return ZERO
