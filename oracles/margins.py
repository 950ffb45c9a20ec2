"""How far a node's operands are from where its result jumps: steps, edges of the domain, ties, undefined behaviour."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from harness.model.dtypes import DTYPES, Array, widen
from harness.model.values import Tensor, Value
from oracles import operators as op
from oracles.operands import Operands
from oracles.operators import names

_COMPARISONS = names("eq ne lt le gt ge")
_AT_INTEGERS = names("floor ceil trunc frac")
_AT_ZERO = names("sign sgn signbit heaviside logical_not logical_and logical_or logical_xor any all nonzero argwhere count_nonzero")
_DIM_POSITION = {"topk": 2, "kthvalue": 2}
_LAST_BY_DEFAULT = names("sort topk argsort kthvalue mode msort")


def _numbers(value: Value) -> Any:
    """A tensor or number as something numpy can compute with in float64; None for anything else."""
    if isinstance(value, Tensor):
        if DTYPES[value.dtype].kind == "complex":
            return None
        return widen(value.array(), value.dtype).astype(np.float64)
    return np.float64(value) if isinstance(value, bool | int | float) else None


def _least(distances: Any) -> float:
    finite = np.asarray(distances)[np.isfinite(distances)]
    return float(np.abs(finite).min(initial=np.inf))


def margin(operands: Operands) -> float | None:
    """The smallest change of an operand, in its own units, that can make the result jump; None where it is unknown."""
    name, args = operands.name, operands.trace.args
    x = _numbers(args[0]) if args else None
    if x is None:
        return None
    y = _numbers(args[1] if len(args) > 1 else operands.trace.kwargs.get("other"))
    with np.errstate(all="ignore"):
        if name in _COMPARISONS:
            return _least(np.where(np.equal(x, y), 0, x - y)) if y is not None else None
        if name in _AT_INTEGERS:
            return _least(x - np.round(x))
        if name == "round" and not operands.trace.kwargs and len(args) == 1:
            return _least(x - np.floor(x) - 0.5)
        if name in _AT_ZERO:
            return min(_least(x), _least(y) if y is not None else np.inf)
        if name in ("threshold", "hardshrink"):
            edge = _numbers(operands.argument(1, "threshold" if name == "threshold" else "lambd", 0.5 if name == "hardshrink" else None))
            return None if edge is None else min(_least(x - edge), _least(x + edge) if name == "hardshrink" else np.inf)
        if name in op.ROUNDING_STEPS or (name == "div" and operands.trace.kwargs.get("rounding_mode") is not None):
            if y is None:
                return None
            quotient = x / y
            return _least((quotient - np.round(quotient)) * np.abs(y))
        if name in op.INDICES or name in op.PAIRS:
            return _gap(operands, x)
        if name in op.CASTS and operands.outputs:
            return _least(x) if operands.outputs[0].dtype == "bool" else _least(x - np.round(x))
        return None


def edge(operands: Operands) -> float:
    """The distance of a smooth node's operands to the edge of its domain or a pole; infinite where there is none."""
    name, args = operands.name, operands.trace.args
    if name not in op.DOMAIN_EDGES or not args:
        return np.inf
    x = _numbers(args[0])
    if x is None:
        return np.inf
    y = _numbers(args[1] if len(args) > 1 else operands.trace.kwargs.get("other"))
    with np.errstate(all="ignore"):
        if name == "div":
            return _least(y) if y is not None else np.inf
        if name in ("acos", "asin", "atanh", "erfinv"):
            return _least(1 - np.abs(x))
        if name == "acosh":
            return _least(x - 1)
        if name == "log1p":
            return _least(x + 1)
        if name == "logit":
            return min(_least(x), _least(1 - x))
        if name == "tan":
            return _least(np.cos(x))
        if name in ("lgamma", "digamma"):
            return _least(np.where(x < 0.5, x - np.round(x), 1.0))
        return min(_least(x), _least(y) if y is not None and name == "xlogy" else np.inf)


def dim_of(operands: Operands) -> int | None:
    """The dim along which a node chooses; None where it looks at all elements."""
    name = operands.name
    dim = operands.argument(_DIM_POSITION.get(name, 1), "dim")
    if isinstance(dim, bool) or not isinstance(dim, int):
        dim = (
            next((arg for arg in operands.trace.args[1:2] if isinstance(arg, int) and not isinstance(arg, bool)), None)
            if name == "sort"
            else None
        )
    if name == "msort":
        return 0
    return -1 if dim is None and name in _LAST_BY_DEFAULT else dim


def _along(operands: Operands, x: Array) -> Array:
    dim = dim_of(operands)
    if "pool" in operands.name or dim is None or x.ndim == 0:
        return x.reshape(-1)
    return np.moveaxis(x, dim, -1)


def _gap(operands: Operands, x: Array) -> float:
    lines = np.sort(_along(operands, x), axis=-1)
    gaps = np.diff(lines, axis=-1)
    if operands.name in ("argmax", "max"):
        gaps = gaps[..., -1:]
    elif operands.name in ("argmin", "min"):
        gaps = gaps[..., :1]
    return _least(gaps)


def _promises_order(operands: Operands) -> bool:
    """Whether equal elements keep their order."""
    return operands.trace.kwargs.get("stable") is True or operands.node.target.endswith(".stable")


def has_ties(operands: Operands) -> bool:
    """Whether a node that returns indices had equal elements to choose from, with no promise which it takes."""
    if not operands.trace.args or not isinstance(operands.trace.args[0], Tensor) or _promises_order(operands):
        return False
    source = operands.trace.args[0]
    if DTYPES[source.dtype].kind == "complex":
        return True
    lines = np.sort(_along(operands, widen(source.array(), source.dtype)), axis=-1)
    return bool((lines[..., 1:] == lines[..., :-1]).any())


