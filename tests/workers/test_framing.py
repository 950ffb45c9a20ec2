from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.workers.framing import MAGIC, Channel, CorruptMessage, frame, receive

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    first, second = socket.socketpair()
    yield first, second
    first.close()
    second.close()


@given(st.lists(st.binary(max_size=200), max_size=6), st.integers(1, 50))
def test_messages_arrive_whole_however_the_stream_is_cut(messages: list[bytes], cut: int) -> None:
    stream = b"".join(map(frame, messages))
    ours, theirs = socket.socketpair()
    channel = Channel(ours, limit=1000)
    received = []
    for start in range(0, len(stream), cut):
        theirs.sendall(stream[start : start + cut])
        while (message := channel.receive()) is not None:
            received.append(message)
    ours.close()
    theirs.close()
    assert received == messages


def test_a_message_larger_than_the_buffer_is_sent_in_parts(pair: Pair) -> None:
    ours, theirs = pair
    channel = Channel(ours, limit=1)
    payload = bytes(range(256)) * 20_000
    channel.queue(payload)
    assert channel.sending
    received = bytearray()
    theirs.setblocking(False)
    while len(received) < len(payload) + len(frame(b"")):
        channel.flush()
        received += theirs.recv(1 << 20)
    assert received == frame(payload)
    assert not channel.sending


@pytest.mark.parametrize("stream", [b"not a message of ours", frame(bytes(20))], ids=["magic", "length"])
def test_a_broken_header_is_corrupt_for_both_sides(pair: Pair, stream: bytes) -> None:
    ours, theirs = pair
    theirs.sendall(stream * 2)
    with pytest.raises(CorruptMessage):
        receive(ours, limit=10)
    other, far = socket.socketpair()
    far.sendall(stream)
    with pytest.raises(CorruptMessage):
        Channel(other, limit=10).receive()
    other.close()
    far.close()


def test_the_end_between_messages_is_the_end(pair: Pair) -> None:
    ours, theirs = pair
    theirs.sendall(frame(b"last"))
    theirs.close()
    assert receive(ours, limit=10) == b"last"
    assert receive(ours, limit=10) is None


def test_the_end_within_a_message_is_corrupt_for_a_worker_and_a_death_for_the_supervisor(pair: Pair) -> None:
    ours, theirs = pair
    theirs.sendall(frame(b"cut short")[:-3])
    theirs.close()
    copy = socket.socket(fileno=ours.detach())
    with pytest.raises(CorruptMessage, match="3 bytes before"):
        receive(copy, limit=10)
    copy.close()
    other, far = socket.socketpair()
    far.sendall(MAGIC)
    far.close()
    with pytest.raises(EOFError):
        Channel(other, limit=10).receive()
    other.close()
