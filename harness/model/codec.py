"""Canonical bytes: records and Values to JSON text (files, ids) and to msgpack (worker messages), and back.

Both forms hold the same tree. In JSON everything that JSON cannot say is an object with a single tag: floats as
`{"float": "0x1p+0"}` so that NaN payloads and -0.0 survive, tuples as `{"tuple": [...]}`, tensor bytes as base64.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import enum
import hashlib
import json
import math
import re
import reprlib
import struct
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import msgspec

from harness.errors import FormatError
from harness.model.case import Case
from harness.model.dtypes import DTYPES
from harness.model.fill import Fill, Literal
from harness.model.program import TensorSpec
from harness.model.symbols import Sym
from harness.model.values import Device, DType, Layout, MemoryFormat, Ref, Tensor, Value

FORMAT_VERSION = 1
MAX_DEPTH = 100
MAX_INT_DIGITS = 4000
_MAX_INT_BITS = 13_280  # of 3,998 digits
_SAFE_INT = 2**53
_INTEGER = re.compile(r"-?[0-9]+")

Record = TypeVar("Record")

_TAGGED: dict[str, type[Any]] = {
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
_TAG_OF: dict[type[Any], str] = {cls: tag for tag, cls in _TAGGED.items()}
_ONE_FIELD = (Ref, DType, Device, Layout, MemoryFormat, Sym)


def _float_text(value: float) -> str:
    if value != value:
        return "nan:" + struct.pack(">d", value).hex()
    return value.hex()


def _float_value(text: object, where: str) -> float:
    try:
        if isinstance(text, str) and text.startswith("nan:"):
            value = cast(float, struct.unpack(">d", bytes.fromhex(text[4:]))[0])
            if value == value:
                raise ValueError
            return value
        if isinstance(text, str):
            return float.fromhex(text)
    except (ValueError, struct.error, OverflowError):
        pass
    raise FormatError(f"{_short(text)} is not a hexadecimal float", where=where)


class _Writer:
    """Encodes to plain data; `binary` keeps bytes as bytes for msgpack."""

    def __init__(self, binary: bool) -> None:
        self.binary = binary

    def bytes_(self, data: bytes) -> object:
        return data if self.binary else base64.b64encode(data).decode("ascii")

    def value(self, value: Value, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise FormatError(f"nested deeper than {MAX_DEPTH} levels")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return _text(str(value))
        if isinstance(value, int):
            return int(value) if -_SAFE_INT < value < _SAFE_INT else {"int": _digits(int(value))}
        if isinstance(value, float):
            return {"float": _float_text(value)}
        if isinstance(value, complex):
            return {"complex": [_float_text(value.real), _float_text(value.imag)]}
        if isinstance(value, list):
            return [self.value(item, depth + 1) for item in value]
        if isinstance(value, tuple):
            return {"tuple": [self.value(item, depth + 1) for item in value]}
        if isinstance(value, dict):
            if not all(map(_hashable, value)):
                raise FormatError("a dict key that is neither None nor a string or number")
            return {"dict": [[self.value(k, depth + 1), self.value(v, depth + 1)] for k, v in value.items()]}
        if isinstance(value, slice):
            return {"slice": [self.value(part, depth + 1) for part in (value.start, value.stop, value.step)]}
        if value is Ellipsis:
            return {"ellipsis": True}
        if isinstance(value, Literal):
            return {"bytes": self.bytes_(value.data)}
        tag = _TAG_OF.get(type(value))
        if tag is None:
            raise FormatError(f"a value of type {type(value).__name__} is outside the value grammar")
        if isinstance(value, _ONE_FIELD):
            return {tag: _text(getattr(value, dataclasses.fields(value)[0].name))}
        return {tag: self.record(value, depth + 1)}

    def record(self, record: Any, depth: int = 0) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for field, kind in _fields(type(record)):
            item = getattr(record, field.name)
            if not _is_default(field, item):
                result[field.name] = self.typed(item, kind, depth + 1)
        return result

    def typed(self, item: Any, kind: Any, depth: int) -> Any:
        if kind is Any:
            return self.value(item, depth)
        if isinstance(item, enum.Enum):
            return item.value
        if isinstance(item, tuple):
            inner = typing.get_args(_without_none(kind))[0]
            return [self.typed(part, inner, depth + 1) for part in item]
        if isinstance(item, Mapping):
            inner = typing.get_args(_without_none(kind))[1]
            return {_text(key): self.typed(part, inner, depth + 1) for key, part in item.items()}
        if isinstance(item, str):
            return _text(item)
        if isinstance(item, float) and not math.isfinite(item):
            return self.value(item, depth)
        if isinstance(item, bytes):
            return self.bytes_(item)
        if isinstance(item, Fill | Literal | Sym | TensorSpec) and _is_union(kind):
            return self.value(item, depth)
        if isinstance(item, int) and not isinstance(item, bool):
            return self.value(item, depth)
        if dataclasses.is_dataclass(item):
            return self.record(item, depth)
        return item


def _text(text: str) -> str:
    """`text`, if it can be written as UTF-8."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise FormatError(f"{_short(text)} holds half of a surrogate pair") from error
    return text


