"""The supervisor's hold on a zygote: start it, ask it for workers, learn how they ended."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import FxdiffError, TargetUnavailable, WorkerError
from harness.workers import kernel
from harness.workers.output import OutputFile
from harness.workers.zygote import receive_packet, send_packet

_BOOTSTRAP = Path(__file__).with_name("bootstrap.py")
_ANSWER_SECONDS = 60.0  # a fork takes milliseconds; this is for a machine that swaps
_GOODBYE_SECONDS = 10.0
_CLOSE_TICK = 0.05


class ZygoteDied(WorkerError):
    """The zygote ended while something was expected of it or of one of its workers."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a child of a zygote ended: wait status, CPU seconds of its life, and peak resident memory."""

    status: int
    cpu: float
    rss_mb: int


@dataclass(frozen=True, slots=True)
class Started:
    """A zygote process; `wait` returns the CPU seconds of it and its workers once it has ended."""

    pid: int
    pidfd: int
    wait: Callable[[], float]


Launch = Callable[[int, int], Started]
"""Starts a zygote on a control socket and an output file, both given as descriptors."""


def by_exec(python: str, env: Mapping[str, str]) -> Launch:
    """Launch in an interpreter of its own; TargetUnavailable where that cannot be started."""

    def launch(control_fd: int, output_fd: int) -> Started:
        command = [python, str(_BOOTSTRAP), str(control_fd), str(os.getpid())]
        try:
            process = subprocess.Popen(
                command,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output_fd,
                stderr=output_fd,
                pass_fds=[control_fd],
                start_new_session=True,  # Ctrl-C in the terminal is the engine's business alone
            )
        except OSError as error:
            raise TargetUnavailable(f"cannot start {python}: {error.strerror}") from error

        def wait() -> float:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage.ru_utime + usage.ru_stime

        return Started(process.pid, os.pidfd_open(process.pid), wait)

    return launch


def by_fork(parent: ZygoteHandle, warm_seconds: float) -> Launch:
    """Launch from another zygote, so that what that one has imported is not imported again."""

    def launch(control_fd: int, output_fd: int) -> Started:
        parent.wait_ready(warm_seconds)
        pid, pidfd = parent.request({"op": "spawn"}, (control_fd, output_fd))
        return Started(pid, pidfd, lambda: parent.exit_of(pid).cpu)

    return launch


