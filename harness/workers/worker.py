"""The worker's side of a job: decode it, run the backend, and answer with an Outcome whatever happens.

Runs in a child of a zygote, in any interpreter. What this file cannot answer for, a death, the supervisor reports.
"""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import gc
import os
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping
from typing import cast

import msgspec

from harness.backends.protocol import Backend, BatchBackend
from harness.errors import FxdiffError, Rejected, Unsupported
from harness.model.case import Call, Case
from harness.model.codec import from_wire, to_wire
from harness.model.fill import Fill, Literal
from harness.model.outcome import TARGETS_FAULT, CallResult, Declared, Diagnostic, Job, NodeResult, NodeTrace, Outcome, Status, Witness
from harness.model.program import ModuleRecipe, Node, Program, TensorSpec
from harness.model.symbols import Sym, Symbol
from harness.model.values import Ref, Tensor
from harness.workers.framing import frame, receive
from harness.workers.kernel import MEGABYTE, data_bytes
from harness.workers.progress import PageProgress, map_page

START_STAGE = "start"
DECODE_STAGE = "decode"
STACK_SIGNAL = signal.SIGUSR1  # asks a worker that hangs to print its Python stack
_BACKSTOP = 4  # times the cap on resident memory; libraries reserve far more than they touch


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """What a worker is told of the settings, in MB."""

    memory_mb: int
    message_mb: int


@dataclasses.dataclass(frozen=True, slots=True)
class Hello:
    """A worker's first message: the versions behind its outcomes, or why it could not start."""

    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    failure: str = ""


def take_over_output(output_fd: int) -> None:
    """Point descriptors 0, 1 and 2 at nothing and at the output file, which is only ever appended to."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(output_fd, 1)
    os.dup2(output_fd, 2)
    os.close(output_fd)


def serve(backend: Backend, target: str, sock: socket.socket, page_fd: int, limits: Limits) -> None:
    """Start the backend, then answer jobs until the supervisor hangs up."""
    progress = PageProgress(map_page(page_fd))
    os.close(page_fd)
    faulthandler.enable(file=2, all_threads=False)
    faulthandler.register(STACK_SIGNAL, file=2)
    progress.stage(START_STAGE)
    try:
        gc.disable()  # some libraries can only be imported here
        backend.start()
        gc.enable()
        versions = dict(backend.versions())
        _send(sock, Hello(versions=versions))
    except BaseException as error:
        said = str(error) if isinstance(error, FxdiffError) else traceback.format_exc()
        if not os.path.isdir(sys.prefix):
            said = f"its environment is gone, somebody deleted {sys.prefix}: {said}"
        with contextlib.suppress(OSError):
            _send(sock, Hello(failure=said))
        return
    _limit_memory(limits)
    while (message := receive(sock, limit=limits.message_mb * MEGABYTE)) is not None:
        outcome = answer(backend, target, message, progress, versions)
        payload = _encoded(outcome, limits, backend)
        _flush()
        sock.sendall(frame(payload))


def answer(backend: Backend, target: str, message: bytes, progress: PageProgress, versions: Mapping[str, str]) -> Outcome:
    """The Outcome of one job message; never raises."""
    started = time.process_time()
    progress.begin()
    try:
        outcome = _run(backend, message, progress)
    except Unsupported as error:
        outcome = Outcome(target, Status.UNSUPPORTED, message=str(error))
    except Rejected as error:
        outcome = Outcome(target, Status.REJECTED, message=str(error))
    except MemoryError as error:
        outcome = Outcome(target, Status.OOM, message=f"MemoryError: {error}")
    except BaseException as error:  # also SystemExit and KeyboardInterrupt: no job may end the worker unreported
        outcome = _not_understood(target, error, backend)
    seconds = {**outcome.seconds, **progress.finish()}
    seconds["total"] = time.process_time() - started
    return dataclasses.replace(
        outcome,
        target=target,
        stage=outcome.stage or progress.current_stage,
        node=outcome.node if outcome.node is not None or outcome.status is Status.OK else progress.current_node,
        seconds=seconds,
        versions=outcome.versions or versions,
    )


def rehearse() -> None:
    """Send an example of everything through the codec: what it caches about types is then there before any fork."""
    tensor = Tensor("float32", (1,), Literal(bytes(4)))
    node = Node("x0", "placeholder", "x0", role="input", spec=TensorSpec("float32", (Sym("s0"),)))
    program = Program((node, Node("output", "output", "output", (Ref("x0"),))), {"m": ModuleRecipe("torch.nn.Identity")})
    case = Case(program, (Call({"s0": 1}, {"x0": Fill("exact/1")}),), (Symbol("s0"),))
    from_wire(Case, to_wire(case))
    from_wire(Job, to_wire(Job(b"", "", ("trace",))))
    outcome = Outcome(
        "",
        Status.OK,
        calls=(CallResult((tensor,), {"x0": tensor}),),
        declared=(Declared("", "", "float32", (1, None)),),
        diagnostics=(Diagnostic("note", ""),),
        nodes=(NodeResult("x0", 0, Status.OK, tensor),),
        witness=(Witness((NodeTrace("x0", output=tensor),), tensor),),
    )
    from_wire(Outcome, to_wire(outcome))


def _run(backend: Backend, message: bytes, progress: PageProgress) -> Outcome:
    progress.stage(DECODE_STAGE)
    job = from_wire(Job, message)
    case = from_wire(Case, job.case_bytes)
    further = [from_wire(Case, each) for each in job.more]
    progress.stage("")
    outcome = _run_many(cast(BatchBackend, backend), [case, *further], job, progress) if further else backend.run(case, job, progress)
    if not isinstance(outcome, Outcome):
        raise TypeError(f"{type(backend).__name__}.run returned {type(outcome).__name__} where an Outcome is needed")
    return outcome


def _run_many(backend: BatchBackend, cases: list[Case], job: Job, progress: PageProgress) -> Outcome:
    """The first case's outcome with those of the others inside."""
    first, *rest = backend.run_many(cases, job, progress)
    if len(rest) != len(job.more):
        raise TypeError(f"{type(backend).__name__}.run_many returned {1 + len(rest)} outcomes for {len(cases)} cases")
    return dataclasses.replace(first, more=tuple(map(to_wire, rest)))


