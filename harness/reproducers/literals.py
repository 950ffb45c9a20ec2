"""Values and tensors as Python source, exact to the bit, for PyTorch or for a namespace with the same spelling."""

from __future__ import annotations

import keyword
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.errors import FormatError
from harness.model.dtypes import DTYPES, Array, widen
from harness.model.symbols import Sym
from harness.model.values import Device, DType, Layout, MemoryFormat, Ref, Tensor, Value, contiguous_strides, storage_size

WIDTH = 110


@dataclass(frozen=True, slots=True)
class Style:
    """How a library spells a literal tensor: its constructor, its dtypes, and the dtypes it makes of bare Python numbers.

    With `shortcuts`, full, arange and views of bits are used; a system under test gets its inputs without them.
    """

    namespace: str
    constructor: str
    inferred: frozenset[str] = frozenset()
    shortcuts: bool = False
    bool_name: str = "bool"
    no_bfloat16: str = "{}"  # around the float32 literal, where the library cannot make bfloat16 at once

    def dtype(self, name: str) -> str:
        """A dtype as an expression."""
        return f"{self.namespace}.{self.bool_name if name == 'bool' else name}"


TORCH = Style("torch", "torch.tensor", frozenset({"float32", "int64", "bool"}), shortcuts=True)
ONEFLOW = Style("oneflow", "oneflow.tensor", no_bfloat16="{}.to(oneflow.bfloat16)")
NUMPY = Style("np", "np.array", bool_name="bool_")
_QUIET_NAN = {"float64": 0x7FF8000000000000, "float32": 0x7FC00000, "float16": 0x7E00, "bfloat16": 0x7FC0}


def number(value: float | int | bool | complex) -> str:
    """A Python number as source; NaN and infinities are written `nan` and `inf`, for `from math import inf, nan`."""
    if isinstance(value, complex):
        return f"complex({number(value.real)}, {number(value.imag)})"
    if isinstance(value, float):
        return "nan" if value != value else "-inf" if value == -math.inf else "inf" if value == math.inf else repr(value)
    return repr(value)


def _element(item: Any, dtype: str) -> str:
    if DTYPES[dtype].kind == "complex":
        part = "float32" if dtype == "complex64" else "float64"
        narrow = np.dtype(part).type
        return f"complex({_element(narrow(item.real), part)}, {_element(narrow(item.imag), part)})"
    if DTYPES[dtype].kind != "float" or not np.isfinite(item):
        return number(item.item())
    if dtype in ("float16", "float32"):
        # The shortest digits that this dtype needs, if reading them as a double and rounding gives the value back.
        short = f"{float(str(item))!r}"
        if type(item)(float(short)).tobytes() == item.tobytes():
            return short
    return number(float(item))


def _nested(array: Array, dtype: str, indent: str) -> str:
    if array.ndim == 0:
        return _element(array[()], dtype)
    items = [_nested(part, dtype, indent + " ") for part in array]
    line = "[" + ", ".join(items) + "]"
    if len(indent) + len(line) <= WIDTH and "\n" not in line:
        return line
    if array.ndim > 1:
        return "[" + (",\n" + indent + " ").join(items) + "]"
    lines, current = [], ""
    for item in items:
        if current and len(indent) + len(current) + len(item) + 3 > WIDTH:
            lines.append(current)
            current = ""
        current += f"{item}, "
    lines.append(current.removesuffix(", "))
    return "[" + ("\n" + indent + " ").join(line.rstrip() for line in lines) + "]"


def _odd_nan(array: Array, dtype: str) -> bool:
    """Whether some NaN is not the one that `nan` in source would give."""
    if dtype not in _QUIET_NAN:
        return False
    nan = np.isnan(widen(array, dtype))
    bits = array.view(f"<u{DTYPES[dtype].itemsize}")
    return bool(np.any(bits[nan] != _QUIET_NAN[dtype]))


def array_source(array: Array, dtype: str, *, style: Style = TORCH, indent: str = "") -> str:
    """A contiguous tensor that holds a carrier array of `dtype`, as an expression."""
    array = np.ascontiguousarray(array).reshape(array.shape)
    if dtype == "bfloat16" and not style.shortcuts:
        return style.no_bfloat16.format(array_source(widen(array, dtype), "float32", style=style, indent=indent))
    name = style.dtype(dtype)
    if array.size == 0:
        return f"{style.namespace}.zeros({array.shape!r}, dtype={name})"
    values = widen(array, dtype)
    if style.shortcuts and (text := _shortcut(array, values, dtype, style, indent)) is not None:
        return text
    suffix = "" if dtype in style.inferred else f", dtype={name}"
    head = f"{style.constructor}("
    return f"{head}{_nested(values, dtype, indent + ' ' * len(head))}{suffix})"


def _shortcut(array: Array, values: Array, dtype: str, style: Style, indent: str) -> str | None:
    name = style.dtype(dtype)
    if _odd_nan(array, dtype):
        size = DTYPES[dtype].itemsize
        return array_source(array.view(f"<i{size}"), f"int{8 * size}", style=style, indent=indent) + f".view({name})"
    if array.size <= 16:
        return None
    flat = values.reshape(-1)
    bits = array.reshape(-1).view(np.dtype(f"V{array.itemsize}"))
    if np.all(bits == bits[0]):
        return f"{style.namespace}.full({array.shape!r}, {_element(flat[0], dtype)}, dtype={name})"
    if DTYPES[dtype].kind not in ("complex", "bool") and np.array_equal(flat, np.arange(array.size)) and not np.signbit(flat[0]):
        shape = "" if array.ndim == 1 else f".reshape({array.shape!r})"
        return f"{style.namespace}.arange({array.size}, dtype={name}){shape}"
    return None


