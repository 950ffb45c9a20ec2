"""Whether processes live and what they use, for tests that kill them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from harness.workers.pool import WorkerPool


def is_alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def wait_until(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Whether the condition came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def all_gone(pids: Iterable[int], seconds: float = 5.0) -> bool:
    """Whether all of the processes ended in time."""
    remaining = list(pids)
    return wait_until(lambda: not any(is_alive(pid) for pid in remaining), seconds)


def used_cpu(pool: WorkerPool) -> float:
    """CPU seconds of this process and of all processes of a pool: a busy machine does not change it much."""
    return time.process_time() + sum(pool.cpu_seconds().values())
