"""Where a process prints to: a file in memory that only grows at its end, and that the supervisor reads and trims."""

from __future__ import annotations

import fcntl
import os

TAIL_BYTES = 16_384
MAX_BYTES = 64 << 20  # OneFlow prints 19 MB of IR around the passes of a ResNet-18, and all of it is evidence


class OutputFile:
    """Standard output and error of one process, which may print for ever and still not fill the memory."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("fxdiff-output", os.MFD_CLOEXEC)
        fcntl.fcntl(self.fd, fcntl.F_SETFL, os.O_APPEND)  # shared with the process, so that trimming leaves no hole

    def tail(self) -> str:
        """The last of what was printed."""
        size = os.fstat(self.fd).st_size
        return os.pread(self.fd, TAIL_BYTES, max(0, size - TAIL_BYTES)).decode("utf-8", errors="replace")

    def clear(self) -> None:
        """Forget what was printed."""
        os.ftruncate(self.fd, 0)

    def trim(self) -> None:
        """Keep only the tail of what has grown too long."""
        size = os.fstat(self.fd).st_size
        if size > MAX_BYTES:
            tail = os.pread(self.fd, TAIL_BYTES, size - TAIL_BYTES)
            os.ftruncate(self.fd, 0)
            os.write(self.fd, tail)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)