def _not_understood(target: str, error: BaseException, backend: Backend) -> Outcome:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    said = f"{type(error).__name__}: {error}"
    cls = type(backend)
    if not cls.__module__.startswith("harness."):  # a target of somebody else's
        said = f"{TARGETS_FAULT} {target} ({cls.__module__}:{cls.__qualname__}): {said}"
    return Outcome(target, Status.HARNESS_ERROR, message=said, artifacts={"traceback": text})


def _encoded(outcome: Outcome, limits: Limits, backend: Backend) -> bytes:
    bare = Outcome(outcome.target, Status.INCONCLUSIVE, stage=outcome.stage, seconds=outcome.seconds, versions=outcome.versions)
    try:
        payload = to_wire(outcome)
    except MemoryError:
        return to_wire(dataclasses.replace(bare, status=Status.OOM, message="MemoryError while the outcome was encoded"))
    except Exception as error:
        failed = _not_understood(outcome.target, error, backend)
        return to_wire(dataclasses.replace(bare, status=failed.status, message=failed.message, artifacts=failed.artifacts))
    if len(payload) > limits.message_mb * MEGABYTE:
        text = f"the outcome takes {len(payload) / MEGABYTE:.1f} MB; at most {limits.message_mb} MB are sent"
        return to_wire(dataclasses.replace(bare, message=text))
    return payload


def _send(sock: socket.socket, hello: Hello) -> None:
    sock.sendall(frame(msgspec.msgpack.encode(hello)))


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # a target may close them or set them to None
            stream.flush()


def _limit_memory(limits: Limits) -> None:
    backstop = data_bytes() + _BACKSTOP * limits.memory_mb * MEGABYTE
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or backstop < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (backstop, hard))