def same_choice(operands: Operands, expected: Array, actual: Array) -> Array:
    """Where two index tensors of one node name equal elements; all False where that cannot be told."""
    no = np.zeros(expected.shape, dtype=np.bool_)
    source = operands.trace.args[0] if operands.trace.args else None
    if not isinstance(source, Tensor) or expected.shape != actual.shape or _promises_order(operands):
        return no
    values = widen(source.array(), source.dtype)
    dim = dim_of(operands)
    if "pool" in operands.name:
        rank = _pool_rank(operands.name)
        planes = [each.reshape((*each.shape[: each.ndim - rank], -1)) for each in (values, expected, actual)]
        return _equal_at(planes[0], planes[1], planes[2], -1).reshape(expected.shape)
    if dim is None or values.ndim == 0:
        flat = values.reshape(-1)
        return _equal_at(flat, expected.reshape(-1), actual.reshape(-1), 0).reshape(expected.shape)
    dropped = expected.ndim == values.ndim - 1
    first, second = (np.expand_dims(each, dim) if dropped else each for each in (expected, actual))
    result = _equal_at(values, first, second, dim)
    if operands.name in ("sort", "argsort", "topk", "msort"):
        result = result & _distinct(second, dim)
    return result.reshape(expected.shape)


@functools.cache
def _pool_rank(name: str) -> int:
    return next(int(digit) for digit in name if digit.isdigit())


def _equal_at(values: Array, first: Array, second: Array, axis: int) -> Array:
    size = values.shape[axis]
    inside = (second >= 0) & (second < size)
    if not size:
        return np.zeros(first.shape, dtype=np.bool_)
    a: Any = np.take_along_axis(values, first % size, axis)
    b: Any = np.take_along_axis(values, second % size, axis)
    same: Array = inside & ((a == b) | ((a != a) & (b != b)))
    return same


def _distinct(indices: Array, dim: int) -> Array:
    lines = np.sort(indices, axis=dim)
    repeated = np.diff(lines, axis=dim) == 0
    return np.broadcast_to(~repeated.any(axis=dim, keepdims=True), indices.shape)


def writes_twice(operands: Operands) -> bool:
    """Whether a scattering node may write one place twice, so that its result is not determined."""
    name = operands.name
    if name not in ("scatter", "index_copy", "index_put", "setitem") and not name.startswith("max_unpool"):
        return False
    if name in ("index_put",) and operands.argument(3, "accumulate", False) is True:
        return False
    indices = [t for t in operands.tensors[1:] if DTYPES[t.dtype].kind in ("int", "uint")]
    if name in ("index_put", "setitem"):
        indices = [t for t in _index_tensors(operands) if DTYPES[t.dtype].kind in ("int", "uint")]
        if not indices:
            return False
        arrays = np.broadcast_arrays(*(t.array() for t in indices))
        rows = np.stack([array.reshape(-1) for array in arrays], axis=1)
        sizes = _indexed_sizes(operands)
        if sizes is not None:
            rows = rows % np.array(sizes)
        elif (rows < 0).any() and (rows >= 0).any():
            return True  # -1 and 4 may be one place
        return len(np.unique(rows, axis=0)) < len(rows)
    if not indices:
        return False
    array = indices[0].array()
    if name == "scatter" and array.ndim:
        dim = operands.argument(1, "dim")
        return bool((np.diff(np.sort(array, axis=dim), axis=dim) == 0).any()) if isinstance(dim, int) else True
    return len(np.unique(array)) < array.size


def _indexed_sizes(operands: Operands) -> tuple[int, ...] | None:
    """The sizes of the dims that index tensors index; None where other indices make it hard to say, or a dim is empty."""
    index = operands.argument(1, "indices")
    found = index if isinstance(index, tuple | list) else (index,)
    plain = all(isinstance(item, slice) or (isinstance(item, Tensor) and DTYPES[item.dtype].kind in ("int", "uint")) for item in found)
    target = operands.tensors[0] if operands.tensors else None
    if not plain or target is None or len(found) > len(target.shape):
        return None
    sizes = tuple(target.shape[dim] for dim, item in enumerate(found) if isinstance(item, Tensor))
    return sizes if all(sizes) else None


def _index_tensors(operands: Operands) -> list[Tensor]:
    index = operands.argument(1, "indices")
    found = index if isinstance(index, tuple | list) else (index,)
    return [item for item in found if isinstance(item, Tensor)]


def out_of_range(operands: Operands) -> bool:
    """Whether a cast to an integer does not fit, or a shift passes the width: undefined in C, so by machine."""
    if operands.name in op.SHIFTS and operands.outputs:
        width = 8 * DTYPES[operands.outputs[0].dtype].itemsize
        amount = _numbers(operands.trace.args[1]) if len(operands.trace.args) > 1 else None
        return amount is None or bool(((amount < 0) | (amount >= width)).any())
    if operands.name not in op.CASTS or not operands.outputs or not operands.trace.args:
        return False
    source, result = operands.trace.args[0], operands.outputs[0]
    if not isinstance(source, Tensor) or DTYPES[source.dtype].kind != "float" or DTYPES[result.dtype].kind not in ("int", "uint"):
        return False
    limits = np.iinfo(np.dtype(DTYPES[result.dtype].carrier))
    x = _numbers(source)
    return bool((~np.isfinite(x) | (x <= float(limits.min) - 1) | (x >= float(limits.max) + 1)).any())
