"""The function behind `torch.compile(model, backend="oneflow")`, and what it did with each graph."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.fx

from harness.compilers.oneflow.options import read
from harness.compilers.oneflow.placing import Placement
from harness.compilers.oneflow.region import Region
from harness.compilers.oneflow.splitting import PLACEMENT, split
from harness.compilers.oneflow.support import Refusal
from harness.errors import UsageError

_LOG = logging.getLogger("harness.compilers.oneflow")
_REMEMBERED: deque[torch.fx.GraphModule] = deque(maxlen=256)


@dataclass(frozen=True, slots=True)
class Placed:
    """Where the nodes of one graph run: names in OneFlow, names in torch with the reason, and how many trips a call makes."""

    oneflow: tuple[str, ...]
    torch: Mapping[str, Refusal]
    trips: int

    @property
    def share(self) -> float:
        """The share of operators on tensors that run in OneFlow; what computes with numbers alone does not count."""
        others = sum(reason.kind not in ("number", "mode") for reason in self.torch.values())
        return len(self.oneflow) / max(len(self.oneflow) + others, 1)


def compile_graph(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, mode: str | None = None
) -> Callable[..., Any]:
    """Dynamo's graph as a function that runs in OneFlow what OneFlow does, and the rest in torch.

    Raises NotInOneFlow with the list of what OneFlow lacks under `fullgraph=True` or `options={"partial": False}`; UsageError
    for options that do not exist.
    """
    if mode is not None:
        raise UsageError(f"backend oneflow has no mode {mode!r}; it takes options")
    chosen = read(options)
    if chosen.partial and _is_fullgraph():
        chosen = replace(chosen, partial=False)
    built = split(module, chosen)
    _REMEMBERED.append(built)
    _LOG.info("%s", _Lazily(built))
    return built.forward


def placements() -> tuple[Placed, ...]:
    """Where the nodes of each graph compiled in this process run, oldest first, with what was learned while they ran."""
    return tuple(_placed(module) for module in _REMEMBERED)


def forget_placements() -> None:
    """Start the list of `placements` anew."""
    _REMEMBERED.clear()


def _placed(module: torch.fx.GraphModule) -> Placed:
    oneflow: list[str] = []
    torches: dict[str, Refusal] = {}
    trips = 0
    for graph in _graphs(module):
        placement: Placement = graph.meta[PLACEMENT]
        torches.update({node.name: reason for node, reason in placement.refusals.items()})
        for region in _regions(graph):
            if region.inner() is None:
                oneflow += region.nodes()
                trips += 1
    return Placed(tuple(oneflow), torches, trips)


def _regions(module: torch.fx.GraphModule) -> list[Region]:
    return [child for child in module.children() if isinstance(child, Region)]


def _graphs(module: torch.fx.GraphModule) -> Iterator[torch.fx.GraphModule]:
    """A split graph and those that its regions became."""
    yield module
    for region in _regions(module):
        inner = region.inner()
        if inner is not None:
            yield from _graphs(inner)


@dataclass(frozen=True, slots=True)
class _Lazily:
    """A line for the log, made only where somebody reads it."""

    module: torch.fx.GraphModule

    def __str__(self) -> str:
        placed = _placed(self.module)
        kinds = sorted({reason.kind for reason in placed.torch.values() if not reason.by_design})
        lacks = f"; OneFlow lacks some: {', '.join(kinds)}" if kinds else ""
        return f"{len(placed.oneflow)} nodes in OneFlow in {placed.trips} trips, {len(placed.torch)} in torch{lacks}"


def _is_fullgraph() -> bool:
    """Whether Dynamo compiles with fullgraph=True. It does not tell its backends, but its translator knows."""
    from torch._dynamo.symbolic_convert import InstructionTranslator

    try:
        return bool(InstructionTranslator.current_tx().one_graph)
    except AttributeError:  # called by hand, or by another version: `options={"partial": False}` says the same
        return False