def _digits(value: int) -> str:
    if value.bit_length() > _MAX_INT_BITS:
        raise FormatError(f"an integer of {value.bit_length()} bits; at most {_MAX_INT_BITS} are taken")
    return str(value)


def _is_default(field: dataclasses.Field[Any], item: Any) -> bool:
    if field.default is not dataclasses.MISSING:
        return type(item) is type(field.default) and bool(item == field.default)
    return field.default_factory is not dataclasses.MISSING and item == field.default_factory()


_FIELDS: dict[type[Any], tuple[tuple[dataclasses.Field[Any], Any], ...]] = {}


def _fields(cls: type[Any]) -> tuple[tuple[dataclasses.Field[Any], Any], ...]:
    if cls not in _FIELDS:
        hints = typing.get_type_hints(cls)
        _FIELDS[cls] = tuple((field, hints[field.name]) for field in dataclasses.fields(cls))
    return _FIELDS[cls]


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (typing.Union, types.UnionType)


def _without_none(kind: Any) -> Any:
    if _is_union(kind):
        members = [member for member in typing.get_args(kind) if member is not type(None)]
        return members[0] if len(members) == 1 else kind
    return kind


class _Reader:
    """Decodes plain data; every complaint names the path where it arose."""

    def __init__(self, binary: bool) -> None:
        self.binary = binary

    def bytes_(self, data: Any, where: str) -> bytes:
        if self.binary and isinstance(data, bytes):
            return data
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise FormatError("these bytes are not base64", where=where) from error

    def text(self, data: str, where: str) -> str:
        try:
            return _text(data)
        except FormatError as error:
            raise FormatError(str(error), where=where) from error

    def key(self, data: Any, where: str) -> str:
        if not isinstance(data, str):
            raise FormatError(f"the key {_short(data)} is no text", where=where)
        return self.text(data, where)

    def value(self, data: Any, where: str, depth: int = 0) -> Value:
        if depth > MAX_DEPTH:
            raise FormatError(f"nested deeper than {MAX_DEPTH} levels", where=where)
        if isinstance(data, str):
            return self.text(data, where)
        if data is None or isinstance(data, bool | int):
            return data
        if isinstance(data, list):
            return [self.value(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(data)]
        if not isinstance(data, dict) or len(data) != 1:
            raise FormatError(f"{_short(data)} is no value of the grammar", where=where)
        tag, body = next(iter(data.items()))
        where = f"{where}.{tag}"
        if tag == "int":
            if not isinstance(body, str) or len(body) > MAX_INT_DIGITS or not _INTEGER.fullmatch(body):
                raise FormatError(f"{_short(body)} is not an integer", where=where)
            return int(body)
        if tag == "float":
            return _float_value(body, where)
        if tag == "complex" and isinstance(body, list) and len(body) == 2:
            return complex(_float_value(body[0], where), _float_value(body[1], where))
        if tag == "ellipsis" and body is True:
            return Ellipsis
        if tag == "bytes":
            return Literal(self.bytes_(body, where))
        if tag in ("tuple", "slice", "dict") and isinstance(body, list):
            items = [self.value(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(body)]
            if tag == "tuple":
                return tuple(items)
            if tag == "slice" and len(items) == 3:
                return slice(*items)
            if tag == "dict" and all(isinstance(pair, list) and len(pair) == 2 and _hashable(pair[0]) for pair in items):
                return {pair[0]: pair[1] for pair in items}
            raise FormatError(f"{_short(body)} is no {tag}", where=where)
        cls = _TAGGED.get(tag)
        if cls is None:
            raise FormatError(f"unknown tag {_short(tag)}", where=where)
        if cls in _ONE_FIELD:
            if not isinstance(body, str):
                raise FormatError(f"{_short(body)} where a name is needed", where=where)
            return cls(self.text(body, where))
        return self.record(cls, body, where, depth + 1)

    def record(self, cls: type[Record], data: Any, where: str, depth: int = 0) -> Record:
        if depth > MAX_DEPTH:
            raise FormatError(f"nested deeper than {MAX_DEPTH} levels", where=where)
        if not isinstance(data, dict):
            raise FormatError(f"{_short(data)} where {cls.__name__} is needed", where=where)
        known = {field.name: (field, kind) for field, kind in _fields(cls)}
        for key in data:
            if key not in known:
                raise FormatError(f"{cls.__name__} has no field {_short(key)}", where=where)
        arguments = {}
        for name, (field, kind) in known.items():
            if name in data:
                arguments[name] = self.typed(kind, data[name], f"{where}.{name}" if where else name, depth + 1)
            elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                raise FormatError(f"{cls.__name__} needs the field {name!r}", where=where)
        result = cls(**arguments)
        if isinstance(result, Tensor | TensorSpec) and result.dtype not in DTYPES:
            raise FormatError(f"unknown dtype {_short(result.dtype)}", where=where)
        return result

    def typed(self, kind: Any, data: Any, where: str, depth: int) -> Any:
        if kind is Any:
            return self.value(data, where, depth)
        if _is_union(kind):
            return self.union(kind, data, where, depth)
        origin = typing.get_origin(kind)
        if origin is tuple and isinstance(data, list):
            inner = typing.get_args(kind)[0]
            return tuple(self.typed(inner, item, f"{where}[{i}]", depth + 1) for i, item in enumerate(data))
        if origin is not None and issubclass(origin, Mapping) and isinstance(data, dict):
            inner = typing.get_args(kind)[1]
            return {self.key(key, where): self.typed(inner, item, f"{where}[{_short(key)}]", depth + 1) for key, item in data.items()}
        if kind is bytes:
            return self.bytes_(data, where)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            try:
                return kind(data)
            except ValueError as error:
                raise FormatError(f"{_short(data)} is no {kind.__name__}", where=where) from error
        if dataclasses.is_dataclass(kind):
            return self.record(cast(type[Any], kind), data, where, depth)
        if kind is float and isinstance(data, dict):
            data = self.value(data, where, depth)
        if kind is float and isinstance(data, int | float) and not isinstance(data, bool):
            try:
                return float(data)
            except OverflowError as error:
                raise FormatError("an integer beyond the range of floats", where=where) from error
        if kind is int and isinstance(data, dict):
            data = self.value(data, where, depth)
        if isinstance(kind, type) and type(data) is kind:
            return self.text(data, where) if isinstance(data, str) else data
        raise FormatError(f"{_short(data)} where {getattr(kind, '__name__', kind)} is needed", where=where)

    def union(self, kind: Any, data: Any, where: str, depth: int) -> Any:
        members = typing.get_args(kind)
        if data is None:
            if type(None) in members:
                return None
            raise FormatError("nothing where something is needed", where=where)
        rest = [member for member in members if member is not type(None)]
        if len(rest) == 1:
            return self.typed(rest[0], data, where, depth)
        value = self.value(data, where, depth)
        if type(value) not in rest:
            raise FormatError(f"{_short(data)} where one of {', '.join(m.__name__ for m in rest)} is needed", where=where)
        return value


def _hashable(key: Value) -> bool:
    return isinstance(key, str | int | float | bool) or key is None


def _short(data: Any) -> str:
    # reprlib bounds the depth and the length of what it reads, where repr would follow hostile data to its end.
    text = reprlib.repr(data)
    return text if len(text) <= 60 else text[:57] + "..."


def to_json(record: Any, *, indent: int | None = None) -> bytes:
    """A record as JSON text, canonical unless indented: sorted keys, ASCII, defaults left out."""
    separators = (",", ":") if indent is None else None
    data = _Writer(binary=False).record(record)
    return json.dumps(data, sort_keys=True, separators=separators, ensure_ascii=True, allow_nan=False, indent=indent).encode("ascii")


def parse_json(text: bytes, *, where: str = "") -> Any:
    """Plain data from JSON text, for files that the user may have edited.

    Raises FormatError for broken, truncated or too deeply nested text.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}", where=where) from error


def from_json(cls: type[Record], text: bytes, *, where: str = "") -> Record:
    """A record from JSON text.

    Raises FormatError naming the place for anything that is not such a record.
    """
    return _Reader(binary=False).record(cls, parse_json(text, where=where), where)


def to_data(record: Any) -> dict[str, Any]:
    """A record as plain JSON-able data, for a larger document to hold."""
    return _Writer(binary=False).record(record)


def from_data(cls: type[Record], data: Any, *, where: str = "") -> Record:
    """A record from plain JSON-able data; raises FormatError."""
    return _Reader(binary=False).record(cls, data, where)


def value_to_data(value: Value) -> Any:
    """A Value as plain JSON-able data; raises FormatError for anything outside the grammar."""
    return _Writer(binary=False).value(value)


def value_from_data(data: Any, *, where: str = "") -> Value:
    """A Value from plain JSON-able data; raises FormatError."""
    return _Reader(binary=False).value(data, where)


_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder()


def to_wire(record: Any) -> bytes:
    """A record as msgpack, tensor bytes unescaped: the form in which engine and workers talk."""
    return _PACK.encode(_Writer(binary=True).record(record))


def from_wire(cls: type[Record], data: bytes) -> Record:
    """A record from msgpack; raises FormatError."""
    try:
        plain = _UNPACK.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FormatError(f"not a message of ours: {error}") from error
    return _Reader(binary=True).record(cls, plain, "message")


def case_id(case: Case) -> str:
    """The identity of a case: the first 16 hexadecimal digits of the SHA-256 of its canonical bytes."""
    return hashlib.sha256(to_json(case)).hexdigest()[:16]
