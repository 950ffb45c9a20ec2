"""Targets that break the machinery around them rather than an answer; all of them need nothing but numpy."""

from __future__ import annotations

import dataclasses
import os
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping

import numpy as np

from harness.backends.protocol import Progress, TargetSpec, register
from harness.model.case import Case
from harness.model.outcome import CallResult, Job, Outcome, Status
from harness.model.values import tensor_from_array
from harness.workers.framing import MAGIC, frame
from tests.doubles.plain import PlainBackend

BURN_SECONDS = 0.15
HUGE_ELEMENTS = 1 << 19  # 2 MB of float32


class WarmFails(PlainBackend):
    """Its library is not there."""

    def warm(self) -> None:
        raise ImportError("no library on purpose")


class WarmHangs(PlainBackend):
    """Its library hangs in its import."""

    def warm(self) -> None:
        time.sleep(3600)


class WarmDies(PlainBackend):
    """Its library kills the process in its import."""

    def warm(self) -> None:
        os.write(2, b"cannot be imported on purpose\n")
        os.abort()


class WarmThreads(PlainBackend):
    """Starts a thread before the fork."""

    def warm(self) -> None:
        threading.Thread(target=time.sleep, args=(3600,), daemon=True, name="pool").start()


class StartFails(PlainBackend):
    """It cannot be prepared in a worker."""

    def start(self) -> None:
        raise OSError("no device on purpose")


class StartDies(PlainBackend):
    """It kills the process while it is prepared."""

    def start(self) -> None:
        os.abort()


class StartHangs(PlainBackend):
    """It never ends to be prepared."""

    def start(self) -> None:
        time.sleep(3600)


class Burns(PlainBackend):
    """Takes CPU time in two stages, and is right."""

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        for stage in ("first", "second", "first"):
            progress.stage(stage)
            end = time.process_time() + BURN_SECONDS / 3
            while time.process_time() < end:
                pass
        return Outcome(job.target, Status.OK)


class Leaks(PlainBackend):
    """Keeps 40 MB more after every case."""

    def __init__(self) -> None:
        self.kept: list[object] = []

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        self.kept.append(np.ones(40 << 20, dtype=np.uint8))
        return super().run(case, job, progress)


class Spawns(PlainBackend):
    """Leaves processes behind, one of them in a session of its own; the message tells their ids."""

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        sleep = [sys.executable, "-S", "-c", "import time; time.sleep(3600)"]
        left = [subprocess.Popen(sleep, start_new_session=own) for own in (False, True)]
        return Outcome(job.target, Status.OK, message=" ".join(str(process.pid) for process in left))


class ForksHolder(PlainBackend):
    """Dies while a child of its own holds its socket open."""

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        if os.fork() == 0:
            time.sleep(3600)
        os.abort()


class Huge(PlainBackend):
    """Returns a large output."""

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        output = tensor_from_array(np.arange(HUGE_ELEMENTS, dtype=np.float32), "float32")
        return Outcome(job.target, Status.OK, calls=(CallResult(output),))


class Spends(PlainBackend):
    """Says with every answer that its process is of no more use."""

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        return dataclasses.replace(super().run(case, job, progress), spent=True)


class ReturnsNothing(PlainBackend):
    """Forgets its answer."""

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        return None  # type: ignore[return-value]


class ReturnsForeign(PlainBackend):
    """Puts an object into its answer that is no value."""

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        return dataclasses.replace(super().run(case, job, progress), calls=(CallResult(object()),))


class ClosesEverything(PlainBackend):
    """Closes descriptors that are not its own and lives on."""

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        os.closerange(0, 256)
        time.sleep(3600)
        return Outcome(job.target, Status.OK)


class InChildZygote(PlainBackend):
    """Right, in a zygote that is forked from that of the plain targets."""


class ChildOfHanging(PlainBackend):
    """Right, in a zygote that waits for a parent that is never warm."""


class Interrupts(PlainBackend):
    """Raises what ends a program."""

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        raise KeyboardInterrupt


def write_to_sockets(data: bytes) -> None:
    """Write to every socket of this process, as native code does that has its descriptors wrong."""
    for entry in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISSOCK(os.fstat(int(entry)).st_mode):
                os.write(int(entry), data)
        except OSError:
            continue  # the descriptor of the listing itself


class Scribbles(PlainBackend):
    """Writes to its job socket: the option `scribble` says what."""

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        kinds = {
            "garbage": b"hello world, this is not a message",
            "length": struct.pack("<4sQ", MAGIC, 1 << 60),
            "payload": frame(b"\xc1 is never used in msgpack"),
            "record": frame(b"\x81\xa5color\xa3red"),
        }
        write_to_sockets(kinds[str(job.options["scribble"])])
        return super().run(case, job, progress)

    def versions(self) -> Mapping[str, str]:
        return {}


ZYGOTES = {  # and their parents, of the targets that are not in the common one
    "WarmHangs": ("plain-hangs", ""),
    "WarmDies": ("plain-dies", ""),
    "WarmThreads": ("plain-threads", ""),
    "InChildZygote": ("plain-child", "plain"),
    "ChildOfHanging": ("plain-waits", "plain-hangs"),
}


def _register_all() -> None:
    for name, cls in list(globals().items()):
        if isinstance(cls, type) and issubclass(cls, PlainBackend) and cls is not PlainBackend:
            zygote, parent = ZYGOTES.get(name, ("plain", ""))
            summary = (cls.__doc__ or name).splitlines()[0]
            register(TargetSpec(f"broken:{name}", f"{__name__}:{name}", summary, zygote=zygote, parent_zygote=parent))


_register_all()
