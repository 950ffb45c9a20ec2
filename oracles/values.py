"""Whether two tensors of one dtype and shape hold the same values, as far as values are determined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.model.dtypes import DTYPES, Array, narrow
from harness.model.values import Tensor, Value
from oracles.history import Grade
from oracles.policy import Policy
from oracles.spans import largest, parts
from oracles.tolerance import allowance

_NEAR_THE_EDGE = 1 / 16  # of the largest finite number


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two tensors disagree; `special` is empty for wrong values on ordinary inputs."""

    index: tuple[int, ...]
    expected: Value
    actual: Value
    differing: int
    total: int
    max_abs: float
    tolerance: float
    special: str = ""


def same_bits(expected: Tensor, actual: Tensor) -> bool:
    """Whether both tensors hold the same bytes; the common case, decided without numpy."""
    return expected.data == actual.data and expected.strides == actual.strides and expected.offset == actual.offset


def difference(
    expected: Tensor,
    actual: Tensor,
    grade: Grade,
    policy: Policy,
    *,
    twin: Tensor | None = None,
    spread: Tensor | None = None,
    alike: Array | None = None,
) -> Difference | None:
    """The disagreement of two tensors of one dtype and shape, or None.

    `twin` is the same result computed in float64, `spread` the measured conditioning; `alike` marks elements that count
    as equal for another reason, such as indices of equal elements.
    """
    if grade.doubt:
        return None
    kind = DTYPES[expected.dtype].kind
    e, a = expected.array(), actual.array()
    if kind not in ("float", "complex"):
        return _discrete(e, a, expected.dtype, grade, policy, twin, alike)
    x, y = parts(e, expected.dtype).astype(np.float64), parts(a, expected.dtype).astype(np.float64)
    differs = ~((x == y) | (np.isnan(x) & np.isnan(y)))
    if policy.signed_zero:
        differs |= (x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y))
    if not differs.any():
        return None
    arbiter = _arbiter(twin, expected)
    if arbiter is not None:
        rounded = parts(narrow(arbiter[0], expected.dtype), expected.dtype).astype(np.float64)
        differs &= ~((rounded == y) | (np.isnan(rounded) & np.isnan(y))) | ((x == 0) & (y == 0))
    tolerance = np.zeros(x.shape)
    if not grade.exact:
        differs, tolerance = _beyond(x, y, differs, grade, expected.dtype, arbiter, spread)
    if kind == "complex":
        axes = -1
        differs_whole = differs.any(axis=axes)
    else:
        differs_whole = differs
    if not differs_whole.any():
        return None
    special = _special(x, y, grade, expected.dtype)
    ordinary = differs & (special == "")
    enabled = differs & np.isin(special, ["", *(name for name in _CLASSES if policy.judges(name))])
    chosen = ordinary if ordinary.any() else enabled
    if not chosen.any():
        return None
    with np.errstate(all="ignore"):
        gap = np.where(chosen, np.abs(x - y), -1.0)
        excess = np.where(chosen, np.nan_to_num(gap / np.maximum(tolerance, 1e-300), nan=np.inf, posinf=1e308), -1.0)
    at = np.unravel_index(int(np.argmax(excess)), x.shape)
    index = tuple(int(i) for i in (at[:-1] if kind == "complex" else at))
    finite = gap[chosen & np.isfinite(gap)]
    counted = enabled.any(axis=-1) if kind == "complex" else enabled
    return Difference(
        index,
        _python(e, index, expected.dtype),
        _python(a, index, expected.dtype),
        int(np.count_nonzero(counted)),
        int(counted.size),
        float(finite.max(initial=0.0)),
        float(tolerance[at]),
        "" if ordinary.any() else str(special[at]),
    )


_CLASSES = ("nan", "inf", "overflow", "signed-zero", "out-of-range", "ties")


