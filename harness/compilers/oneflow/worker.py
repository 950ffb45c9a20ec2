"""OneFlow's process as torch's process sees it: started at the first call, asked under a deadline, closed at exit."""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import msgspec

from harness.backends.oneflow.service.arena import new_arena
from harness.backends.oneflow.service.loop import MESSAGE_BYTES, STACK_SIGNAL
from harness.backends.oneflow.service.messages import BACKWARD, CannotPass, pack, unpack
from harness.compilers.oneflow.errors import NodeFailed, NodeRefused, WorkerDied
from harness.environments.oneflow_env import oneflow_python
from harness.errors import HarnessError, TargetUnavailable
from harness.workers import kernel
from harness.workers.framing import Channel, CorruptMessage
from harness.workers.output import OutputFile
from harness.workers.progress import map_page, new_page, read_page

_BOOTSTRAP = Path(kernel.__file__).with_name("bootstrap.py")
_START_SECONDS = 120.0
_DYING_SECONDS = 5.0
_STACK_SECONDS = 0.3
_STDERR_LINES = 12


class Worker:
    """One process; every method but `drop` is called by one thread at a time."""

    def __init__(self) -> None:
        environment = oneflow_python()
        self.incoming, self.outgoing = new_arena(), new_arena()  # as the process sees them
        self.loaded: set[int] = set()
        self._dropped: dict[str, deque[int]] = {"dropped programs": deque(), "dropped calls": deque()}
        self._output = OutputFile()
        page = new_page()
        self._page = map_page(page)
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours, limit=MESSAGE_BYTES)
        fds = [theirs.fileno(), page, self.incoming.fd, self.outgoing.fd]
        command = [str(environment.python), str(_BOOTSTRAP), "harness.backends.oneflow.service.loop:main", *map(str, fds), str(os.getpid())]
        self._process: subprocess.Popen[bytes] | None = None
        self._started = threading.Event()
        self._error: OSError | None = None

        def attend() -> None:
            # In a thread that lasts: the kernel ties the process's fate to the thread that made it, not to the program.
            try:
                self._process = subprocess.Popen(
                    command,
                    env=environment.child_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=self._output.fd,
                    stderr=self._output.fd,
                    pass_fds=fds,
                )
            except OSError as error:
                self._error = error
                return
            finally:
                self._started.set()
            self._process.wait()

        self._attendant = threading.Thread(target=attend, name="oneflow", daemon=True)
        self._attendant.start()
        self._started.wait()
        theirs.close()
        os.close(page)
        if self._process is None:
            raise TargetUnavailable(f"cannot start {environment.python}: {self._error}")
        self.pid = self._process.pid
        self._pidfd: int = os.pidfd_open(self.pid)
        self._poll: select.poll = select.poll()
        self._poll.register(self._channel.sock, select.POLLIN)
        self._poll.register(self._pidfd, select.POLLIN)
        self.alive: bool = True
        try:
            hello = self._await(_START_SECONDS)
        except WorkerDied as error:
            raise TargetUnavailable(f"OneFlow does not start: {error}") from error
        if "failure" in hello:
            self.close()
            raise TargetUnavailable(f"OneFlow does not start: {hello['failure']}")

    def ask(self, message: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Send one message and wait for its answer.

        Raises WorkerDied where the process ends or takes too long, NodeRefused and NodeFailed for what OneFlow says of a node,
        CannotPass for a value that has no place on this side, HarnessError for a fault of ours.
        """
        for key, numbers in self._dropped.items():
            if numbers:
                message[key] = [numbers.popleft() for _ in range(len(numbers))]
        payload = pack(message)
        if len(payload) > MESSAGE_BYTES:
            raise HarnessError(f"a message of {len(payload)} bytes")
        with contextlib.suppress(OSError):  # where it is dead, the watch says how
            self._channel.queue(payload)
        answer = self._await(seconds)
        if "stopped" in answer:
            if answer["refused"]:
                raise NodeRefused(answer["node"], answer["stopped"], backward=answer["backward"])
            raise NodeFailed(f"{said(answer['node'], answer['backward'])}: {answer['stopped']}", answer["node"])
        if "cannot pass" in answer:
            raise CannotPass(answer["cannot pass"])
        if "fault" in answer:
            raise HarnessError(f"OneFlow's process is at a loss: {answer['fault']}")
        return answer

    def lives(self) -> bool:
        """Whether the process is there; one that ended between two calls is buried."""
        if self.alive and any(fd == self._pidfd for fd, _ in self._poll.poll(0)):
            self.close()
        return self.alive

    def drop_call(self, number: int) -> None:
        """Note, from any thread, that nobody will ask for this call's gradients; told with the next message."""
        self._dropped["dropped calls"].append(number)

    def drop_program(self, number: int) -> None:
        """Note, from any thread, that this program will not be called again."""
        if number in self.loaded:
            self._dropped["dropped programs"].append(number)

    def close(self) -> None:
        """Hang up; a healthy process leaves by itself, another one is killed."""
        if not self.alive:
            return
        self.alive = False
        self._channel.close()
        self._attendant.join(_DYING_SECONDS)
        if self._attendant.is_alive():
            self._signal(signal.SIGKILL)
            self._attendant.join()
        os.close(self._pidfd)
        self._page.close()
        self._output.close()
        self.incoming.close()
        self.outgoing.close()

    def _await(self, seconds: float) -> dict[str, Any]:
        try:
            data = self._watch(seconds)
            try:
                return unpack(data)
            except msgspec.DecodeError as error:
                raise self._stop(f"sent a message that is none: {error}") from error
        except WorkerDied:
            raise
        except BaseException:  # Ctrl-C: a late answer must not be taken for that of the next message
            self._signal(signal.SIGKILL)
            self.close()
            raise

    def _watch(self, seconds: float) -> bytes:
        deadline = time.monotonic() + seconds
        while True:
            self._poll.modify(self._channel.sock, select.POLLIN | select.POLLOUT if self._channel.sending else select.POLLIN)
            died = any(fd == self._pidfd for fd, _ in self._poll.poll(max(deadline - time.monotonic(), 0.0) * 1000))
            with contextlib.suppress(OSError):
                self._channel.flush()
            try:
                message = self._channel.receive()
            except EOFError:
                raise self._dead() from None
            except CorruptMessage as error:
                raise self._stop(str(error)) from error
            if message is not None:
                return message
            if died:
                raise self._dead()
            if time.monotonic() >= deadline:
                self._signal(STACK_SIGNAL)  # for the evidence
                time.sleep(_STACK_SECONDS)
                raise self._stop(f"gave no answer within {seconds:g} s", hung=True)

    def _dead(self) -> WorkerDied:
        """A process that has ended by itself, or is about to."""
        self._attendant.join(_DYING_SECONDS)
        assert self._process is not None
        code = self._process.returncode
        if code is None:
            return self._stop("closed its socket and lives on")
        name = kernel.signal_name(-code) if code < 0 else ""
        return self._ended(f"died by {name}" if name else f"exited with code {code}", name=name)

    def _stop(self, what: str, *, hung: bool = False) -> WorkerDied:
        self._signal(signal.SIGKILL)
        return self._ended(what, hung=hung)

    def _ended(self, what: str, *, name: str = "", hung: bool = False) -> WorkerDied:
        position = read_page(self._page)
        stderr = [line for line in self._output.tail().splitlines() if line.strip() and "libibverbs" not in line]
        self.close()
        node = (position.node or "").removesuffix(BACKWARD)
        where = f" at {said(node, node != position.node)}" if node else f" in its stage {position.stage!r}" if position.stage else ""
        printed = "".join(f"\n    {line}" for line in stderr[:_STDERR_LINES])
        text = f"OneFlow's process {what}{where}{printed}"
        return WorkerDied(text, node, signal=name, hung=hung, printed="\n".join(stderr))

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)


def said(node: str, backward: bool) -> str:
    """How a node or its derivative is called in an error."""
    return f"the derivative of node {node!r}" if backward else f"node {node!r}"


class Workers:
    """The one process of this torch process: made when it is needed, made anew after a death or a fork."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._worker: Worker | None = None

    def current(self) -> Worker:
        """A live process; hold `lock`. Raises TargetUnavailable where OneFlow is not there."""
        if self._worker is None or not self._worker.lives():
            self._worker = Worker()
        return self._worker

    def peek(self) -> Worker | None:
        """The process, where there is one."""
        return self._worker

    def close(self) -> None:
        """End the process; the next call would start another."""
        with self.lock:
            if self._worker is not None:
                self._worker.close()
                self._worker = None

    def forget(self) -> None:
        """In a forked child: the process is the parent's, and so is whoever held the lock."""
        self.lock = threading.RLock()
        self._worker = None


WORKERS = Workers()
atexit.register(WORKERS.close)
os.register_at_fork(after_in_child=WORKERS.forget)
