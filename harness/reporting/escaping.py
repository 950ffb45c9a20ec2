"""The consoles that fxdiff prints on: whatever is printed, only the console's own colours command the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from harness.printable import PrintableStream, printable


class EscapingConsole(Console):
    """A rich console that escapes every text it renders, and so writes past the escaping of sys.stdout and sys.stderr."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"emoji": False, **options})  # `:a:` in the name of a target is no picture

    @property
    def file(self) -> IO[str]:
        """The stream to write to."""
        stream = self._file or (sys.stderr if self.stderr else sys.stdout)
        return stream.raw if isinstance(stream, PrintableStream) else super().file

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of what is printed, their texts escaped."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)
