"""PyTorch's dtype rules, restated: promotion with 0-d tensors and Python scalars, defaults, and value ranges."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from harness.model.dtypes import DTYPES

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTS = ("int64", "int32", "int8", "uint8")
BOOL = ("bool",)
NUMERIC = FLOATS + INTS
ALL = NUMERIC + BOOL
WIDE = ("float32", "float64")

_INT_ORDER = ("bool", "uint8", "int8", "int16", "int32", "int64")
_LIMITS = {
    "bool": (0, 1),
    "uint8": (0, 255),
    "int8": (-128, 127),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
_FLOAT_MAX = {"float16": 65504.0, "bfloat16": 3.0e38, "float32": 3.0e38, "float64": 1.0e300}


def is_float(dtype: str) -> bool:
    """Whether `dtype` is a real floating dtype."""
    return dtype in FLOATS


def is_int(dtype: str) -> bool:
    """Whether `dtype` is an integer dtype; bool is not."""
    return dtype in INTS or dtype == "int16"


def bits(dtype: str) -> int:
    """The width of an integer dtype."""
    return DTYPES[dtype].itemsize * 8


def mantissa(dtype: str) -> int:
    """The significand bits of a float dtype, the implicit one included."""
    return DTYPES[dtype].mantissa


def limits(dtype: str) -> tuple[float, float]:
    """The least and greatest finite value of a dtype (floats: a safe bound)."""
    if dtype in _LIMITS:
        return _LIMITS[dtype]
    return -_FLOAT_MAX[dtype], _FLOAT_MAX[dtype]


@functools.cache
def promote(left: str, right: str) -> str:
    """The common dtype of two tensor dtypes of one priority (torch.promote_types)."""
    if left == right:
        return left
    if is_float(left) or is_float(right):
        if not is_float(left):
            return right
        if not is_float(right):
            return left
        if {left, right} == {"float16", "bfloat16"}:
            return "float32"
        return max(left, right, key=lambda name: DTYPES[name].itemsize)
    if {left, right} == {"uint8", "int8"}:
        return "int16"
    return max(left, right, key=_INT_ORDER.index)


def scalar_dtype(value: bool | int | float) -> str:
    """The dtype that a Python scalar stands for in promotion."""
    if isinstance(value, bool):
        return "bool"
    return "int64" if isinstance(value, int) else "float32"


def _combine(higher: str | None, lower: str | None) -> str | None:
    if higher is None or lower is None:
        return higher or lower
    if is_float(higher):
        return higher
    if higher == "bool" or is_float(lower):
        return promote(higher, lower)
    return higher


def result_type(operands: Iterable[tuple[str, int] | bool | int | float]) -> str:
    """torch.result_type over tensors, given as (dtype, rank), and Python scalars.

    A category (bool < integer < float) decides first; within it tensors with dims beat 0-d tensors, which beat scalars.
    """
    dims: str | None = None
    zero: str | None = None
    wrapped: str | None = None
    for operand in operands:
        if isinstance(operand, tuple):
            dtype, rank = operand
            if rank:
                dims = promote(dims, dtype) if dims else dtype
            else:
                zero = promote(zero, dtype) if zero else dtype
        else:
            dtype = scalar_dtype(operand)
            wrapped = promote(wrapped, dtype) if wrapped else dtype
    result = _combine(dims, _combine(zero, wrapped))
    if result is None:
        raise ValueError("result_type of no operands")
    return result


def to_float(dtype: str) -> str:
    """The dtype of true division and of transcendental functions: floats stay, the rest becomes float32."""
    return dtype if is_float(dtype) else "float32"


def sum_dtype(dtype: str) -> str:
    """The dtype of sum, prod and cumsum: integers and bool accumulate in int64."""
    return dtype if is_float(dtype) else "int64"


def can_cast(source: str, target: str) -> bool:
    """Whether an in-place result of dtype `source` may be written into `target`."""
    if is_float(source):
        return is_float(target)
    return target != "bool" or source == "bool"
