"""An Interpreter that measures each node: its kernels, not only how long it takes to hand them out."""

from __future__ import annotations

import operator
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import oneflow
import onefx

from harness.oneflow_fx.table import columns


@dataclass(frozen=True, slots=True)
class NodeTime:
    """One node's mean time in seconds, and its share of the sum over all nodes."""

    name: str
    op: str
    target: str
    seconds: float
    share: float


class ProfilingInterpreter(onefx.Interpreter):  # type: ignore[misc]
    """Runs a GraphModule node by node and keeps the time of each.

    OneFlow hands kernels to threads of its own and returns: the interpreter waits for them after every node, without which
    the first node that reads a value would be charged for all that came before it.
    """

    def __init__(self, module: onefx.GraphModule) -> None:
        super().__init__(module)
        self.total: list[float] = []
        self._times: dict[Any, list[float]] = {}

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """What the module returns."""
        synchronize()
        started = time.perf_counter()
        result = super().run(*args, **kwargs)
        self.total.append(time.perf_counter() - started)
        return result

    def run_node(self, n: Any) -> Any:
        """What the node returns, once it is there."""
        started = time.perf_counter()
        result = super().run_node(n)
        synchronize()
        self._times.setdefault(n, []).append(time.perf_counter() - started)
        return result

    def times(self) -> tuple[NodeTime, ...]:
        """Every node that computes, the slowest first; the first run is left out where there are more, since it warms up."""
        means = {
            node: statistics.fmean(seconds[1:] or seconds)
            for node, seconds in self._times.items()
            if node.op in ("call_function", "call_method", "call_module")
        }
        whole = sum(means.values())
        rows = [
            NodeTime(node.name, node.op, _target_text(node.target), seconds, seconds / whole if whole else 0.0)
            for node, seconds in means.items()
        ]
        return tuple(sorted(rows, key=lambda row: -row.seconds))

    def summary(self) -> str:
        """The times as a table."""
        return table_of(self.times())


def table_of(times: tuple[NodeTime, ...]) -> str:
    """Times of nodes as a table, in the order given."""
    rows: list[tuple[str, ...]] = [("node", "opcode", "target", "mean ms", "share")]
    rows += [(each.name, each.op, each.target, f"{each.seconds * 1e3:.3f}", f"{each.share:.1%}") for each in times]
    return columns(rows, right=(3, 4))


def synchronize() -> None:
    """Wait until everything that was handed to OneFlow has run."""
    oneflow._oneflow_internal.eager.Sync()


def _target_text(target: str | Callable[..., Any]) -> str:
    """A target as a user would write it, where OneFlow offers it under a short name."""
    if isinstance(target, str):
        return target
    name = target.__name__
    for module in (oneflow, oneflow.nn.functional, operator):
        if getattr(module, name, None) is target:
            return f"{module.__name__.removeprefix('_')}.{name}"
    return f"{target.__module__}.{name}" if getattr(target, "__module__", None) else name
