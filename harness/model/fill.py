"""Fill recipes: element values as a versioned integer formula, the same in every interpreter.

No recipe uses torch's or numpy's random generator. Element i of a fill comes from splitmix64 of (seed, i)
(Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014), so it depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.errors import FormatError, UnknownName
from harness.model.dtypes import DTYPES, Array, narrow

MAX_ELEMENTS = 1 << 27
MAX_NUMBER = 1 << 62


@dataclass(frozen=True, slots=True)
class Fill:
    """How a storage is filled: a recipe by name and version, a seed, and an inclusive integer range.

    Recipes: `exact/1` draws k/4 for k in [low, high] (integers: k); `ordinary/1` draws all mantissa bits over
    [low, high]; `special/1` is `ordinary/1` with NaN, infinities and signed zeros on every fourth element;
    `integers/1` draws whole numbers in [low, high]; `permutation/1` is a shuffled 0..n-1; `constant/1` is low.
    """

    recipe: str
    seed: int = 0
    low: int = -8
    high: int = 8


@dataclass(frozen=True, slots=True)
class Literal:
    """The little-endian bytes of a whole storage."""

    data: bytes


Data = Fill | Literal

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _bits(seed: int, count: int) -> npt.NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        z = (np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed & (2**63 - 1)) * np.uint64(0x632BE59BD9B4E019)) * _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def _whole(fill: Fill, count: int) -> npt.NDArray[np.int64]:
    span = np.uint64(fill.high - fill.low + 1)
    return (_bits(fill.seed, count) % span).astype(np.int64) + np.int64(fill.low)


def _exact(fill: Fill, count: int, dtype: str) -> Array:
    whole = _whole(fill, count)
    return whole / 4.0 if DTYPES[dtype].kind in ("float", "complex") else whole


def _ordinary(fill: Fill, count: int, dtype: str) -> Array:
    if DTYPES[dtype].kind not in ("float", "complex"):
        return _whole(fill, count)
    unit = (_bits(fill.seed, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return fill.low + unit * (fill.high - fill.low)


_SPECIALS = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0])


def _special(fill: Fill, count: int, dtype: str) -> Array:
    values = _ordinary(fill, count, dtype)
    if DTYPES[dtype].kind != "float":
        return values
    pick = _bits(fill.seed + 1, count)
    chosen = _SPECIALS[(pick >> np.uint64(8)).astype(np.int64) % len(_SPECIALS)]
    return np.where(pick % np.uint64(4) == 0, chosen, values)


def _permutation(fill: Fill, count: int, dtype: str) -> Array:
    return np.argsort(_bits(fill.seed, count), kind="stable").astype(np.int64)


def _constant(fill: Fill, count: int, dtype: str) -> Array:
    return np.full(count, fill.low, dtype=np.int64)


_RECIPES: dict[str, Callable[[Fill, int, str], Array]] = {
    "exact/1": _exact,
    "ordinary/1": _ordinary,
    "special/1": _special,
    "integers/1": lambda fill, count, dtype: _whole(fill, count),
    "permutation/1": _permutation,
    "constant/1": _constant,
}


# Recipes whose elements depend on how many there are, so that two views of one storage must be filled at once.
DEPENDS_ON_COUNT = frozenset({"permutation/1"})


def storage_elements(data: Data, dtype: str, count: int) -> Array:
    """The `count` elements of a storage as a one-dimensional carrier array of `dtype`.

    Raises FormatError for a literal of another length, an empty range or a storage too large to be meant.
    """
    if not 0 <= count <= MAX_ELEMENTS:
        raise FormatError(f"a storage of more than {MAX_ELEMENTS} elements")
    info = DTYPES[dtype]
    if isinstance(data, Literal):
        if len(data.data) != count * info.itemsize:
            raise FormatError(f"a literal of {len(data.data)} bytes where {count} elements of {dtype} need {count * info.itemsize}")
        return np.frombuffer(data.data, dtype=np.dtype(info.carrier)).copy()
    if data.recipe not in _RECIPES:
        raise UnknownName("fill recipe", data.recipe, _RECIPES)
    if not -MAX_NUMBER <= data.low <= MAX_NUMBER or not -MAX_NUMBER <= data.high <= MAX_NUMBER:
        raise FormatError(f"a fill range beyond ±{MAX_NUMBER}")
    if data.high < data.low:
        raise FormatError(f"fill range {data.low}..{data.high} is empty")
    values = _RECIPES[data.recipe](data, count, dtype)
    if info.kind == "bool":
        return (values.astype(np.int64) & 1).astype(np.bool_)
    return narrow(values, dtype)
