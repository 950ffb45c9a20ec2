"""The service's process: it greets, then answers one message after another until the other side hangs up."""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import traceback
from typing import Any

import numpy as np

from harness.backends.oneflow import session
from harness.backends.oneflow.service.arena import Arena
from harness.backends.oneflow.service.machine import Machine, NodeStopped
from harness.backends.oneflow.service.messages import INLINE_BYTES, CannotPass, Packed, decode, encode, pack, unpack
from harness.backends.oneflow.values import dtype_name
from harness.errors import FxdiffError
from harness.model.codec import from_wire
from harness.model.dtypes import DTYPES, float32_to_bfloat16, widen
from harness.model.program import Program
from harness.workers import kernel
from harness.workers.framing import frame, receive
from harness.workers.progress import PageProgress, map_page

STACK_SIGNAL = signal.SIGUSR1  # asks a process that hangs to print its Python stack
MESSAGE_BYTES = 1 << 30


def main(socket_fd: str, page_fd: str, incoming_fd: str, outgoing_fd: str, parent: str) -> None:
    """Serve on inherited descriptors: job socket, progress page, and one arena for each direction."""
    kernel.die_with_parent(int(parent))
    faulthandler.enable(file=2, all_threads=False)
    faulthandler.register(STACK_SIGNAL, file=2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is torch's process's business
    progress = PageProgress(map_page(int(page_fd)))
    with socket.socket(fileno=int(socket_fd)) as sock:
        progress.stage("start")
        try:
            session.start_worker()
            hello = pack({"versions": dict(session.versions())})
        except Exception:
            sock.sendall(frame(pack({"failure": traceback.format_exc()})))
            return
        sock.sendall(frame(hello))
        service = Service(progress, Arena(int(incoming_fd)), Arena(int(outgoing_fd)))
        while (message := receive(sock, limit=MESSAGE_BYTES)) is not None:
            sock.sendall(frame(service.answer(message)))
    os._exit(0)  # OneFlow's own teardown has been seen to hang


class Service:
    """Answers messages: `program`, `call`, `backward`."""

    def __init__(self, progress: PageProgress, incoming: Arena, outgoing: Arena) -> None:
        self._oneflow = session.import_oneflow()
        self._progress = progress
        self._incoming, self._outgoing = incoming, outgoing
        self._machine = Machine(self._oneflow, progress)

    def answer(self, data: bytes) -> bytes:
        """The answer to one message; never raises. What is not understood is told as `fault`, with its traceback."""
        self._progress.begin()
        try:
            self._outgoing.begin()
            return pack(self._dispatch(unpack(data)))
        except NodeStopped as stop:
            return pack({"stopped": str(stop), "node": stop.node, "refused": stop.refused, "backward": stop.backward})
        except CannotPass as error:
            return pack({"cannot pass": str(error)})
        except FxdiffError as error:
            return pack({"fault": f"{type(error).__name__}: {error}"})
        except Exception:
            return pack({"fault": traceback.format_exc()})
        finally:
            self._progress.stage("idle")

    def _dispatch(self, message: dict[str, Any]) -> dict[str, Any]:
        self._machine.forget(message.get("dropped programs", ()), message.get("dropped calls", ()))
        op = message["op"]
        self._progress.stage(op)
        if op == "program":
            self._machine.load(message["number"], from_wire(Program, message["program"]))
            return {}
        if op == "call":
            return self._call(message)
        if op == "backward":
            grads = [decode(item, self._tensor) for item in message["grads"]]
            found = self._machine.backward(message["call"], grads)
            return {"grads": [encode(grad, f"gradient {index}", self._pack) for index, grad in enumerate(found)]}
        raise CannotPass(f"a message {op!r}")

    def _call(self, message: dict[str, Any]) -> dict[str, Any]:
        values = [decode(item, self._tensor) for item in message["values"]]
        result = self._machine.call(
            message["number"], values, message["needs grad"], message["writes"], keep=message["keep"], rehearse=message["rehearse"]
        )
        return {
            "outputs": [
                encode(value, f"node {name!r}", self._pack, self._normal)
                for name, value in zip(message["names"], result.outputs, strict=True)
            ],
            "written": {name: encode(value, f"node {name!r}", self._pack) for name, value in result.written.items()},
            "differentiable": list(result.differentiable),
        }

    def _normal(self, value: Any) -> Any:
        """OneFlow's own containers as Python's."""
        if isinstance(value, self._oneflow.Size):
            return tuple(int(size) for size in value)
        if isinstance(value, self._oneflow._oneflow_internal.TensorTuple):
            return tuple(value)
        return value

    def _tensor(self, packed: Packed) -> Any:
        """A tensor of OneFlow's own memory."""
        info = DTYPES[packed.dtype]
        if packed.offset >= 0:
            size = packed.size(info.itemsize)
            memory = self._incoming.map_to(packed.offset + size)
            array = np.frombuffer(memory, np.dtype(info.carrier), size // info.itemsize, packed.offset)
        else:
            array = np.frombuffer(packed.data, np.dtype(info.carrier))
        array = array.reshape(packed.shape)
        if packed.dtype == "bfloat16":
            return self._oneflow.tensor(widen(array, packed.dtype)).to(self._oneflow.bfloat16)
        return self._oneflow.tensor(array)

    def _pack(self, value: Any, where: str) -> Packed | None:
        if not isinstance(value, self._oneflow.Tensor):
            return None
        dtype = dtype_name(value.dtype, where)
        array = value.detach().numpy()
        if dtype == "bfloat16":
            array = float32_to_bfloat16(array).reshape(array.shape)
        shape = tuple(int(size) for size in array.shape)
        array = np.ascontiguousarray(array)
        if array.nbytes < INLINE_BYTES:
            return Packed(dtype, shape, array.tobytes())
        memory, offset = self._outgoing.reserve(array.nbytes)
        np.frombuffer(memory, array.dtype, array.size, offset)[:] = array.reshape(-1)
        return Packed(dtype, shape, b"", offset)
