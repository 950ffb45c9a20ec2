"""The dtypes that a Program may hold, by PyTorch's names, and how numpy carries each.

numpy knows no bfloat16, so a bfloat16 array travels as its bits in uint16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]  # the element type is a run-time fact here


@dataclass(frozen=True, slots=True)
class DTypeInfo:
    """What the harness needs to know of one dtype; `mantissa` counts the implicit bit, 0 for non-floats."""

    name: str
    kind: str  # "float", "int", "uint", "bool", "complex"
    carrier: str
    itemsize: int
    mantissa: int = 0


_ALL = (
    DTypeInfo("float64", "float", "<f8", 8, 53),
    DTypeInfo("float32", "float", "<f4", 4, 24),
    DTypeInfo("float16", "float", "<f2", 2, 11),
    DTypeInfo("bfloat16", "float", "<u2", 2, 8),
    DTypeInfo("int64", "int", "<i8", 8),
    DTypeInfo("int32", "int", "<i4", 4),
    DTypeInfo("int16", "int", "<i2", 2),
    DTypeInfo("int8", "int", "|i1", 1),
    DTypeInfo("uint8", "uint", "|u1", 1),
    DTypeInfo("bool", "bool", "|b1", 1),
    DTypeInfo("complex64", "complex", "<c8", 8, 24),
    DTypeInfo("complex128", "complex", "<c16", 16, 53),
)
DTYPES: dict[str, DTypeInfo] = {info.name: info for info in _ALL}


def is_float(name: str) -> bool:
    """Whether `name` is a real floating dtype."""
    return DTYPES[name].kind == "float"


def is_integer(name: str) -> bool:
    """Whether `name` is a signed or unsigned integer dtype; bool is not."""
    return DTYPES[name].kind in ("int", "uint")


def bfloat16_to_float32(bits: Array) -> npt.NDArray[np.float32]:
    """Widen bfloat16 bits (uint16) to float32, exactly."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def float32_to_bfloat16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Round float32 to bfloat16 bits, to nearest even, NaN kept quiet (the rule of c10/util/BFloat16.h)."""
    bits = np.asarray(values, dtype=np.float32, order="C").view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(nan, quiet, rounded).astype(np.uint16)


def widen(array: Array, dtype: str) -> Array:
    """The numbers that a carrier array stands for, in a dtype numpy can compute with."""
    return bfloat16_to_float32(array) if dtype == "bfloat16" else array


def narrow(values: Array, dtype: str) -> Array:
    """Numbers (float64 or integers) rounded into the carrier of `dtype`."""
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype == "bfloat16":
            return float32_to_bfloat16(values.astype(np.float32))
        return values.astype(np.dtype(DTYPES[dtype].carrier))
