"""Hypothesis strategies over everything that the model can hold."""

from __future__ import annotations

import dataclasses
import struct
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any

from hypothesis import strategies as st

from harness.model.dtypes import DTYPES
from harness.model.fill import Fill, Literal
from harness.model.program import TensorSpec
from harness.model.symbols import Sym
from harness.model.values import Device, DType, Layout, MemoryFormat, Ref, Tensor

BIG = 10**3990
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
integers = st.integers() | st.sampled_from([2**53, -(2**53), 2**63, 2**64, BIG, -BIG, 0])
floats = st.binary(min_size=8, max_size=8).map(lambda b: struct.unpack(">d", b)[0]) | st.floats()
dtypes = st.sampled_from(sorted(DTYPES))
data = st.builds(Fill, text, integers, integers, integers) | st.builds(Literal, st.binary(max_size=16))
shapes = st.lists(st.integers(0, 2**40), max_size=4).map(tuple)
tensors = st.builds(Tensor, dtypes, shapes, data, st.none() | shapes, st.integers(0, 99), st.none() | text)
names = st.builds(Ref, text) | st.builds(DType, text) | st.builds(Device, text) | st.builds(Layout, text) | st.builds(MemoryFormat, text)
syms = st.builds(Sym, text)
specs = st.builds(
    TensorSpec,
    dtypes,
    st.lists(st.integers(0, 9) | syms, max_size=3).map(tuple),
    st.none() | shapes,
    shapes,
    st.none() | shapes,
    st.integers(0, 9),
    st.none() | text,
    st.booleans(),
)
scalars = st.none() | st.booleans() | integers | floats | st.complex_numbers() | text | st.just(...)
keys = st.none() | st.booleans() | st.integers() | text | st.floats(allow_nan=False)
values = st.recursive(
    scalars | names | syms | tensors | specs | data,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=3)
        | st.builds(slice, inner, inner, inner)
    ),
    max_leaves=8,
)


def records(cls: type[Any]) -> st.SearchStrategy[Any]:
    """Instances of a record type, every field drawn by its annotation."""
    hints = typing.get_type_hints(cls)
    return st.builds(cls, **{field.name: _of(hints[field.name]) for field in dataclasses.fields(cls)})


def _of(kind: Any) -> st.SearchStrategy[Any]:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return values
    if origin in (typing.Union, types.UnionType):
        return st.one_of([_of(member) for member in inner])
    if origin is tuple:
        return st.lists(_of(inner[0]), max_size=2).map(tuple)
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(text, _of(inner[1]), max_size=2)
    simple = {str: text, int: integers, bool: st.booleans(), float: floats, bytes: st.binary(max_size=9), type(None): st.none()}
    if kind in simple:
        return simple[kind]
    if kind is TensorSpec:
        return specs
    if kind is Tensor:
        return tensors
    return st.sampled_from(list(kind)) if issubclass(kind, Enum) else records(kind)


def same(first: Any, second: Any) -> bool:
    """Equality that tells 1 from True and 1.0, 0.0 from -0.0, and one NaN from another."""
    if type(first) is not type(second):
        return False
    if isinstance(first, float):
        return struct.pack(">d", first) == struct.pack(">d", second)
    if isinstance(first, complex):
        return same(first.real, second.real) and same(first.imag, second.imag)
    if isinstance(first, tuple | list):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, dict):
        return len(first) == len(second) and all(same(first[key], second[key]) for key in first if key in second)
    if isinstance(first, slice):
        return same((first.start, first.stop, first.step), (second.start, second.stop, second.step))
    if dataclasses.is_dataclass(first):
        return all(same(getattr(first, f.name), getattr(second, f.name)) for f in dataclasses.fields(first))
    return bool(first == second)
