"""`torch.compile(model, backend="oneflow")`: Dynamo's graph in OneFlow, in a process of its own, gradients included."""

from __future__ import annotations

from harness.compilers.oneflow.backend import Placed, compile_graph, forget_placements, placements
from harness.compilers.oneflow.errors import CompiledError, NodeFailed, NotInOneFlow, WorkerDied
from harness.compilers.oneflow.worker import WORKERS

__all__ = [
    "CompiledError",
    "NodeFailed",
    "NotInOneFlow",
    "Placed",
    "WorkerDied",
    "compile_graph",
    "forget_placements",
    "placements",
    "stop_worker",
]


def stop_worker() -> None:
    """End OneFlow's process; the next call starts another."""
    WORKERS.close()
