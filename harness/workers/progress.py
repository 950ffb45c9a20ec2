"""The progress page: shared memory in which a worker says what it is about to do, and that outlives it."""

from __future__ import annotations

import mmap
import os
import struct
import time
from dataclasses import dataclass

PAGE_BYTES = 4096
STAGE_BYTES = 64
NODE_BYTES = 256
_SEQUENCE = struct.Struct("<Q")
_STAGE = struct.Struct(f"<d{STAGE_BYTES}s{NODE_BYTES}s")  # entering a stage also forgets the node
_NODE = struct.Struct(f"<{NODE_BYTES}s")
_STAGE_AT = _SEQUENCE.size
_NODE_AT = _STAGE_AT + _STAGE.size - NODE_BYTES


@dataclass(frozen=True, slots=True)
class Position:
    """Where a worker was: its stage and node, and when the stage began (CLOCK_MONOTONIC, 0 before the first)."""

    stage: str
    node: str | None
    since: float
    sequence: int


def new_page() -> int:
    """The descriptor of a fresh page."""
    fd = os.memfd_create("fxdiff-progress", os.MFD_CLOEXEC)
    os.ftruncate(fd, PAGE_BYTES)
    return fd


def map_page(fd: int) -> mmap.mmap:
    """The page behind a descriptor, shared with every process that maps it."""
    return mmap.mmap(fd, PAGE_BYTES, mmap.MAP_SHARED)


def read_page(page: mmap.mmap) -> Position:
    """What the page says; a page scribbled over by a dying process reads as garbage, never raises."""
    for _ in range(3):  # the sequence is odd while the worker writes
        (before,) = _SEQUENCE.unpack_from(page, 0)
        since, stage, node = _STAGE.unpack_from(page, _STAGE_AT)
        (after,) = _SEQUENCE.unpack_from(page, 0)
        if before == after and before % 2 == 0:
            break
    name = _text(node)
    return Position(_text(stage), name or None, since if since >= 0 else 0.0, after)


def _text(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode("utf-8", errors="replace")


class PageProgress:
    """The worker's Progress: writes the page without system calls and counts CPU seconds by stage."""

    def __init__(self, page: mmap.mmap) -> None:
        self._page = page
        self._sequence = 0
        self._cpu = time.process_time()
        self.current_stage = ""
        self.current_node: str | None = None
        self.seconds: dict[str, float] = {}

    def begin(self) -> None:
        """Forget the job before."""
        self.seconds = {}
        self.current_stage = ""  # so that idle time is nobody's
        self.stage("")

    def stage(self, name: str) -> None:
        """Enter a stage."""
        now = time.process_time()
        if self.current_stage:
            self.seconds[self.current_stage] = self.seconds.get(self.current_stage, 0.0) + now - self._cpu
        self._cpu = now
        self.current_stage, self.current_node = name, None
        self._write(_STAGE, _STAGE_AT, time.monotonic(), name.encode("utf-8", "replace")[:STAGE_BYTES], b"")

    def node(self, name: str) -> None:
        """Name the node that is about to run."""
        self.current_node = name
        self._write(_NODE, _NODE_AT, name.encode("utf-8", "replace")[:NODE_BYTES])

    def finish(self) -> dict[str, float]:
        """Close the last stage: CPU seconds by stage. The page keeps what it says."""
        now = time.process_time()
        if self.current_stage:
            self.seconds[self.current_stage] = self.seconds.get(self.current_stage, 0.0) + now - self._cpu
        self._cpu = now
        return self.seconds

    def _write(self, layout: struct.Struct, at: int, *values: object) -> None:
        self._sequence += 1
        _SEQUENCE.pack_into(self._page, 0, self._sequence)
        layout.pack_into(self._page, at, *values)
        self._sequence += 1
        _SEQUENCE.pack_into(self._page, 0, self._sequence)
