"""Plain data, as JSON or msgpack gave it, to records and Values; every complaint names the place."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import enum
import re
import struct
import typing
from collections.abc import Callable
from typing import Any, TypeVar, cast

from harness.errors import FormatError
from harness.model.codec_grammar import (
    MAX_DEPTH,
    MAX_INT_DIGITS,
    NO_DEFAULT,
    ONE_FIELD,
    TAGGED,
    checked_text,
    default_of,
    fields_of,
    is_key,
    is_mapping,
    is_union,
    short,
)
from harness.model.dtypes import DTYPES
from harness.model.fill import Literal
from harness.model.program import TensorSpec
from harness.model.values import Tensor, Value

_INTEGER = re.compile(r"-?[0-9]+")

Record = TypeVar("Record")
Decode = Callable[[Any, int], Any]
"""Decodes the data of a field, at a depth of nesting."""


class Broken(Exception):
    """What is wrong with some data, and the way to it, innermost first: those who pass it on add where they were."""

    def __init__(self, message: str, *path: str) -> None:
        super().__init__(message)
        self.path = list(path)

    def error(self, where: str) -> FormatError:
        """As those who called know it; `where` is what the whole is called."""
        return FormatError(str(self), where=(where + "".join(reversed(self.path))).removeprefix("."))


class Reader:
    """Decodes plain data; every complaint names the path where it arose.

    How the fields of a record are decoded follows from their types, and is worked out once for each class.
    """

    def __init__(self, binary: bool) -> None:
        self.binary = binary
        self._plans: dict[type[Any], tuple[dict[str, Decode], list[str]]] = {}

    def bytes_(self, data: Any, depth: int = 0) -> bytes:
        """The content of a tensor."""
        if self.binary and isinstance(data, bytes):
            return data
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise Broken("these bytes are not base64") from error

    def text(self, data: str) -> str:
        """A text that can be written again."""
        if data.isascii():
            return data
        try:
            return checked_text(data)
        except FormatError as error:
            raise Broken(str(error)) from error

    def key(self, data: Any) -> str:
        """The key of a mapping."""
        if not isinstance(data, str):
            raise Broken(f"the key {short(data)} is no text")
        return self.text(data)

    def items(self, data: list[Any], decode: Decode, depth: int) -> list[Any]:
        """Every item of a list, decoded; a comprehension, but for saying where one is broken."""
        result: list[Any] = []
        try:
            for item in data:
                result.append(decode(item, depth))
        except Broken as broken:
            broken.path.append(f"[{len(result)}]")
            raise
        return result

    def value(self, data: Any, depth: int = 0) -> Value:
        """A Value of the grammar."""
        if depth > MAX_DEPTH:
            raise Broken(f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(data, str):
            return self.text(data)
        if data is None or isinstance(data, int):
            return data
        if isinstance(data, list):
            return self.items(data, self.value, depth + 1)
        if not isinstance(data, dict) or len(data) != 1:
            raise Broken(f"{short(data)} is no value of the grammar")
        tag, body = next(iter(data.items()))
        try:
            return self.tagged(tag, body, depth)
        except Broken as broken:
            broken.path.append(f".{tag}")
            raise

    def tagged(self, tag: Any, body: Any, depth: int) -> Value:
        """The value of an object with a single tag."""
        cls = TAGGED.get(tag)
        if cls in ONE_FIELD:
            if not isinstance(body, str):
                raise Broken(f"{short(body)} where a name is needed")
            return cls(self.text(body))
        if cls is not None:
            return self.record(cls, body, depth + 1)
        if tag == "int":
            if not isinstance(body, str) or len(body) > MAX_INT_DIGITS or not _INTEGER.fullmatch(body):
                raise Broken(f"{short(body)} is not an integer")
            return int(body)
        if tag == "float":
            return _float_value(body)
        if tag == "complex" and isinstance(body, list) and len(body) == 2:
            return complex(_float_value(body[0]), _float_value(body[1]))
        if tag == "ellipsis" and body is True:
            return Ellipsis
        if tag == "bytes":
            return Literal(self.bytes_(body))
        if tag in ("tuple", "slice", "dict") and isinstance(body, list):
            items = self.items(body, self.value, depth + 1)
            if tag == "tuple":
                return tuple(items)
            if tag == "slice" and len(items) == 3:
                return slice(*items)
            if tag == "dict" and all(isinstance(pair, list) and len(pair) == 2 and is_key(pair[0]) for pair in items):
                return {pair[0]: pair[1] for pair in items}
            raise Broken(f"{short(body)} is no {tag}")
        raise Broken(f"unknown tag {short(tag)}")

    def record(self, cls: type[Record], data: Any, depth: int = 0) -> Record:
        """A record of this class."""
        if depth > MAX_DEPTH:
            raise Broken(f"nested deeper than {MAX_DEPTH} levels")
        if not isinstance(data, dict):
            raise Broken(f"{short(data)} where {cls.__name__} is needed")
        if cls not in self._plans:
            decoders = {field.name: self.decoder(kind) for field, kind in fields_of(cls)}
            self._plans[cls] = decoders, [field.name for field, _ in fields_of(cls) if default_of(field)[0] is NO_DEFAULT]
        decoders, needed = self._plans[cls]
        arguments = {}
        name = ""
        try:
            for name, part in data.items():
                if name not in decoders:
                    break
                arguments[name] = decoders[name](part, depth + 1)
        except Broken as broken:
            broken.path.append(f".{name}")
            raise
        if len(arguments) < len(data):
            raise Broken(f"{cls.__name__} has no field {short(name)}")
        for name in needed:
            if name not in arguments:
                raise Broken(f"{cls.__name__} needs the field {name!r}")
        result = cls(**arguments)
        if isinstance(result, Tensor | TensorSpec) and result.dtype not in DTYPES:
            raise Broken(f"unknown dtype {short(result.dtype)}")
        return result

    def decoder(self, kind: Any) -> Decode:
        """How to decode what a field of this type holds."""
        if kind is Any:
            return self.value
        if is_union(kind):
            return self.union(kind)
        inner = typing.get_args(kind)
        if typing.get_origin(kind) is tuple:
            one = self.decoder(inner[0])
            return _checked(list, kind, lambda data, depth: tuple(self.items(data, one, depth + 1)))
        if is_mapping(kind):
            return _checked(dict, kind, self.mapping(self.decoder(inner[1])))
        if kind is bytes:
            return self.bytes_
        if issubclass(kind, enum.Enum):
            return _member(kind)
        if dataclasses.is_dataclass(kind):
            return lambda data, depth: self.record(cast(type[Any], kind), data, depth)
        if kind in (int, float):
            return self.number(kind)
        return _checked(kind, kind, (lambda data, depth: self.text(data)) if kind is str else lambda data, depth: data)

    def mapping(self, decode: Decode) -> Decode:
        """How to decode a mapping from text to what `decode` gives."""

        def pairs(data: dict[Any, Any], depth: int) -> dict[str, Any]:
            result = {}
            for key, part in data.items():
                name = self.key(key)
                try:
                    result[name] = decode(part, depth + 1)
                except Broken as broken:
                    broken.path.append(f"[{short(name)}]")
                    raise
            return result

        return pairs

    def number(self, kind: type[Any]) -> Decode:
        """How to decode an int or a float; what JSON cannot write of them is tagged."""

        def number(data: Any, depth: int) -> Any:
            if isinstance(data, dict):
                data = self.value(data, depth)
            if type(data) is kind:
                return data
            if kind is float and type(data) is int:
                try:
                    return float(data)
                except OverflowError as error:
                    raise Broken("an integer beyond the range of floats") from error
            raise Broken(f"{short(data)} where {kind.__name__} is needed")

        return number

    def union(self, kind: Any) -> Decode:
        """How to decode one of several types: tagged, so that they can be told apart, unless there is one beside None."""
        members = typing.get_args(kind)
        rest = [member for member in members if member is not type(None)]
        one = self.decoder(rest[0]) if len(rest) == 1 else None

        def member(data: Any, depth: int) -> Any:
            if data is None:
                if type(None) in members:
                    return None
                raise Broken("nothing where something is needed")
            if one is not None:
                return one(data, depth)
            value = self.value(data, depth)
            if type(value) not in rest:
                raise Broken(f"{short(data)} where one of {', '.join(m.__name__ for m in rest)} is needed")
            return value

        return member


def _checked(needed: type[Any], kind: Any, decode: Decode) -> Decode:
    """`decode`, for data of exactly the type `needed`."""

    def checked(data: Any, depth: int) -> Any:
        if type(data) is needed:
            return decode(data, depth)
        raise Broken(f"{short(data)} where {getattr(kind, '__name__', kind)} is needed")

    return checked


def _member(kind: type[enum.Enum]) -> Decode:
    def member(data: Any, depth: int) -> enum.Enum:
        try:
            return kind(data)
        except ValueError as error:
            raise Broken(f"{short(data)} is no {kind.__name__}") from error

    return member


def _float_value(text: object) -> float:
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
    raise Broken(f"{short(text)} is not a hexadecimal float")
