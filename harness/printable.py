"""Texts as they may reach a terminal, a log or a Markdown page: what commands the reader's screen is shown and not obeyed.

Messages, names, titles and paths come from systems under test, from files and from strangers' corpora. Each edge of
fxdiff passes what it writes through here, so that nobody upstream need think of it.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, TextIO

_KEPT = frozenset("\n\t")
# Controls, characters that turn the direction of what follows or have no width, and line ends that are none.
_COMMANDING = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})
_TAG = re.compile(r"<(?=[A-Za-z/!?])")


def printable(text: str) -> str:
    """`text` with every character that could command a terminal written as an escape, such as \\x1b; lines stay lines."""
    if text.isascii() and (text.isprintable() or all(char.isprintable() or char in _KEPT for char in text)):
        return text
    return "".join(_shown(char) for char in text)


def _shown(char: str) -> str:
    if char in _KEPT or unicodedata.category(char) not in _COMMANDING:
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def prose(text: str) -> str:
    """`text` as part of a Markdown paragraph: on one line, and opening neither a fence nor a tag nor a comment."""
    line = " ".join(printable(text).split())
    return _TAG.sub(r"\\<", line.replace("```", "'''").replace("~~~", "---"))


class PrintableStream:
    """A text stream that escapes what is written to it; all else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def raw(self) -> TextIO:
        """The stream behind it, for a writer that escapes by itself and colours what it writes."""
        return self._stream

    def write(self, text: str) -> int:
        """Write `text`, escaped."""
        self._stream.write(printable(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write each line, escaped."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            # click writes to it, past what is escaped here, where the encoding is ASCII.
            raise AttributeError(name)
        return getattr(self._stream, name)
