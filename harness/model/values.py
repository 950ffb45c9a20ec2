"""The value grammar: what may stand in a node's arguments, in an output or in a saved outcome.

A Value is None, bool, int of any size, float, complex, str, Ellipsis, slice, tuple, list, dict, or one of the classes
below. JSON alone loses most of these; `harness.model.codec` writes each of them tagged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.errors import FormatError
from harness.model.dtypes import DTYPES, Array
from harness.model.fill import MAX_ELEMENTS, Data, Literal, storage_elements

Value = Any  # the grammar above; Python's type system cannot say it recursively and stay readable


MAX_RANK = 32  # numpy's limit before version 2


@dataclass(frozen=True, slots=True)
class Ref:
    """The result of another node."""

    node: str


@dataclass(frozen=True, slots=True)
class DType:
    """A torch dtype by name, such as `float32`."""

    name: str


@dataclass(frozen=True, slots=True)
class Device:
    """A torch device, such as `cpu`."""

    name: str


@dataclass(frozen=True, slots=True)
class Layout:
    """A torch layout, such as `strided`."""

    name: str


@dataclass(frozen=True, slots=True)
class MemoryFormat:
    """A torch memory format, such as `channels_last`."""

    name: str


@dataclass(frozen=True, slots=True)
class Tensor:
    """A concrete strided tensor; tensors with one `storage` name share memory within one value or call.

    `strides` and `offset` count elements; strides None means contiguous. `data` describes the whole storage.
    """

    dtype: str
    shape: tuple[int, ...]
    data: Data
    strides: tuple[int, ...] | None = None
    offset: int = 0
    storage: str | None = None

    @property
    def storage_elements(self) -> int:
        """How many elements the storage must hold for this view."""
        strides = self.strides if self.strides is not None else contiguous_strides(self.shape)
        return storage_size(self.shape, strides, self.offset)

    def array(self) -> Array:
        """The elements, in `shape`, as a fresh contiguous carrier array."""
        strides = self.strides if self.strides is not None else contiguous_strides(self.shape)
        count = storage_size(self.shape, strides, self.offset)
        if self.storage is not None and isinstance(self.data, Literal):
            count = max(count, len(self.data.data) // DTYPES[self.dtype].itemsize)  # another view of it may reach further
        elements = storage_elements(self.data, self.dtype, count)
        view = np.lib.stride_tricks.as_strided(
            elements[self.offset :],
            self.shape,
            [s * elements.itemsize if n > 1 else 0 for n, s in zip(self.shape, strides, strict=True)],
            writeable=False,
        )
        return np.array(view, order="C")


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements, as PyTorch computes them (a zero-size dim counts as one)."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def storage_size(shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> int:
    """The number of elements a storage needs to hold this view.

    Raises FormatError where the view is malformed or absurdly large.
    """
    if len(shape) > MAX_RANK:
        raise FormatError(f"a tensor of {len(shape)} dims; at most {MAX_RANK} are taken")
    if len(strides) != len(shape) or offset < 0 or any(s < 0 for s in strides) or any(s < 0 for s in shape):
        raise FormatError(f"a tensor of shape {shape} with strides {strides} and offset {offset}")
    if math.prod(shape) > MAX_ELEMENTS:
        raise FormatError(f"a tensor of more than {MAX_ELEMENTS} elements")
    if 0 in shape:
        return offset
    size = offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if size > MAX_ELEMENTS:
        raise FormatError(f"a storage of more than {MAX_ELEMENTS} elements")
    return size


def tensor_from_array(array: Array, dtype: str) -> Tensor:
    """A contiguous literal tensor that holds `array`, given in the carrier of `dtype`."""
    carrier = np.ascontiguousarray(array, dtype=np.dtype(DTYPES[dtype].carrier))
    return Tensor(dtype, tuple(array.shape), Literal(carrier.tobytes()))


def map_leaves(value: Value, function: Callable[[Value], Value]) -> Value:
    """`value` with `function` applied to everything that is not a tuple, list, dict or slice."""
    if isinstance(value, tuple):
        return tuple(map_leaves(item, function) for item in value)
    if isinstance(value, list):
        return [map_leaves(item, function) for item in value]
    if isinstance(value, dict):
        return {key: map_leaves(item, function) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(map_leaves(part, function) for part in (value.start, value.stop, value.step)))
    return function(value)


def leaves(value: Value, path: str = "") -> Iterator[tuple[str, Value]]:
    """Every leaf of `value` with its path, such as `[0]['boxes']`; a bare leaf has the empty path."""
    if isinstance(value, tuple | list):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}[{key!r}]")
    elif isinstance(value, slice):
        yield from leaves((value.start, value.stop, value.step), path)
    else:
        yield path, value


def refs(value: Value) -> list[str]:
    """The nodes that `value` mentions, in order, with repetition."""
    return [leaf.node for _, leaf in leaves(value) if isinstance(leaf, Ref)]


def structure(value: Value) -> Value:
    """`value` with each tensor replaced by `*` and every other leaf by its type's name."""
    return map_leaves(value, lambda leaf: "*" if isinstance(leaf, Tensor) else type(leaf).__name__)
