"""Cases and outcomes as files, each with a `format_version`, and how a file is put on disk so that a crash cannot halve it."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import FormatError
from harness.model.case import Case
from harness.model.codec import FORMAT_VERSION, from_data, parse_json, to_data
from harness.model.outcome import Outcome
from harness.model.verdict import Verdict

Record = TypeVar("Record")
MAX_FILE = 256 << 20


def read_bytes(path: Path) -> bytes:
    """The bytes of a file of ours; raises FormatError where it is missing, unreadable or too large to be meant."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a pipe would never end, /dev/zero neither
            raise FormatError("is no file", where=str(path))
        if found.st_size > MAX_FILE:
            raise FormatError(f"{found.st_size} bytes; at most {MAX_FILE} are taken", where=str(path))
        return path.read_bytes()
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", where=str(path)) from error


def write_bytes(path: Path, data: bytes) -> None:
    """Write a new file and have it on disk before returning."""
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Have the names in a folder on disk before returning."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_version(version: object, *, where: str) -> None:
    """Raise FormatError unless `version` is one that this fxdiff reads."""
    if type(version) is not int or not 1 <= version < 1 << 32:  # a longer one is noise, which Python may refuse to print
        shown = "" if type(version) is int else f" {version!r:.60}"
        raise FormatError(f"format_version{shown} is not a positive integer", where=where)
    if version > FORMAT_VERSION:
        raise FormatError(f"format_version {version} is of a later fxdiff; this one reads up to {FORMAT_VERSION}", where=where)


def _pack(key: str, record: Any) -> bytes:
    document = {"format_version": FORMAT_VERSION, key: to_data(record)}
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=True, allow_nan=False).encode("ascii") + b"\n"


def _unpack(key: str, cls: type[Record], data: bytes, where: str) -> Record:
    document = parse_json(data, where=where)
    if not isinstance(document, dict) or "format_version" not in document:
        raise FormatError("no file of fxdiff: it has no format_version", where=where)
    check_version(document["format_version"], where=where)
    if document.keys() != {"format_version", key}:
        raise FormatError(
            f"holds {', '.join(sorted(document.keys() - {'format_version'})) or 'nothing'} where {key!r} is needed", where=where
        )
    return from_data(cls, document[key], where=f"{where}: {key}")


def pack_case(case: Case) -> bytes:
    """A case as the text of a case.json."""
    return _pack("case", case)


def unpack_case(data: bytes, *, where: str = "case.json") -> Case:
    """A valid case from the text of a case.json; raises FormatError with the place in it."""
    case = _unpack("case", Case, data, where)
    try:
        case.validate()
    except FormatError as error:
        raise FormatError(str(error), where=where) from error
    return case


def pack_outcome(outcome: Outcome) -> bytes:
    """An outcome as the text of an evidence file."""
    return _pack("outcome", outcome)


def unpack_outcome(data: bytes, *, where: str) -> Outcome:
    """An outcome from the text of an evidence file; raises FormatError."""
    return _unpack("outcome", Outcome, data, where)


def pack_verdict(verdict: Verdict) -> bytes:
    """A verdict as the text of an evidence file."""
    return _pack("verdict", verdict)


def unpack_verdict(data: bytes, *, where: str) -> Verdict:
    """A verdict from the text of an evidence file; raises FormatError."""
    return _unpack("verdict", Verdict, data, where)
