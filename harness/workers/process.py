"""One forked worker process: send it a job, watch it, and say how it ended."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from harness.model.outcome import Death, Status
from harness.workers import kernel
from harness.workers.framing import Channel, CorruptMessage
from harness.workers.handle import ZygoteHandle
from harness.workers.output import OutputFile
from harness.workers.progress import Position, map_page, new_page, read_page
from harness.workers.settings import WorkerSettings
from harness.workers.worker import STACK_SIGNAL, Hello

_SAMPLES = 4
_SAMPLE_SECONDS = 0.05
_SPINNING_SECONDS = 0.02  # two ticks of the clock that the kernel accounts CPU time by
_DYING_SECONDS = 5.0  # a process that has closed its socket is on its way out
_OOM_SHARE = 0.9  # a death this near to the cap is one of memory: libraries abort when the backstop refuses them


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a process: what to call it, where it was, and the evidence."""

    status: Status
    message: str
    position: Position
    death: Death


class WorkerProcess:
    """A child of a zygote that serves one target; used by one thread at a time.

    Making one raises WorkerError where it cannot be forked, ZygoteDied where its zygote is gone; so does waiting.
    """

    def __init__(self, zygote: ZygoteHandle, target: str, settings: WorkerSettings) -> None:
        self.served = 0
        self.ended = False
        self.versions: Mapping[str, str] = {}
        self._zygote = zygote
        self._settings = settings
        self._output = OutputFile()
        self._statm = self._pidfd = -1
        self._baseline = 0
        page_fd = new_page()
        self._page = map_page(page_fd)
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours, limit=settings.message_mb * kernel.MEGABYTE)
        limits = {"memory_mb": settings.memory_mb, "message_mb": settings.message_mb}
        try:
            self.pid, self._pidfd = zygote.fork(target, limits, (theirs.fileno(), self._output.fd, page_fd))
        except BaseException:
            self._release()
            raise
        finally:
            theirs.close()
            os.close(page_fd)
        with contextlib.suppress(FileNotFoundError):  # it may be dead already
            self._statm = os.open(f"/proc/{self.pid}/statm", os.O_RDONLY | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._channel.sock, select.POLLIN)
        self._poll.register(self._pidfd, select.POLLIN)

    def start(self) -> Ending | None:
        """Wait for its backend's start; None once it is ready for jobs."""
        reply = self._await(self._settings.start_seconds, {})
        if isinstance(reply, Ending):
            return reply
        try:
            hello = msgspec.msgpack.decode(reply, type=Hello)
        except msgspec.DecodeError as error:
            return self._stop(Status.HARNESS_ERROR, f"the worker's first message is broken: {error}")
        if hello.failure:
            return self._stop(Status.HARNESS_ERROR, hello.failure)
        self.versions = hello.versions
        self._baseline = self._resident_mb()
        if self._baseline >= self._settings.memory_mb:
            text = f"{self._baseline} MB resident before the first case; the cap is {self._settings.memory_mb} MB"
            return self._stop(Status.HARNESS_ERROR, text, rss_mb=self._baseline)
        return None

    def ask(self, payload: bytes, *, patience: float = 1.0) -> bytes | Ending:
        """Send one job and wait for its outcome's bytes; deadlines are multiplied by `patience`."""
        self.served += 1
        self._output.clear()
        with contextlib.suppress(OSError):  # where it is dead, the watch says how
            self._channel.queue(payload)
        return self._await(self._settings.case_seconds * patience, {k: v * patience for k, v in self._settings.stage_seconds.items()})

    def ended_idle(self) -> Ending | None:
        """How it ended between two jobs; None where it waits for one, as it should."""
        ready = self._poll.poll(0)
        if not ready:
            return None
        if any(fd == self._pidfd for fd, _ in ready):
            return self._dead()
        return self._stop(Status.HARNESS_ERROR, "the worker spoke or hung up between two jobs")

    @property
    def worn_out(self) -> bool:
        """Whether it has served its time, or holds so much memory that the next case would pay for earlier ones."""
        if self.served >= self._settings.retire_after:
            return True
        return self._resident_mb() > (self._baseline + self._settings.memory_mb) // 2

    def retire(self) -> None:
        """Hang up: a healthy worker leaves by itself, and its zygote accounts for it."""
        if not self.ended:
            self.ended = True
            self._release()

    def kill(self) -> None:
        """Kill it, whatever it does."""
        if not self.ended:
            self._signal()
            self.retire()

    def _await(self, seconds: float, stages: Mapping[str, float]) -> bytes | Ending:
        try:
            return self._watch(seconds, stages)
        except BaseException:  # Ctrl-C: a late answer must not be taken for that of the next job
            self.kill()
            raise

    def _watch(self, seconds: float, stages: Mapping[str, float]) -> bytes | Ending:
        """Wait until a message is whole, the process ends, or a limit is crossed."""
        deadline = time.monotonic() + seconds
        pause = min(self._settings.tick_seconds, seconds)
        while True:
            events = select.POLLIN | select.POLLOUT if self._channel.sending else select.POLLIN
            self._poll.modify(self._channel.sock, events)
            died = any(fd == self._pidfd for fd, _ in self._poll.poll(pause * 1000))
            with contextlib.suppress(OSError):
                self._channel.flush()
            try:
                message = self._channel.receive()
            except EOFError:
                return self._dead()
            except CorruptMessage as error:
                return self._dead() if died else self._stop(Status.HARNESS_ERROR, str(error))
            if message is not None:
                return message
            if died:
                return self._dead()
            if (ending := self._crossed(deadline, seconds, stages)) is not None:
                return ending
            pause = min(self._settings.tick_seconds, max(deadline - time.monotonic(), 0.0))

    def _crossed(self, deadline: float, seconds: float, stages: Mapping[str, float]) -> Ending | None:
        self._output.trim()
        resident = self._resident_mb()
        if resident > self._settings.memory_mb:
            text = f"{resident} MB resident; the cap is {self._settings.memory_mb} MB"
            return self._stop(Status.OOM, text, rss_mb=resident)
        now = time.monotonic()
        if now >= deadline:
            return self._timeout(f"no answer within {seconds:g} s")
        position = read_page(self._page)
        allowed = stages.get(position.stage)
        if allowed is not None and now - position.since > allowed:
            return self._timeout(f"stage {position.stage} took longer than {allowed:g} s")
        return None

    def _timeout(self, text: str) -> Ending:
        spinning = self._is_spinning()
        return self._stop(Status.TIMEOUT, f"{text}, {'spinning' if spinning else 'sleeping'}", spinning=spinning)

    def _is_spinning(self) -> bool:
        """Whether any thread computes, by the CPU time of a short while; on a busy machine, by always being runnable."""
        self._signal(STACK_SIGNAL)  # for the evidence; it has the time of the samples to write it
        before = kernel.cpu_seconds(self.pid)
        runnable = True
        for _ in range(_SAMPLES):
            runnable = runnable and kernel.has_running_thread(self.pid)
            time.sleep(_SAMPLE_SECONDS)
        after = kernel.cpu_seconds(self.pid)
        used = after - before if before is not None and after is not None else 0.0
        return runnable or used >= _SPINNING_SECONDS

    def _stop(self, status: Status, message: str, *, spinning: bool | None = None, rss_mb: int = 0) -> Ending:
        """Kill the process for a reason of ours."""
        self._signal()
        position = read_page(self._page)
        ended = self._zygote.exit_of(self.pid)
        death = Death(stderr=self._output.tail(), spinning=spinning, rss_mb=max(rss_mb, ended.rss_mb))
        self.retire()
        return Ending(status, message, position, death)

    def _dead(self) -> Ending:
        """Collect a process that has ended by itself."""
        last = select.poll()
        last.register(self._pidfd, select.POLLIN)
        if not last.poll(_DYING_SECONDS * 1000):
            return self._stop(Status.HARNESS_ERROR, "the worker closed its socket and lives on")
        position = read_page(self._page)
        ended = self._zygote.exit_of(self.pid)
        stderr = self._output.tail()
        self.retire()
        if os.WIFSIGNALED(ended.status):
            name = kernel.signal_name(os.WTERMSIG(ended.status))
            death = Death(signal=name, stderr=stderr, rss_mb=ended.rss_mb)
            message = f"died by {name}"
        else:
            death = Death(exit_code=os.WEXITSTATUS(ended.status), stderr=stderr, rss_mb=ended.rss_mb)
            message = f"exited with code {death.exit_code}"
        if ended.rss_mb >= self._settings.memory_mb * _OOM_SHARE:
            return Ending(Status.OOM, f"{message}, after {ended.rss_mb} MB resident", position, death)
        return Ending(Status.CRASH, message, position, death)

    def _resident_mb(self) -> int:
        try:
            return kernel.resident_mb(os.pread(self._statm, 128, 0)) if self._statm >= 0 else 0
        except ProcessLookupError:
            return 0

    def _signal(self, number: int = signal.SIGKILL) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def _release(self) -> None:
        self._channel.close()
        self._output.close()
        self._page.close()
        for fd in (self._pidfd, self._statm):
            if fd >= 0:
                os.close(fd)
