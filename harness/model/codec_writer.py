"""Records and Values to plain data: what JSON or msgpack then writes."""

from __future__ import annotations

import base64
import dataclasses
import enum
import math
import struct
import typing
from collections.abc import Callable, Mapping
from typing import Any

from harness.errors import FormatError
from harness.model.codec_grammar import (
    MAX_DEPTH,
    ONE_FIELD,
    TAG_OF,
    checked_text,
    default_of,
    fields_of,
    is_key,
    is_mapping,
    is_union,
    short,
    without_none,
)
from harness.model.fill import Literal
from harness.model.values import Ref, Value

_MAX_INT_BITS = 13_280  # of 3,998 digits
_SAFE_INT = 2**53

Encode = Callable[[Any, int], Any]
"""Encodes what a field holds, at a depth of nesting."""


class Writer:
    """Encodes to plain data; `binary` keeps bytes as bytes for msgpack.

    How the fields of a record are encoded follows from their types, and is worked out once for each class.
    """

    def __init__(self, binary: bool) -> None:
        self.binary = binary
        self._plans: dict[type[Any], list[tuple[str, Any, bool, Encode]]] = {}

    def bytes_(self, data: bytes) -> object:
        """The content of a tensor."""
        return data if self.binary else base64.b64encode(data).decode("ascii")

    def value(self, value: Value, depth: int = 0) -> Any:
        """A Value; raises FormatError for what the grammar does not have."""
        if depth > MAX_DEPTH:
            raise FormatError(f"nested deeper than {MAX_DEPTH} levels")
        cls = type(value)
        if cls is Ref:  # most of what programs hold, so asked first
            return {"node": checked_text(value.node)}
        if value is None or cls is bool:
            return value
        if isinstance(value, int):
            return int(value) if -_SAFE_INT < value < _SAFE_INT else {"int": _digits(int(value))}
        if isinstance(value, str):
            return checked_text(str(value))
        if isinstance(value, tuple):
            return {"tuple": [self.value(item, depth + 1) for item in value]}
        if isinstance(value, float):
            return {"float": _float_text(value)}
        if isinstance(value, list):
            return [self.value(item, depth + 1) for item in value]
        if isinstance(value, complex):
            return {"complex": [_float_text(value.real), _float_text(value.imag)]}
        if isinstance(value, dict):
            if not all(map(is_key, value)):
                raise FormatError("a dict key that is neither None nor a string or number")
            return {"dict": [[self.value(k, depth + 1), self.value(v, depth + 1)] for k, v in value.items()]}
        if isinstance(value, slice):
            return {"slice": [self.value(part, depth + 1) for part in (value.start, value.stop, value.step)]}
        if value is Ellipsis:
            return {"ellipsis": True}
        if isinstance(value, Literal):
            return {"bytes": self.bytes_(value.data)}
        tag = TAG_OF.get(cls)
        if tag is None:
            raise FormatError(f"a value of type {cls.__name__} is outside the value grammar")
        if isinstance(value, ONE_FIELD):
            return {tag: checked_text(getattr(value, dataclasses.fields(value)[0].name))}
        return {tag: self.record(value, depth + 1)}

    def record(self, record: Any, depth: int = 0) -> dict[str, Any]:
        """A record, without the fields that have their default; raises FormatError."""
        cls = type(record)
        plan = self._plans.get(cls)
        if plan is None:
            plan = self._plans[cls] = [(field.name, *default_of(field), self.encoder(kind)) for field, kind in fields_of(cls)]
        result: dict[str, Any] = {}
        for name, default, of_its_type, encode in plan:
            item = getattr(record, name)
            if not (item is default or ((not of_its_type or type(item) is type(default)) and item == default)):
                result[name] = encode(item, depth + 1)
        return result

    def encoder(self, kind: Any) -> Encode:
        """How to encode what a field of this type holds, which need not be of that type."""
        kind = without_none(kind)
        inner = typing.get_args(kind)
        if kind is not Any and typing.get_origin(kind) is tuple:
            one = self.encoder(inner[0])
            return lambda item, depth: [one(part, depth + 1) for part in item] if isinstance(item, tuple) else self.other(item, depth)
        if is_mapping(kind):
            each = self.encoder(inner[1])

            def mapping(item: Any, depth: int) -> Any:
                if not isinstance(item, Mapping):
                    return self.other(item, depth)
                return {checked_text(key): each(part, depth + 1) for key, part in item.items()}

            return mapping
        if dataclasses.is_dataclass(kind):
            return lambda item, depth: self.record(item, depth) if type(item) is kind else self.other(item, depth)
        return self.value if kind is Any or is_union(kind) else self.other

    def other(self, item: Any, depth: int) -> Any:
        """Whatever is neither a tuple, nor a mapping, nor one of several types."""
        cls = type(item)
        if cls is str:
            return checked_text(item)
        if item is None or cls is bool:
            return item
        if isinstance(item, enum.Enum):
            return item.value
        if isinstance(item, str):
            return checked_text(item)
        if isinstance(item, int):
            return self.value(item, depth)
        if isinstance(item, float):
            return item if math.isfinite(item) else self.value(item, depth)
        if isinstance(item, bytes):
            return self.bytes_(item)
        if dataclasses.is_dataclass(item):
            return self.record(item, depth)
        raise FormatError(f"a field of a record holds what it cannot: {short(item)}")


def _float_text(value: float) -> str:
    if value != value:
        return "nan:" + struct.pack(">d", value).hex()
    return value.hex()


def _digits(value: int) -> str:
    if value.bit_length() > _MAX_INT_BITS:
        raise FormatError(f"an integer of {value.bit_length()} bits; at most {_MAX_INT_BITS} are taken")
    return str(value)