class ZygoteHandle:
    """One zygote process as the supervisor sees it; every method may be called from any thread.

    A thread of its own starts it and reads what it reports, and lasts as long as it does, since the kernel ties a
    process's fate to the thread that made it.
    """

    def __init__(self, name: str, targets: Mapping[str, str], launch: Launch, path: Sequence[str] = ()) -> None:
        self.name = name
        self.dead = False
        self.ready = False
        self.failed: Mapping[str, str] = {}  # target to why it could not be warmed
        self._config = {"targets": dict(targets), "path": list(path)}
        self._launch = launch
        self._started: Started | None = None
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._requests: dict[int, str] = {}
        self._answers: dict[int, tuple[int, int] | str] = {}
        self._running: dict[int, str] = {}
        self._exits: dict[int, Exit] = {}
        self._cpu: dict[str, float] = {}
        self._own_cpu: float | None = None
        self._last_words = ""
        self._output = OutputFile()
        self._control, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._thread = threading.Thread(target=self._attend, name=f"zygote {name}", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Its process id, 0 before it has one."""
        return self._started.pid if self._started is not None else 0

    def wait_ready(self, timeout: float) -> None:
        """Wait until its targets are warm.

        Raises TargetUnavailable where its interpreter cannot be started; ZygoteDied, with the tail of what was
        printed, where it ended or took too long.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self.ready or self.dead, timeout):
                self._kill()
                names = ", ".join(self._config["targets"])
                said = f"zygote {self.name} was not warm after {timeout:g} s: the import of its libraries, or warm(), hangs ({names})"
                raise ZygoteDied(f"{said}\n{self._output.tail()}".rstrip())
            if self.dead:
                raise self._reason()

    def fork(self, target: str, limits: Mapping[str, int], fds: tuple[int, int, int]) -> tuple[int, int]:
        """Fork a worker on (job socket, output file, progress page): its pid and a pidfd that the caller closes.

        Raises ZygoteDied, or WorkerError where the zygote refuses.
        """
        return self.request({"op": "fork", "target": target, "limits": dict(limits)}, fds)

    def request(self, message: Mapping[str, Any], fds: tuple[int, ...]) -> tuple[int, int]:
        """Send a request that makes a process and wait for its pid and pidfd."""
        with self._changed:
            number = next(self._numbers)
            self._requests[number] = message.get("target", "")
            try:
                send_packet(self._control, {**message, "id": number}, fds)
            except OSError as error:
                raise ZygoteDied(f"zygote {self.name} does not listen: {error}") from error
            self._changed.wait_for(lambda: number in self._answers or self.dead, _ANSWER_SECONDS)
            if number not in self._answers:
                self._kill()
                raise self._reason()
            answer = self._answers.pop(number)
        if isinstance(answer, str):
            raise WorkerError(f"zygote {self.name}: {answer}")
        return answer

    def exit_of(self, pid: int) -> Exit:
        """Wait for the end of a child, once. Raises ZygoteDied where nobody can tell any more."""
        with self._changed:
            self._changed.wait_for(lambda: pid in self._exits or self.dead, _ANSWER_SECONDS)
            if pid in self._exits:
                return self._exits.pop(pid)
            self._kill()
            raise self._reason()

    def cpu_seconds(self) -> dict[str, float]:
        """CPU seconds by target, of workers dead and alive, and the zygote's own under `zygote:NAME`."""
        with self._changed:
            found = dict(self._cpu)
            for pid, target in self._running.items():
                found[target] = found.get(target, 0.0) + (kernel.cpu_seconds(pid) or 0.0)
            own = self._own_cpu if self._own_cpu is not None else kernel.cpu_seconds(self.pid) if self.pid else 0.0
        return {**found, f"zygote:{self.name}": own or 0.0}

    def close(self) -> None:
        """End the zygote with all its workers, and wait for it. Zygotes forked from it must be closed before."""
        with contextlib.suppress(OSError):  # it may have hung up already
            self._control.shutdown(socket.SHUT_WR)
        patience = time.monotonic() + _GOODBYE_SECONDS
        while self._thread.is_alive():
            if not self.ready or time.monotonic() > patience:  # a library in its import does not listen
                with self._changed:
                    self._kill()
            self._thread.join(_CLOSE_TICK)

    def _kill(self) -> None:
        if self._started is not None and not self.dead:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._started.pidfd, signal.SIGKILL)

    def _reason(self) -> Exception:
        if isinstance(self._error, TargetUnavailable):
            return self._error
        detail = self._error if self._error is not None else "it ended"
        return ZygoteDied(f"zygote {self.name}: {detail}\n{self._last_words}".rstrip())

    def _attend(self) -> None:
        try:
            self._started = self._launch(self._theirs.fileno(), self._output.fd)
            self._theirs.close()  # or its end would never show
            send_packet(self._control, self._config)
            while (packet := receive_packet(self._control)) is not None:
                self._note(*packet)
        except (FxdiffError, OSError) as error:
            self._error = error
        finally:
            self._bury()

    def _note(self, message: dict[str, Any], fds: tuple[int, ...]) -> None:
        with self._changed:
            op = message["op"]
            if op == "ready":
                self.failed = message["failed"]
                self.ready = True
            elif op == "forked":
                pid, target = message["pid"], self._requests.pop(message["id"])
                self._exits.pop(pid, None)  # of an earlier process with this number
                if target:
                    self._running[pid] = target
                self._answers[message["id"]] = (pid, fds[0])
            elif op == "refused":
                self._requests.pop(message["id"])
                self._answers[message["id"]] = message["message"]
            elif op == "exit":
                self._exits[message["pid"]] = Exit(message["status"], message["cpu"], message["rss_mb"])
                self._charge(message["pid"], message["cpu"])
            elif op == "bye":
                self._own_cpu = message["cpu"]
            self._changed.notify_all()

    def _charge(self, pid: int, cpu: float) -> None:
        target = self._running.pop(pid, "")
        if target:
            self._cpu[target] = self._cpu.get(target, 0.0) + cpu

    def _bury(self) -> None:
        total = 0.0
        self._theirs.close()
        if self._started is not None:
            self._kill()  # its end of the socket is closed: if it lives, it has lost its way
            with contextlib.suppress(WorkerError):  # the parent zygote died with it and cannot tell
                total = self._started.wait()
        with self._changed:
            for pid in tuple(self._running):  # only after a zygote's violent end; the kernel kills them now
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
                self._charge(pid, kernel.cpu_seconds(pid) or 0.0)
            if self._own_cpu is None:
                self._own_cpu = max(0.0, total - sum(self._cpu.values()))
            self._last_words = self._output.tail()
            self._output.close()
            if self._started is not None:
                os.close(self._started.pidfd)
            self.dead = True
            self._changed.notify_all()
        self._control.close()
