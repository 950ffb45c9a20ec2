"""The zygote: a process that has imported and warmed a group of targets, and forks their workers on request.

It talks over a SOCK_SEQPACKET socket, one msgpack map a packet, descriptors beside it:

    supervisor: configure {targets, path, parent} · fork {id, target, limits} + job socket, output, page
                spawn {id} + control socket, output: fork another zygote from this one
    zygote:     ready {failed} · forked {id, pid} + pidfd · refused {id, message} · exit {pid, status, cpu, rss_mb}
                bye {cpu}

When the supervisor hangs up, the zygote kills what it forked, accounts for it and leaves.
"""

from __future__ import annotations

import array
import gc
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping
from typing import Any

import msgspec

from harness.backends.protocol import Backend, load_backend
from harness.errors import HarnessError
from harness.workers import kernel
from harness.workers.worker import Limits, rehearse, serve, take_over_output

PACKET = 1 << 17
MAX_FDS = 4
_TEXT = 8000
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def send_packet(sock: socket.socket, message: Mapping[str, Any], fds: tuple[int, ...] = ()) -> None:
    """Send one packet with descriptors. Raises OSError where the other side is gone."""
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sock.sendmsg([_encode(message)], ancillary)


def receive_packet(sock: socket.socket) -> tuple[dict[str, Any], tuple[int, ...]] | None:
    """The next packet with its descriptors; None at the end of the stream."""
    item = array.array("i")
    try:
        data, ancillary, _, _ = sock.recvmsg(PACKET, socket.CMSG_SPACE(MAX_FDS * item.itemsize), socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return None
    if not data:
        return None
    for level, kind, body in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            item.frombytes(body[: len(body) - len(body) % item.itemsize])
    return _decode(data), tuple(item)


def run_zygote(*, control_fd: int, parent: int) -> None:
    """Be a zygote until the supervisor hangs up; never returns."""
    kernel.die_with_parent(parent)  # nobody would notice a supervisor that dies while a library hangs in its import
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    zygote = Zygote(socket.socket(fileno=control_fd), {})
    status = 1
    try:
        zygote.configure()
        kernel.outlive_parent()
        zygote.loop()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        _leave(status)


def _leave(status: int) -> None:
    """End the process without finalizers: what native libraries do at exit is no evidence and takes time."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        status = status or 1
    os._exit(status)


class Zygote:
    """One warmed process and the children that it has forked."""

    def __init__(self, control: socket.socket, backends: dict[str, Backend]) -> None:
        self.control = control
        self.backends = backends
        self.failed: dict[str, str] = {}
        self.children: dict[int, int] = {}  # pid to pidfd
        self.poller = select.poll()

    def configure(self) -> None:
        """Take the first packet: import, instantiate and warm every target that it names, then report ready."""
        gc.disable()  # what imports make stays, and searching it for garbage again and again is a fifth of their time
        kernel.adopt_orphans()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        packet = receive_packet(self.control)
        if packet is None:
            _leave(0)
            return
        config, _ = packet
        sys.path.extend(entry for entry in config["path"] if entry not in sys.path)
        for name, entry in config["targets"].items():
            try:
                self.backends[name] = _warmed(entry)
            except Exception as error:  # the other targets of this zygote may be well
                place = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")][-1]
                said = "".join(traceback.format_exception_only(error)).strip()
                self.failed[name] = f"{said[-_TEXT:]} ({place.filename}:{place.lineno})"
        rehearse()
        gc.freeze()  # or a collection in each child would copy every page of the libraries' objects
        gc.enable()
        self._tell({"op": "ready", "failed": self.failed})

    def loop(self) -> None:
        """Serve until the supervisor hangs up."""
        self.poller.register(self.control, select.POLLIN)
        while True:
            for fd, _ in self.poller.poll():
                if fd != self.control.fileno():
                    self.reap(next(pid for pid, pidfd in self.children.items() if pidfd == fd))
                    continue
                packet = receive_packet(self.control)
                if packet is None:
                    self.close()
                    return
                self.handle(*packet)
            self.reap_orphans()

    def handle(self, message: dict[str, Any], fds: tuple[int, ...]) -> None:
        """Carry out one request."""
        try:
            if message["op"] == "fork":
                self.fork_worker(message, *fds)
            else:
                self.fork_zygote(message, *fds)
        except Exception as error:
            self._tell({"op": "refused", "id": message["id"], "message": f"{type(error).__name__}: {error}"})
        finally:
            for fd in fds:
                os.close(fd)

    def fork_worker(self, message: dict[str, Any], sock_fd: int, output_fd: int, page_fd: int) -> None:
        """Fork a worker of one target."""
        target = message["target"]
        backend = self.backends.get(target)
        if backend is None:
            raise KeyError(f"target {target!r} is not warm: {self.failed.get(target, 'this zygote was not asked for it')}")
        limits = Limits(**message["limits"])
        parent = os.getpid()
        pid = os.fork()
        if pid:
            self.adopt(pid, message["id"])
            return
        try:
            self._become_child(parent, output_fd)
            serve(backend, target, socket.socket(fileno=sock_fd), page_fd, limits)
        except BrokenPipeError:
            _leave(0)  # the supervisor has hung up
        except BaseException:
            traceback.print_exc()
            _leave(70)
        _leave(0)

    def fork_zygote(self, message: dict[str, Any], control_fd: int, output_fd: int) -> None:
        """Fork another zygote that starts with all that is warm here."""
        parent = os.getpid()
        pid = os.fork()
        if pid:
            self.adopt(pid, message["id"])
            return
        try:
            self._become_child(parent, output_fd)
            zygote = Zygote(socket.socket(fileno=control_fd), dict(self.backends))
            zygote.configure()
            zygote.loop()
        except BaseException:
            traceback.print_exc()
            _leave(70)
        _leave(0)

    def _become_child(self, parent: int, output_fd: int) -> None:
        kernel.die_with_parent(parent)
        os.setpgid(0, 0)  # so that whatever it starts can be killed with it
        self.control.close()
        for pidfd in self.children.values():
            os.close(pidfd)
        self.children.clear()
        take_over_output(output_fd)

    def adopt(self, pid: int, request: int) -> None:
        """Watch a new child and tell the supervisor."""
        pidfd = os.pidfd_open(pid)
        self.children[pid] = pidfd
        self.poller.register(pidfd, select.POLLIN)
        self._tell({"op": "forked", "id": request, "pid": pid}, (pidfd,))

    def reap(self, pid: int) -> None:
        """Collect a dead child with all it started, and report what it used."""
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # its number stays taken until its group is dead
        _kill_group(pid)
        _, status, usage = os.wait4(pid, 0)
        pidfd = self.children.pop(pid)
        self.poller.unregister(pidfd)
        os.close(pidfd)
        cpu = usage.ru_utime + usage.ru_stime
        self._tell({"op": "exit", "pid": pid, "status": status, "cpu": cpu, "rss_mb": usage.ru_maxrss // 1024})

    def reap_orphans(self) -> None:
        """Collect what dead workers have left to us."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None or found.si_pid in self.children:
                return
            os.waitpid(found.si_pid, 0)

    def close(self) -> None:
        """Kill every child and every orphan, account for them, and say goodbye."""
        for pid in tuple(self.children):
            _kill_group(pid)
            os.kill(pid, signal.SIGKILL)
        for pid in tuple(self.children):
            self.reap(pid)
        while orphans := kernel.children_of(os.getpid()):
            for pid in orphans:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        self._tell({"op": "bye", "cpu": time.process_time()})

    def _tell(self, message: Mapping[str, Any], fds: tuple[int, ...] = ()) -> None:
        try:
            send_packet(self.control, message, fds)
        except (BrokenPipeError, ConnectionResetError):
            return  # the supervisor is gone; the next receive ends the loop


def _warmed(entry: str) -> Backend:
    backend = load_backend(entry)
    before = kernel.thread_names()
    backend.warm()
    if len(after := kernel.thread_names()) > max(1, len(before)):
        raise HarnessError(
            f"{entry}: warm() left {len(after) - 1} threads running ({', '.join(sorted(set(after)))}). A fork leaves them behind and "
            "workers would wait for them for ever: have the library use one thread, or load it in start()"
        )
    return backend


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # the child died before it made its group, or a member has other rights
