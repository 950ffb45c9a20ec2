"""Which nodes an engine may get. The predicate answers for any node whatever, and never raises."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import torch
import torch.fx
from torch.fx.passes.operator_support import OperatorSupportBase

from harness.compilers.aten.engines.protocol import Engine
from harness.compilers.aten.settings import AtenSettings


@dataclass(frozen=True, slots=True)
class PredicateFailure:
    """An engine's predicate raised instead of answering."""

    node: str
    operator: str
    error: str


def operator_name(target: Any) -> str:
    """`aten.add.Tensor` for an overload; any other target's own name."""
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    if target is operator.getitem:
        return "operator.getitem"
    return getattr(target, "__name__", None) or str(target)


@dataclass
class Capability(OperatorSupportBase):
    """The settings' and the engine's word on each node, remembered; what an engine's predicate raises counts as no.

    `pinned` are nodes that must stay in torch whatever the engine says.
    """

    settings: AtenSettings
    engine: Engine
    pinned: frozenset[torch.fx.Node] = frozenset()
    kept: Counter[str] = field(default_factory=Counter)
    failures: list[PredicateFailure] = field(default_factory=list)
    _known: dict[torch.fx.Node, bool] = field(default_factory=dict)

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: torch.fx.Node) -> bool:
        """Whether the engine gets this node."""
        if node not in self._known:
            self._known[node] = self._ask(node)
            if not self._known[node] and node.op == "call_function":
                self.kept[operator_name(node.target)] += 1
        return self._known[node]

    def _ask(self, node: torch.fx.Node) -> bool:
        if node.op != "call_function" or node in self.pinned:
            return False
        if node.target is operator.getitem:
            source = node.args[0] if node.args else None
            return isinstance(source, torch.fx.Node) and self.is_node_supported({}, source)
        target = node.target
        if not isinstance(target, torch._ops.OpOverload) or self._is_kept(target) or not stays_pure(target) or not gives_tensors(node):
            return False
        try:
            return bool(self.engine.supports(node))
        except Exception as error:  # a predicate that raises is a bug of the engine: told, and taken for a no
            self.failures.append(PredicateFailure(node.name, operator_name(target), f"{type(error).__name__}: {error}"))
            return False

    def _is_kept(self, target: torch._ops.OpOverload) -> bool:
        name = str(target)
        return name in self.settings.kept_in_torch or name.rpartition(".")[0] in self.settings.kept_in_torch


def stays_pure(target: torch._ops.OpOverload) -> bool:
    """Whether the operator writes to nothing and draws no random numbers."""
    return not target._schema.is_mutable and torch.Tag.nondeterministic_seeded not in target.tags


def gives_tensors(node: torch.fx.Node) -> bool:
    """Whether every result is a tensor: sizes and scalars stay where Python can see them."""
    returns = cast(torch._ops.OpOverload, node.target)._schema.returns
    return bool(returns) and all(str(each.type) in ("Tensor", "List[Tensor]") for each in returns)


def is_view(node: torch.fx.Node) -> bool:
    """Whether the result shares memory with an argument."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    return any(each.alias_info is not None and not each.alias_info.is_write for each in node.target._schema.returns)


def views_that_show(graph: torch.fx.Graph) -> frozenset[torch.fx.Node]:
    """Views through which an output shares memory with an input or with another output; an engine would hand out copies.

    So are views that the graph writes through.
    """
    chains: dict[torch.fx.Node, list[list[torch.fx.Node]]] = {}
    for leaf in graph.output_node().all_input_nodes:
        chain, root = _chain(leaf)
        chains.setdefault(root, []).append(chain)
    found: set[torch.fx.Node] = set()
    for root, several in chains.items():
        if root.op != "call_function" or len(several) > 1:
            found.update(node for chain in several for node in chain)
    for node in graph.nodes:
        if node.op == "call_function" and writes(node) and node.all_input_nodes:
            found.update(_chain(node.all_input_nodes[0])[0])
    return frozenset(found)


def _chain(node: torch.fx.Node) -> tuple[list[torch.fx.Node], torch.fx.Node]:
    """The views that lead to `node`, and what they are views of."""
    chain: list[torch.fx.Node] = []
    while node.op == "call_function" and (is_view(node) or node.target is operator.getitem) and node.all_input_nodes:
        if is_view(node):
            chain.append(node)
        elif not is_view(node.all_input_nodes[0]):
            break
        node = node.all_input_nodes[0]
    return chain, node


def writes(node: torch.fx.Node) -> bool:
    """Whether the operator writes to an argument."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable
