"""The protocol of engines, and what an engine is given: a pure subgraph with constants and declared types, nothing fake."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
import torch.fx


@dataclass(frozen=True, slots=True)
class Declared:
    """The type of one tensor as tracing declared it; a size or stride that is symbolic is None."""

    dtype: torch.dtype
    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...] = ()

    @property
    def is_static(self) -> bool:
        """Whether every size is a number."""
        return None not in self.shape


@dataclass(frozen=True, slots=True)
class Partition:
    """A subgraph for one engine.

    `module` returns a tuple of tensors and holds no metadata of tracing; `inputs` is None in the place of a size.
    """

    name: str
    module: torch.fx.GraphModule
    inputs: tuple[Declared | None, ...]
    outputs: tuple[Declared | None, ...]
    nodes: tuple[str, ...]
    given: torch.fx.Graph = field(repr=False)

    @classmethod
    def of(
        cls, name: str, module: torch.fx.GraphModule, inputs: Sequence[Declared | None], outputs: Sequence[Declared | None]
    ) -> Partition:
        """The partition that `module` is."""
        given = torch.fx.Graph()
        given.output(given.graph_copy(module.graph, {}))
        nodes = tuple(node.name for node in module.graph.nodes if node.op == "call_function")
        return cls(name, module, tuple(inputs), tuple(outputs), nodes, given)

    def pristine(self) -> torch.fx.GraphModule:
        """The subgraph as it was given: what an engine is given, it may change."""
        return torch.fx.GraphModule(self.module, self.given)

    @property
    def is_static(self) -> bool:
        """Whether every input is a tensor of known sizes."""
        return all(each is not None and each.is_static for each in self.inputs)


Runnable = Callable[..., Sequence[torch.Tensor]]


class Engine(Protocol):
    """Builds something that runs a partition. Built where no tracing mode is on; no tensor that it sees is fake."""

    name: str

    def supports(self, node: torch.fx.Node) -> bool:
        """Whether the engine takes this operator; `node.meta["val"]` may be missing. Must answer for any node."""

    def build(self, partition: Partition) -> Runnable:
        """A callable of the partition's inputs that returns its outputs; whatever it raises is a failed build."""
