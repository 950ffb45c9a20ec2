"""The few kinds of choice that generators make, over any source of bounded integers."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Table(Generic[T]):
    """Weighted items, summed up once: for tables of hundreds."""

    __slots__ = ("_ends", "_items")

    def __init__(self, weighted: Sequence[tuple[int, T]]) -> None:
        self._ends = tuple(itertools.accumulate(weight for weight, _ in weighted))
        self._items = tuple(item for _, item in weighted)

    def __len__(self) -> int:
        return len(self._items)

    def pick(self, choices: Choices) -> T:
        """One of the items, drawn by weight."""
        return self._items[bisect.bisect_right(self._ends, choices.below(self._ends[-1]))]


class Choices:
    """Choices made from bounded integers; the first of each is the simplest, to which Hypothesis shrinks.

    `draw` gives an integer in 0..count-1 for any count above 1. A case takes some eighty of them.
    """

    __slots__ = ("_draw",)

    def __init__(self, draw: Callable[[int], int]) -> None:
        self._draw = draw

    def below(self, count: int) -> int:
        """An integer in 0..count-1; no choice is spent on a single one."""
        return self._draw(count) if count > 1 else 0

    def between(self, low: int, high: int) -> int:
        """An integer in low..high, both included."""
        return low + self.below(high - low + 1)

    def coin(self, percent: int) -> bool:
        """True in so many of a hundred cases."""
        return self._draw(100) >= 100 - percent

    def choose(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[self.below(len(items))]

    def weighted(self, items: Sequence[tuple[int, T]]) -> T:
        """One of the (weight, item) pairs' items."""
        left = self.below(sum([weight for weight, _ in items]))
        for weight, item in items:
            left -= weight
            if left < 0:
                return item
        raise AssertionError("weights must be positive")

    def shuffled(self, count: int) -> tuple[int, ...]:
        """A permutation of 0..count-1."""
        rest = list(range(count))
        return tuple(rest.pop(self.below(len(rest))) for _ in range(count))

    def some(self, count: int) -> tuple[int, ...]:
        """A non-empty ascending subset of 0..count-1."""
        if count == 1:
            return (0,)
        mask = self.between(1, 2**count - 1)
        return tuple(index for index in range(count) if mask >> index & 1)
