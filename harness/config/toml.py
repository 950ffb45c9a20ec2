"""TOML written by people, or by nobody's friend: read with a limit, and every complaint names its place."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tomllib

from harness.errors import FormatError, UnknownName

MAX_BYTES = 1 << 20
MAX_KEY_PARTS = 64
_MAX_TEXT = 4096
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'')
_BETWEEN_KEYS = re.compile(r"[=,\[\]{}#\s]+")


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file; raises FormatError with the file and, where it is no TOML, the line."""
    try:
        if not path.is_file():
            raise FormatError("is a folder where a file is needed" if path.is_dir() else "there is no such file", where=str(path))
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror}", where=str(path)) from error
    if len(data) > MAX_BYTES:
        raise FormatError(f"more than {MAX_BYTES >> 20} MB is no file that a person wrote", where=str(path))
    return parse_toml(data, where=str(path))


def parse_toml(data: bytes, *, where: str) -> dict[str, Any]:
    """The tables of a text; raises FormatError. The parser's time grows with the square of a key's parts, so those are few."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"not UTF-8 at byte {error.start}", where=where) from error
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > MAX_KEY_PARTS:
            bare = re.sub(r"[ \t]*\.[ \t]*", ".", _STRING.sub("x", line))
            if any(word.count(".") > MAX_KEY_PARTS for word in _BETWEEN_KEYS.split(bare)):
                raise FormatError(f"line {number}: a key of more than {MAX_KEY_PARTS} parts", where=where)
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise FormatError("nested too deeply", where=where) from error
    except ValueError as error:  # tomllib's own error is one; so is what int() says of a number with too many digits
        raise FormatError(f"not TOML: {error}", where=where) from error


class Table:
    """A TOML table whose keys are taken one by one with their types; `finish` complains of those that nobody took.

    Every method raises FormatError that names the file and the key.
    """

    def __init__(self, data: object, where: str) -> None:
        if not isinstance(data, dict):
            raise FormatError(f"is {_short(data)} where a table is needed", where=where)
        self._data: Mapping[str, Any] = data
        self._asked: list[str] = []
        self.where = where

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def text(self, key: str, default: str = "") -> str:
        """A text."""
        value = self._take(key, default)
        if not isinstance(value, str) or len(value) > _MAX_TEXT:
            raise self.wrong(key, "a text")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; empty where there is none."""
        value = self._take(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) and len(item) <= _MAX_TEXT for item in value):
            raise self.wrong(key, "a list of texts")
        return tuple(value)

    def text_or_number(self, key: str) -> str | None:
        """A text, or a number as text; None where there is none."""
        value = self._take(key, None)
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, "a text or a number")
        return str(value)

    def integer(self, key: str, low: int, high: int) -> int | None:
        """An integer within bounds; None where there is none."""
        value = self._take(key, None)
        if value is not None and (type(value) is not int or not low <= value <= high):
            raise self.wrong(key, f"an integer from {low} to {high}")
        return value

    def date(self, key: str) -> datetime.date | None:
        """A date; None where there is none."""
        value = self._take(key, None)
        if value is not None and (not isinstance(value, datetime.date) or isinstance(value, datetime.datetime)):
            raise self.wrong(key, "a date such as 2027-01-31, without quotes")
        return value

    def numbers(self, key: str) -> dict[str, float]:
        """A table of positive numbers by name."""
        value = self._take(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "a table of numbers")
        for name, number in value.items():
            if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number <= 1e12 or math.isnan(number):
                raise FormatError(f"{key}.{name} is {_short(number)} where a number above 0 is needed", where=self.where)
        return {name: float(number) for name, number in value.items()}

    def words(self, key: str) -> dict[str, str]:
        """A table of texts by name."""
        value = self._take(key, {})
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise self.wrong(key, "a table of texts")
        return dict(value)

    def choices(self, key: str, known: Iterable[str], kind: str) -> tuple[str, ...]:
        """A list of names out of `known`."""
        names = self.texts(key)
        for name in names:
            if name not in (known := tuple(known)):
                raise FormatError(f"{key}: {UnknownName(kind, name, known)}", where=self.where)
        return names

    def wrong(self, key: str, needed: str) -> FormatError:
        """The complaint about one key."""
        return FormatError(f"{key} is {_short(self._data.get(key))} where {needed} is needed", where=self.where)

    def finish(self) -> None:
        """Complain of a key that was never asked for, with the nearest that exists."""
        for key in self._data:
            if key not in self._asked:
                raise FormatError(str(UnknownName("key", key, self._asked)), where=self.where)

    def _take(self, key: str, default: Any) -> Any:
        self._asked.append(key)
        return self._data.get(key, default)


def _short(value: object) -> str:
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested deeply, or an int of more digits than Python prints
        return f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."
