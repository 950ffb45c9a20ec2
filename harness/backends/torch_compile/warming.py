"""Warming torch.compile's machinery before the fork, and the cache that it compiles into."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import torch

CACHE = "TORCHINDUCTOR_CACHE_DIR"


def prepare_cache() -> None:
    """A cache folder of this process's and its children's own, removed at its end: nothing is taken from earlier runs.

    Inductor then compiles in the process that asks, and takes the vector instructions of this machine without compiling a
    test program for each.
    """
    folder = tempfile.mkdtemp(prefix="fxdiff-inductor-")
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    os.environ[CACHE] = folder
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    os.environ["TORCHINDUCTOR_VEC_ISA_OK"] = "1"
    os.environ["TORCHINDUCTOR_FX_GRAPH_CACHE"] = "0"
    os.environ["TORCHINDUCTOR_AUTOGRAD_CACHE"] = "0"


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
