"""What Linux knows of a process, and the few system calls that Python does not wrap."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
MEGABYTE = 1 << 20


def _prctl(option: int, argument: int) -> None:
    if _LIBC.prctl(option, ctypes.c_ulong(argument), 0, 0, 0) != 0:
        errno = ctypes.get_errno()
        raise OSError(errno, f"prctl({option}): {os.strerror(errno)}")


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread that made it ends; leave at once if it has ended already."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def outlive_parent() -> None:
    """Undo `die_with_parent`."""
    _prctl(_PR_SET_PDEATHSIG, 0)


def adopt_orphans() -> None:
    """Become the parent of whatever this process's children leave behind."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _stat(pid: int, thread: int | None = None) -> list[str] | None:
    path = f"/proc/{pid}/stat" if thread is None else f"/proc/{pid}/task/{thread}/stat"
    try:
        with open(path, "rb") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text[text.rindex(b")") + 2 :].decode("ascii").split()  # the name before may hold spaces and parentheses


def cpu_seconds(pid: int) -> float | None:
    """User and system seconds of all threads of a process, without its children; None where there is none."""
    fields = _stat(pid)
    return None if fields is None else (int(fields[11]) + int(fields[12])) / _TICKS


def has_running_thread(pid: int) -> bool:
    """Whether any thread of the process runs or waits for a processor right now."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return False
    found = (_stat(pid, int(thread)) for thread in threads)
    return any(fields is not None and fields[0] == "R" for fields in found)


def thread_names() -> list[str]:
    """The names of this process's threads, native ones too."""
    names = []
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/comm", encoding="utf-8", errors="replace") as file:
            names.append(file.read().strip())
    return names


def children_of(parent: int) -> list[int]:
    """The processes whose parent is `parent`, by a walk over /proc (its `children` files are often compiled out)."""
    result = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            fields = _stat(int(entry))
            if fields is not None and int(fields[1]) == parent:
                result.append(int(entry))
    return result


def resident_mb(statm: bytes) -> int:
    """The resident set in MB that the text of a `statm` file tells."""
    return int(statm.split()[1]) * _PAGE // MEGABYTE


def data_bytes() -> int:
    """The data segment of this process, as RLIMIT_DATA counts it."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[5]) * _PAGE


def signal_name(number: int) -> str:
    """The name of a signal, such as SIGSEGV."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
