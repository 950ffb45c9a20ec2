"""A module whose graph returns a flat tuple, as compilers want it, and the way back to the structure that users see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch.utils import _pytree as pytree


def flat_outputs(module: torch.fx.GraphModule) -> tuple[torch.fx.GraphModule, Callable[[Sequence[Any]], Any]]:
    """The module with a flat tuple of the nodes that it returns, sharing all its state, and how to put the output together."""
    graph = torch.fx.Graph()
    known: dict[torch.fx.Node, torch.fx.Node] = {}
    output = graph.graph_copy(module.graph, known)
    leaves, spec = pytree.tree_flatten(_plain(output))
    graph.output(tuple(leaf for leaf in leaves if isinstance(leaf, torch.fx.Node)))
    pattern = [None if isinstance(leaf, torch.fx.Node) else (leaf,) for leaf in leaves]

    def rebuild(results: Sequence[Any]) -> Any:
        rest = iter(results)
        return pytree.tree_unflatten([next(rest) if each is None else each[0] for each in pattern], spec)

    return torch.fx.GraphModule(module, graph), rebuild


def _plain(value: Any) -> Any:
    """A node's argument with Python's own lists and dicts for the immutable ones that fx keeps."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, dict) else value