def _discrete(e: Array, a: Array, dtype: str, grade: Grade, policy: Policy, twin: Tensor | None, alike: Array | None) -> Difference | None:
    differs = e != a
    if alike is not None:
        differs &= ~alike
    if twin is not None and twin.dtype == dtype and tuple(twin.shape) == e.shape:
        differs &= twin.array() != a
    if not differs.any():
        return None
    # An index that was looked up and names another value is wrong, whatever ties there were.
    doubted = ("out-of-range", "nan", "inf") if alike is not None else ("out-of-range", "ties", "nan", "inf")
    special = next((name for name in doubted if name in grade.special), "")
    if special and not policy.judges(special):
        return None
    gap = np.where(differs, np.abs(e.astype(np.float64) - a.astype(np.float64)), -1.0)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(gap)), e.shape))
    return Difference(
        index,
        _python(e, index, dtype),
        _python(a, index, dtype),
        int(np.count_nonzero(differs)),
        int(e.size),
        float(gap.max(initial=0.0)),
        0.0,
        special,
    )


def _arbiter(twin: Tensor | None, expected: Tensor) -> tuple[Any, Any] | None:
    """The twin's own array, and its real parts in float64; None where it does not fit the result."""
    kind = "complex128" if DTYPES[expected.dtype].kind == "complex" else "float64"
    if twin is None or twin.shape != expected.shape or twin.dtype != kind:
        return None
    array = twin.array()
    return array, parts(array, kind)


def _beyond(
    x: Array, y: Array, differs: Any, grade: Grade, dtype: str, arbiter: tuple[Any, Any] | None, spread: Tensor | None
) -> tuple[Any, Any]:
    """Which differing elements are outside the tolerance of eager, of the float64 twin, and of all between them."""
    width = None
    if spread is not None and DTYPES[spread.dtype].mantissa:
        width = parts(spread.array(), spread.dtype).astype(np.float64)
        if width.ndim == x.ndim - 1 and width.shape == x.shape[:-1]:
            width = np.broadcast_to(width[..., None], x.shape)
    tolerance, hopeless = allowance(x, grade, dtype, width)
    with np.errstate(all="ignore"):
        low, high = x, x
        if arbiter is not None:
            t: Any = arbiter[1]
            low = np.where(np.isnan(t), x, np.minimum(x, t))
            high = np.where(np.isnan(t), x, np.maximum(x, t))
        within = (y >= low - tolerance) & (y <= high + tolerance)
        edge = largest(dtype) * (1 - 2.0**-7)
        within |= (np.abs(x) >= edge) & (np.abs(y) >= edge) & (np.sign(x) == np.sign(y))
        signs = (x == 0) & (y == 0)
    return differs & (~within | signs) & ~hopeless, tolerance


def _special(x: Any, y: Any, grade: Grade, dtype: str) -> Any:
    """The special class of each element pair, empty where the values and their history are ordinary."""
    by_history = next((name for name in ("out-of-range", "ties", "nan", "inf") if name in grade.special), "")
    result = np.full(x.shape, by_history, dtype="<U12")
    huge = largest(dtype) * _NEAR_THE_EDGE
    infinite, invented = np.isinf(x) | np.isinf(y), np.isfinite(x) & ~np.isfinite(y)
    if by_history != "out-of-range":
        result[infinite] = "inf"
        result[np.isnan(x) | np.isnan(y)] = "nan"
    if not by_history:
        result[invented] = "overflow" if grade.overflows else ""
    with np.errstate(invalid="ignore"):
        one_sided = (np.isinf(x) != np.isinf(y)) & (np.sign(x) == np.sign(y))
        result[one_sided & (np.abs(x) >= huge) & (np.abs(y) >= huge)] = "overflow"
    result[(x == 0) & (y == 0)] = "signed-zero"
    return result


def _python(array: Array, index: tuple[int, ...], dtype: str) -> Value:
    item: Any = array[index]
    if dtype == "bfloat16":
        return float(parts(np.array([item], dtype=np.uint16), dtype)[0])
    return item.item()
