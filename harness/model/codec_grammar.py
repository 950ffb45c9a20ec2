"""What writing and reading share: the tags of values, the fields of records, and the limits of both."""

from __future__ import annotations

import dataclasses
import reprlib
import types
import typing
from collections.abc import Mapping
from typing import Any

from harness.errors import FormatError
from harness.model.fill import Fill
from harness.model.program import TensorSpec
from harness.model.symbols import Sym
from harness.model.values import Device, DType, Layout, MemoryFormat, Ref, Tensor, Value

MAX_DEPTH = 100
MAX_INT_DIGITS = 4000

TAGGED: dict[str, type[Any]] = {
    "node": Ref,
    "dtype": DType,
    "device": Device,
    "layout": Layout,
    "memory_format": MemoryFormat,
    "sym": Sym,
    "fill": Fill,
    "tensor": Tensor,
    "spec": TensorSpec,
}
TAG_OF: dict[type[Any], str] = {cls: tag for tag, cls in TAGGED.items()}
ONE_FIELD = (Ref, DType, Device, Layout, MemoryFormat, Sym)


def checked_text(text: str) -> str:
    """`text`, if it can be written as UTF-8; raises FormatError."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise FormatError(f"{short(text)} holds half of a surrogate pair") from error
    return text


NO_DEFAULT = object()  # equals nothing


def default_of(field: dataclasses.Field[Any]) -> tuple[Any, bool]:
    """What a field is left out for, and whether that must be of the same type: 0 is neither False nor 0.0."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory(), False
    return (field.default, True) if field.default is not dataclasses.MISSING else (NO_DEFAULT, True)


_FIELDS: dict[type[Any], tuple[tuple[dataclasses.Field[Any], Any], ...]] = {}


def fields_of(cls: type[Any]) -> tuple[tuple[dataclasses.Field[Any], Any], ...]:
    """The fields of a record's class, each with its type."""
    if cls not in _FIELDS:
        hints = typing.get_type_hints(cls)
        _FIELDS[cls] = tuple((field, hints[field.name]) for field in dataclasses.fields(cls))
    return _FIELDS[cls]


def is_union(kind: Any) -> bool:
    """Whether `kind` is one of several types, None among them or not."""
    return typing.get_origin(kind) in (typing.Union, types.UnionType)


def without_none(kind: Any) -> Any:
    """`kind`, or what else than None it may be where that is a single type."""
    if is_union(kind):
        members = [member for member in typing.get_args(kind) if member is not type(None)]
        return members[0] if len(members) == 1 else kind
    return kind


def is_mapping(kind: Any) -> bool:
    """Whether `kind` is a mapping of some types."""
    origin = typing.get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def is_key(key: Value) -> bool:
    """Whether a dict of the value grammar may have this key."""
    return isinstance(key, str | int | float | bool) or key is None


def short(data: Any) -> str:
    """The beginning of some data as text, for a message."""
    # reprlib bounds the depth and the length of what it reads, where repr would follow hostile data to its end.
    text = reprlib.repr(data)
    return text if len(text) <= 60 else text[:57] + "..."
