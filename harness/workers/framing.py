"""Messages on a job socket: a magic word, a length, then that many bytes. Used on both sides, so no torch here."""

from __future__ import annotations

import socket
import struct

from harness.errors import WorkerError

MAGIC = b"fxd1"
_HEADER = struct.Struct("<4sQ")
_CHUNK = 1 << 20


class CorruptMessage(WorkerError):
    """Bytes on a job socket that are no message of ours: native code wrote to a descriptor that it does not own."""


def frame(payload: bytes) -> bytes:
    """The payload with its header."""
    return _HEADER.pack(MAGIC, len(payload)) + payload


def _length(header: bytes | bytearray, limit: int) -> int:
    magic, length = _HEADER.unpack(header)
    if magic != MAGIC:
        raise CorruptMessage(f"a message begins with {bytes(header)!r}")
    if length > limit:
        raise CorruptMessage(f"a message claims {length} bytes; at most {limit} are taken")
    return int(length)


def receive(sock: socket.socket, *, limit: int) -> bytes | None:
    """The next message of a blocking socket; None at its end.

    Raises CorruptMessage where the stream is broken or ends within a message.
    """
    header = _exactly(sock, _HEADER.size)
    if not header:
        return None
    payload = _exactly(sock, _length(header, limit))
    return bytes(payload)


def _exactly(sock: socket.socket, count: int) -> bytearray:
    buffer = bytearray(count)
    view = memoryview(buffer)
    done = 0
    while done < count:
        got = sock.recv_into(view[done:])
        if got == 0:
            if done == 0 and count == _HEADER.size:
                return bytearray()
            raise CorruptMessage(f"the stream ended {count - done} bytes before the message did")
        done += got
    return buffer


class Channel:
    """Framed messages over a non-blocking socket: what does not fit now is kept until the socket is ready again."""

    def __init__(self, sock: socket.socket, *, limit: int) -> None:
        sock.setblocking(False)
        self.sock = sock
        self._limit = limit
        self._unsent = memoryview(b"")
        self._inbox = bytearray()
        self._needed: int | None = None

    def queue(self, payload: bytes) -> None:
        """Send as much as fits; call `flush` for the rest. Raises OSError where the other side is gone."""
        self._unsent = memoryview(frame(payload))
        self.flush()

    def flush(self) -> bool:
        """Send what is left; whether everything has gone. Raises OSError where the other side is gone."""
        while self._unsent:
            try:
                sent = self.sock.send(self._unsent)
            except BlockingIOError:
                return False
            self._unsent = self._unsent[sent:]
        return True

    def receive(self) -> bytes | None:
        """A whole message, or None where there is none yet.

        Raises EOFError at the end of the stream, be it within a message, and CorruptMessage for what is no message.
        """
        while True:
            if self._needed is None and len(self._inbox) >= _HEADER.size:
                self._needed = _length(self._inbox[: _HEADER.size], self._limit)
                del self._inbox[: _HEADER.size]
            if self._needed is not None and len(self._inbox) >= self._needed:
                message = bytes(self._inbox[: self._needed])
                del self._inbox[: self._needed]
                self._needed = None
                return message
            try:
                chunk = self.sock.recv(_CHUNK)
            except BlockingIOError:
                return None
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                raise EOFError
            self._inbox += chunk

    @property
    def sending(self) -> bool:
        """Whether something queued has not gone yet."""
        return bool(self._unsent)

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()
