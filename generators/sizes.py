"""Sizes of a Program under construction: one integer per binding of the symbols, and the expression that gives it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from harness.model.symbols import Dim, Sym

MAX_EXPR = 120


@dataclass(frozen=True, slots=True)
class Size:
    """The length of one dim: its value in every binding, and its expression; a static size has none."""

    values: tuple[int, ...]
    expr: str | None = None

    @property
    def static(self) -> bool:
        """Whether no symbol is in it."""
        return self.expr is None

    @property
    def low(self) -> int:
        """The smallest value over the bindings."""
        return min(self.values)

    @property
    def high(self) -> int:
        """The largest value over the bindings."""
        return max(self.values)

    @property
    def dim(self) -> Dim:
        """As a Program writes it: an int or a Sym."""
        return self.values[0] if self.expr is None else Sym(self.expr)

    def is_value(self, value: int) -> bool:
        """Whether this is statically `value`."""
        return self.expr is None and self.values[0] == value

    def __add__(self, other: Size | int) -> Size:
        if isinstance(other, int) and other < 0:
            return self - (-other)
        return _combine(self, other, lambda a, b: a + b, "+")

    def __sub__(self, other: Size | int) -> Size:
        return _combine(self, other, lambda a, b: a - b, "-")

    def __mul__(self, other: Size | int) -> Size:
        return _combine(self, other, lambda a, b: a * b, "*")

    def __floordiv__(self, other: Size | int) -> Size:
        return _combine(self, other, lambda a, b: a // b, "//")


_NEUTRAL = {"+": 0, "-": 0, "*": 1, "//": 1}


def _combine(left: Size, right: Size | int, function: Callable[[int, int], int], sign: str) -> Size:
    if isinstance(right, int):
        if right == _NEUTRAL[sign]:
            return left
        right = Size((right,) * len(left.values))
    values = tuple(function(a, b) for a, b in zip(left.values, right.values, strict=True))
    if left.expr is None and right.expr is None:
        return Size(values)
    if sign in "+*" and left.is_value(_NEUTRAL[sign]):
        return right
    if right.is_value(_NEUTRAL[sign]):
        return left
    return Size(values, f"{_operand(left)}{sign}{_operand(right)}")


def _operand(size: Size) -> str:
    if size.expr is None:
        return str(size.values[0]) if size.values[0] >= 0 else f"({size.values[0]})"
    return size.expr if size.expr.isidentifier() else f"({size.expr})"


def product(sizes: Iterable[Size], one: Size) -> Size:
    """The product of sizes; `one` is the static 1 of this case."""
    result = one
    for size in sizes:
        result = result * size
    return result


def most(sizes: Iterable[Size]) -> int:
    """The product of sizes in the binding where it is largest."""
    return max(map(math.prod, zip(*[size.values for size in sizes], strict=True)), default=1)


def same(left: Size, right: Size) -> bool:
    """Whether two sizes are equal for every value of the symbols, as far as their expressions tell."""
    return left.values == right.values and left.expr == right.expr


def same_dims(left: tuple[Size, ...], right: tuple[Size, ...]) -> bool:
    """Whether two shapes are equal for every value of the symbols."""
    return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))


def broadcast(left: tuple[Size, ...], right: tuple[Size, ...]) -> tuple[Size, ...] | None:
    """The shape that two shapes broadcast to, or None; a symbolic size is never taken for a 1."""
    if len(left) < len(right):
        left, right = right, left
    result = list(left)
    shift = len(left) - len(right)
    for index, size in enumerate(right):
        other = left[shift + index]
        if other.is_value(1):
            result[shift + index] = size
        elif not size.is_value(1) and not same(other, size):
            return None
    return tuple(result)
