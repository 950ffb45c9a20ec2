"""Shared memory for large tensors: one file in memory that both processes map, written afresh for each message."""

from __future__ import annotations

import mmap
import os

_ALIGNMENT = 64
_GRAIN = 1 << 20


class Arena:
    """A growing region of shared memory over a descriptor; the writer calls `begin` and `reserve`, the reader `map_to`."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.map: mmap.mmap | None = None
        self._used = 0

    def begin(self) -> None:
        """Forget what was written before: the other side has read it."""
        self._used = 0

    def reserve(self, size: int) -> tuple[mmap.mmap, int]:
        """The memory and an offset in it at which `size` bytes may be written."""
        offset = -(-self._used // _ALIGNMENT) * _ALIGNMENT
        self._used = offset + size
        if os.fstat(self.fd).st_size < self._used:
            # Twice as much, so that a call with many tensors grows it a few times only. It never shrinks under the reader.
            os.ftruncate(self.fd, -(-2 * self._used // _GRAIN) * _GRAIN)
        return self.map_to(self._used), offset

    def map_to(self, end: int) -> mmap.mmap:
        """The memory, at least `end` bytes of it; raises ValueError where the other side never made it that long."""
        if self.map is None or len(self.map) < end:
            size = os.fstat(self.fd).st_size
            if size < end:
                raise ValueError(f"{end} bytes of shared memory are referred to, {size} are there")
            self.map = mmap.mmap(self.fd, size)  # an older map lives for as long as arrays look at it
        return self.map

    def close(self) -> None:
        """Give up the descriptor; what is mapped stays while it is looked at."""
        os.close(self.fd)
        self.map = None


def new_arena() -> Arena:
    """An empty arena with a descriptor of its own, which a child may inherit."""
    return Arena(os.memfd_create("fxdiff-tensors", os.MFD_CLOEXEC))
