"""Warming torch.compile's machinery before the fork, and the cache that it compiles into."""

from __future__ import annotations

import functools
import importlib
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from harness.backends.torch_compile.lookup import backend_named
from harness.errors import TargetUnavailable

CACHE = "TORCHINDUCTOR_CACHE_DIR"
_PREFIX = "fxdiff-inductor-"
_PROVEN = ("eager", "aot_eager", "aot_eager_decomp_partition")  # they are what is warmed


@functools.cache
def prepare() -> None:
    """One thread, a cache folder of this process's and its children's own, and Dynamo and AOTAutograd warm; once in a process.

    Nothing is taken from earlier runs. Inductor compiles in the process that asks, and takes the vector instructions of this
    machine without compiling a test program for each.
    """
    torch.set_num_threads(1)
    _sweep()
    os.environ[CACHE] = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    os.environ["TORCHINDUCTOR_VEC_ISA_OK"] = "1"
    os.environ["TORCHINDUCTOR_FX_GRAPH_CACHE"] = "0"
    os.environ["TORCHINDUCTOR_AUTOGRAD_CACHE"] = "0"
    compile_small("aot_eager")


def _sweep() -> None:
    """Remove the folders of processes that are no more: a zygote ends without finalizers, or is killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def prove(name: str) -> None:
    """Find the backend and have it compile something small, once in a process; raises TargetUnavailable where it cannot.

    In a child, for some backends leave threads behind; what Inductor compiles of its own headers stays in the cache.
    """
    prepare()
    backend = backend_named(name)
    if name == "inductor":
        importlib.import_module("torch._inductor.compile_fx")  # workers start with it
    if name not in _PROVEN and not in_a_child(lambda: compile_small(backend)):
        raise TargetUnavailable(f"the backend {name} cannot compile a matrix product here; its own message is above")


def small(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A function that takes a compiler through its paces."""
    return torch.softmax(torch.sin(x) @ y, -1).sum(0)


def compile_small(backend: Any) -> None:
    """Compile `small` once."""
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled: Callable[..., Any] = torch.compile(small, backend=backend)
        with torch.no_grad():
            compiled(torch.ones(2, 3), torch.ones(3, 2))
    torch._dynamo.reset()


def in_a_child(work: Callable[[], None]) -> bool:
    """Do `work` in a forked child, for what it leaves on disk; whether it went well. Threads that it starts die with it."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    return status == 0
