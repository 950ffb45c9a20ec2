"""OneFlow in a process: what the zygote may map before a fork, and the import in the child.

Forking after `import oneflow` hangs argmax and others for ever. Mapping the shared library is safe for operators that run one
by one, and is most of the cost. For nn.Graph it is not: in a child of a process that had the library mapped, the run time of a
process's second graph waits for ever for actors that it has asked to be made.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.errors import TargetUnavailable

# Pure Python libraries that OneFlow imports; importing them before the fork saves every child the time.
_SAFE_IMPORTS = ("numpy", "google.protobuf.descriptor", "requests", "rich.table", "tqdm")

_POLITENESS = 3


def map_library() -> None:
    """Map OneFlow's shared library without importing the package.

    Raises TargetUnavailable where it is missing or cannot be loaded.
    """
    found = importlib.util.find_spec("oneflow")
    if found is None or not found.submodule_search_locations:
        raise TargetUnavailable("oneflow is not installed in this interpreter")
    libraries = sorted(Path(found.submodule_search_locations[0]).glob("_oneflow_internal*.so"))
    if not libraries:
        raise TargetUnavailable(f"oneflow has no shared library in {found.submodule_search_locations[0]}")
    with silent_stderr():
        try:
            ctypes.CDLL(str(libraries[0]), mode=ctypes.RTLD_LOCAL)  # RTLD_GLOBAL makes the later import segfault
        except OSError as error:
            raise TargetUnavailable(f"OneFlow's shared library cannot be loaded: {error}") from error
    import_dependencies()


def import_dependencies() -> None:
    """Import the pure Python libraries that OneFlow imports, where they are installed."""
    for name in _SAFE_IMPORTS:
        if importlib.util.find_spec(name.partition(".")[0]) is not None:
            importlib.import_module(name)


def import_oneflow() -> Any:
    """The oneflow package, its greetings on stderr dropped.

    Raises TargetUnavailable where the import fails.
    """
    with silent_stderr():
        try:
            return importlib.import_module("oneflow")
        except ImportError as error:
            raise TargetUnavailable(f"oneflow cannot be imported: {error}") from error


def start_worker() -> None:
    """Import OneFlow, let it start its threads, and put this thread behind them; called by the thread that will run cases.

    `Tensor.numpy()` spins until OneFlow's own threads are done. On a busy machine this thread would spin away whole time
    slices that they need: a read-out then costs 1 to 2 ms of CPU instead of 0.05.
    """
    oneflow = import_oneflow()
    oneflow.relu(oneflow.zeros(1)).numpy()
    thread = threading.get_native_id()
    with contextlib.suppress(PermissionError):  # only slower where a sandbox forbids it
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, thread, min(os.getpriority(os.PRIO_PROCESS, thread) + _POLITENESS, 19))


def synchronize(oneflow: Any) -> None:
    """Wait until everything dispatched so far has run."""
    oneflow._oneflow_internal.eager.Sync()


def versions() -> Mapping[str, str]:
    """The libraries that can change a result."""
    oneflow = importlib.import_module("oneflow")
    numpy = importlib.import_module("numpy")
    return {"oneflow": str(oneflow.__version__), "oneflow-commit": str(oneflow.__git_commit__), "numpy": str(numpy.__version__)}


@contextlib.contextmanager
def silent_stderr() -> Iterator[None]:
    """Send file descriptor 2 to nowhere: libibverbs and glog write there past Python."""
    saved = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)