def _significant(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]


def tensor_source(tensor: Tensor, *, style: Style = TORCH, base: str | None = None, indent: str = "") -> str:
    """A tensor with its memory layout as an expression; where `base` names its flat storage, a view of that.

    Layouts are written the way a person would: `permute`, `expand`, and `as_strided` for the rest.
    """
    shape, strides = tensor.shape, tensor.strides
    if base is not None:
        return f"{base}.as_strided({shape!r}, {strides or contiguous_strides(shape)!r}, {tensor.offset})"
    array = tensor.array()
    dense = contiguous_strides(shape)
    if array.size == 0 or strides is None or (tensor.offset == 0 and _significant(shape, strides) == _significant(shape, dense)):
        return array_source(array, tensor.dtype, style=style, indent=indent)
    if tensor.offset == 0:
        expanded = tuple(slice(0, 1) if stride == 0 and size > 1 else slice(None) for size, stride in zip(shape, strides, strict=True))
        small = array[expanded]
        if small.shape != shape:
            if _significant(small.shape, strides) == _significant(small.shape, contiguous_strides(small.shape)):
                return array_source(small, tensor.dtype, style=style, indent=indent) + f".expand{shape!r}"
        else:
            order = sorted(range(len(shape)), key=lambda dim: (-strides[dim], dim))
            memory = array.transpose(order)
            if contiguous_strides(memory.shape) == tuple(strides[dim] for dim in order):
                inverse = tuple(order.index(dim) for dim in range(len(shape)))
                return array_source(memory, tensor.dtype, style=style, indent=indent) + f".permute{inverse!r}"
    flat = storage_source(tensor, style=style, indent=indent)
    return f"{flat}.as_strided({shape!r}, {strides!r}, {tensor.offset})"


def storage_source(*views: Tensor, style: Style = TORCH, indent: str = "") -> str:
    """The flat storage that all of `views` look at, as an expression."""
    size = max(storage_size(v.shape, v.strides or contiguous_strides(v.shape), v.offset) for v in views)
    flat = Tensor(views[0].dtype, (size,), views[0].data)
    return array_source(flat.array(), flat.dtype, style=style, indent=indent)


def value_source(value: Value, names: Mapping[str, str]) -> str:
    """A Value as an expression; `names` says how Refs and whole Sym expressions are spelled.

    Raises FormatError for a Ref that has no name.
    """
    if isinstance(value, Ref):
        if value.node not in names:
            raise FormatError(f"reads {value.node!r}, which nothing defines")
        return names[value.node]
    if isinstance(value, Sym):
        return names.get(value.expr, f"({value.expr})")
    if isinstance(value, Tensor):
        return tensor_source(value)
    if isinstance(value, DType | Layout | MemoryFormat):
        return f"torch.{value.name}"
    if isinstance(value, Device):
        return f"torch.device({_quoted(value.name)})"
    if isinstance(value, tuple):
        inner = [value_source(item, names) for item in value]
        return f"({inner[0]},)" if len(inner) == 1 else f"({', '.join(inner)})"
    if isinstance(value, list):
        return "[" + ", ".join(value_source(item, names) for item in value) + "]"
    if isinstance(value, dict):
        pairs = (f"{_quoted(key)}: {value_source(item, names)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, slice):
        parts = (value_source(part, names) for part in (value.start, value.stop, value.step))
        return f"slice({', '.join(parts)})"
    if value is Ellipsis:
        return "..."
    if isinstance(value, str):
        return _quoted(value)
    return number(value) if isinstance(value, int | float | complex) else repr(value)


def index_source(index: Value, names: Mapping[str, str]) -> str:
    """What stands between the brackets of a subscript."""
    if isinstance(index, tuple) and index:
        return ", ".join(index_source(item, names) if not isinstance(item, tuple) else value_source(item, names) for item in index) + (
            "," if len(index) == 1 else ""
        )
    if isinstance(index, slice):
        start, stop, step = ("" if part is None else value_source(part, names) for part in (index.start, index.stop, index.step))
        return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"
    return value_source(index, names)


def _quoted(key: Value) -> str:
    if not isinstance(key, str):
        return number(key) if isinstance(key, int | float) else repr(key)
    text = repr(key)
    return f'"{key}"' if text == f"'{key}'" and '"' not in key else text


def identifier(text: str, taken: set[str]) -> str:
    """`text` as an identifier that is neither a keyword nor taken; it is then taken."""
    name = "".join(char if char.isascii() and (char.isalnum() or char == "_") else "_" for char in text) or "value"
    if name[0].isdigit() or keyword.iskeyword(name):
        name = f"_{name}"
    candidate, count = name, 1
    while candidate in taken:
        candidate, count = f"{name}_{count}", count + 1
    taken.add(candidate)
    return candidate
