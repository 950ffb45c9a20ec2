"""The event log: one JSON object a line, flushed as it happens; every other report can be made again from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from harness.errors import FormatError, UsageError
from harness.events import EVENTS, Event
from harness.model.codec import from_data, parse_json, to_data

FORMAT_VERSION = 1
_HEADER = b'{"event":"Log","format_version":1}\n'


class LogWriter:
    """Appends events to a file; usable as a listener."""

    def __init__(self, path: Path) -> None:
        """Raises UsageError where the file cannot be written; a last line that a kill cut short is taken away."""
        self.path = path
        try:
            self._file = path.open("ab", buffering=0)  # each event is one write, on disk at once
            end = _whole_lines(path) if path.is_file() else 0
            if path.is_file():
                self._file.truncate(end)
        except OSError as error:
            raise UsageError(f"cannot write the event log {path}: {error.strerror}") from error
        try:
            if end == 0:
                self._write(_HEADER)
        except UsageError:
            self._file.close()
            raise

    def __call__(self, event: Event) -> None:
        """Write one event; raises UsageError where the disk refuses it."""
        data = {"event": type(event).__name__, **to_data(event)}
        self._write(json.dumps(data, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n")

    def _write(self, line: bytes) -> None:
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as error:
            raise UsageError(
                f"cannot write the event log {self.path}: {error.strerror}; what is in it stays: free some space and go on with --resume"
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _whole_lines(path: Path) -> int:
    """How many bytes of a log are whole lines."""
    return path.read_bytes().rfind(b"\n") + 1


def read_log(path: Path) -> Iterator[Event]:
    """The events of a log, in order; a last line that was cut short by a kill is left out.

    Raises FormatError for anything else that is not a log of ours.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(f"cannot read the event log {path}: {error.strerror}") from error
    whole, rest = lines[:-1], lines[-1]
    header = parse_json(whole[0], where=f"{path}:1") if whole else None
    if not isinstance(header, dict) or header.get("event") != "Log":
        raise FormatError("not an fxdiff event log", where=str(path))
    if header.get("format_version") != FORMAT_VERSION:
        raise FormatError(f"format version {header.get('format_version')!r}; this fxdiff reads {FORMAT_VERSION}", where=str(path))
    del rest
    for number, line in enumerate(whole[1:], start=2):
        where = f"{path}:{number}"
        data = parse_json(line, where=where)
        name = data.pop("event", None) if isinstance(data, dict) else None
        if name == "Log":
            continue
        if name not in EVENTS:
            raise FormatError(f"unknown event {name!r}", where=where)
        yield from_data(EVENTS[name], data, where=where)
