"""The reference's trace: every node's inputs just before it ran, its output, and which nodes must run together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from harness.backends.protocol import Progress
from harness.model.outcome import NodeTrace
from harness.model.program import Node
from harness.torch_bridge.tensors import from_torch


class Announcer:
    """An observer that only names each node before it runs."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def before(self, node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Name the node."""
        self._progress.node(node.name)

    def after(self, node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> Any:
        """Leave the result alone."""
        return result


@dataclass(slots=True)
class _Step:
    name: str
    reads: tuple[str, ...]
    stored: frozenset[int]
    mutated: frozenset[int] = field(default_factory=frozenset)


class Tracer(Announcer):
    """Records a NodeTrace for each operator.

    Nodes share a unit where one of them writes into memory that another made, views, or reads later through a name that
    was bound before the write; a node's own snapshot cannot show such a write to a target.
    """

    def __init__(self, progress: Progress, arguments: Mapping[str, Any]) -> None:
        super().__init__(progress)
        self._traces: list[NodeTrace] = []
        self._steps: list[_Step] = []
        self._versions: list[tuple[torch.Tensor, int]] = []
        self._bound: dict[str, tuple[int, frozenset[int]]] = {name: (-1, storages(value)) for name, value in arguments.items()}

    def before(self, node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Name the node and snapshot its arguments."""
        super().before(node, args, kwargs)
        self._traces.append(NodeTrace(node.name, from_torch(args, layout=True), from_torch(dict(kwargs), layout=True)))
        self._versions = [(tensor, tensor._version) for tensor in tensors((args, kwargs))]

    def after(self, node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> Any:
        """Snapshot the result and note what the node wrote to."""
        output = from_torch(result)
        peak, grain = magnitude(tensors(result))
        self._traces[-1] = replace(self._traces[-1], output=output, peak=peak, grain=grain)
        written = storages([tensor for tensor, version in self._versions if tensor._version != version])
        stored = storages(result)
        self._bound[node.name] = (len(self._steps), stored)
        self._steps.append(_Step(node.name, tuple(node.inputs()), stored, written))
        return result

    def traces(self) -> tuple[NodeTrace, ...]:
        """All that was recorded, with units."""
        if not any(step.mutated for step in self._steps):
            return tuple(self._traces)
        units = self._units()
        return tuple(replace(trace, unit=units.get(trace.name)) for trace in self._traces)

    def _units(self) -> dict[str, str]:
        leader = list(range(len(self._steps)))

        def find(index: int) -> int:
            while leader[index] != index:
                index = leader[index]
            return index

        for writer, step in enumerate(self._steps):
            for storage in step.mutated:
                for other, candidate in enumerate(self._steps):
                    if storage in candidate.stored or self._reads_stale(candidate, other, writer, storage):
                        first, second = sorted((find(writer), find(other)))
                        leader[second] = first
        members: dict[int, list[str]] = {}
        for index, step in enumerate(self._steps):
            members.setdefault(find(index), []).append(step.name)
        return {name: names[0] for names in members.values() if len(names) > 1 for name in names}

    def _reads_stale(self, reader: _Step, position: int, writer: int, storage: int) -> bool:
        if position <= writer:
            return False
        return any(storage in self._bound[name][1] and self._bound[name][0] < writer for name in reader.reads)


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor in a nested result."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        yield from tensors(tuple(value.values()))


def storages(value: Any) -> frozenset[int]:
    """The addresses of the memory that the tensors of `value` live in."""
    return frozenset(tensor.untyped_storage().data_ptr() for tensor in tensors(value)) - {0}


def magnitude(found: Iterable[torch.Tensor]) -> tuple[float | None, int | None]:
    """The largest magnitude, and the exponent of the lowest set bit, over finite floating elements.

    Both None without any; the exponent is None where all are zero.
    """
    peak: float | None = None
    grain: int | None = None
    for tensor in found:
        if not tensor.dtype.is_floating_point:
            continue
        values = tensor.detach().double().numpy()
        values = values[np.isfinite(values)]
        if values.size == 0:
            continue
        peak = max(peak or 0.0, float(np.abs(values).max()))
        mantissa, exponent = np.frexp(values[values != 0])
        if mantissa.size:
            bits = (mantissa * 2.0**53).astype(np.int64)
            lowest = np.frexp((bits & -bits).astype(np.float64))[1] - 1
            least = int((lowest + exponent - 53).min())
            grain = least if grain is None else min(grain, least)
    return peak, grain
