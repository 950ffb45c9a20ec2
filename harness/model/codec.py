"""Canonical bytes: records and Values to JSON text (files, ids) and to msgpack (worker messages), and back.

Both forms hold the same tree. In JSON everything that JSON cannot say is an object with a single tag: floats as
`{"float": "0x1p+0"}` so that NaN payloads and -0.0 survive, tuples as `{"tuple": [...]}`, tensor bytes as base64.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec

from harness.errors import FormatError
from harness.model.case import Case
from harness.model.codec_reader import Broken, Reader, Record
from harness.model.codec_writer import Writer
from harness.model.values import Value

FORMAT_VERSION = 1

_WRITER, _WIRE_WRITER = Writer(binary=False), Writer(binary=True)
_READER, _WIRE_READER = Reader(binary=False), Reader(binary=True)


def to_json(record: Any, *, indent: int | None = None) -> bytes:
    """A record as JSON text, canonical unless indented: sorted keys, ASCII, defaults left out."""
    separators = (",", ":") if indent is None else None
    data = _WRITER.record(record)
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
    return from_data(cls, parse_json(text, where=where), where=where)


def to_data(record: Any) -> dict[str, Any]:
    """A record as plain JSON-able data, for a larger document to hold."""
    return _WRITER.record(record)


def from_data(cls: type[Record], data: Any, *, where: str = "") -> Record:
    """A record from plain JSON-able data; raises FormatError."""
    try:
        return _READER.record(cls, data)
    except Broken as broken:
        raise broken.error(where) from broken.__cause__


def value_to_data(value: Value) -> Any:
    """A Value as plain JSON-able data; raises FormatError for anything outside the grammar."""
    return _WRITER.value(value)


def value_from_data(data: Any, *, where: str = "") -> Value:
    """A Value from plain JSON-able data; raises FormatError."""
    try:
        return _READER.value(data)
    except Broken as broken:
        raise broken.error(where) from broken.__cause__


_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder()


def to_wire(record: Any) -> bytes:
    """A record as msgpack, tensor bytes unescaped: the form in which engine and workers talk."""
    return _PACK.encode(_WIRE_WRITER.record(record))


def from_wire(cls: type[Record], data: bytes) -> Record:
    """A record from msgpack; raises FormatError."""
    try:
        plain = _UNPACK.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FormatError(f"not a message of ours: {error}") from error
    try:
        return _WIRE_READER.record(cls, plain)
    except Broken as broken:
        raise broken.error("message") from broken.__cause__


def case_id(case: Case) -> str:
    """The identity of a case: the first 16 hexadecimal digits of the SHA-256 of its canonical bytes."""
    return hashlib.sha256(to_json(case)).hexdigest()[:16]
