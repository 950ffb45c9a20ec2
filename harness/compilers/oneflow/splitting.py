"""A graph split into what torch runs and what OneFlow runs."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.fx

from harness.compilers.oneflow.errors import NotInOneFlow
from harness.compilers.oneflow.options import Options
from harness.compilers.oneflow.placing import Placement, place
from harness.compilers.oneflow.region import Region
from harness.compilers.oneflow.support import Refusal

PLACEMENT = "oneflow_placement"  # key of the split graph's meta


def split(module: torch.fx.GraphModule, options: Options, refused: Mapping[str, Refusal] | None = None) -> torch.fx.GraphModule:
    """The same graph with a Region in the place of each group of nodes that OneFlow runs.

    `refused` holds, by name, nodes of which OneFlow has said that it does not do them. Raises NotInOneFlow with the whole list
    where `partial` is off and OneFlow lacks something.
    """
    placement = place(module.graph, refused or {}, exclude=options.exclude)
    if not options.partial:
        lacking = {node.name: reason for node, reason in placement.refusals.items() if not reason.by_design}
        if lacking:
            raise NotInOneFlow(_list(lacking))
    return _Splitter(module, placement, options).build()


def _list(lacking: Mapping[str, Refusal]) -> str:
    lines = "".join(f"\n    {name}: {reason.kind}: {reason.reason}" for name, reason in lacking.items())
    count = f"{len(lacking)} node{'s' if len(lacking) > 1 else ''}"
    return f"OneFlow does not do {count} of this graph, and nothing may run in torch instead:{lines}"


class _Splitter:
    def __init__(self, module: torch.fx.GraphModule, placement: Placement, options: Options) -> None:
        self.module = module
        self.placement = placement
        self.options = options
        self.graph = torch.fx.Graph()
        self.env: dict[torch.fx.Node, torch.fx.Node] = {}
        self.attributes: dict[str, Any] = {}

    def build(self) -> torch.fx.GraphModule:
        nodes = list(self.module.graph.nodes)
        for node in nodes:
            if node.op == "placeholder":
                self._copy(node)
        by_stage: dict[int, list[torch.fx.Node]] = {}
        for node, stage in self.placement.stages.items():
            by_stage.setdefault(stage, []).append(node)
        for stage in sorted(by_stage):
            if stage % 2:
                self._region(by_stage[stage], f"oneflow_{stage // 2}")
            else:
                for node in by_stage[stage]:
                    self._copy(node)
        self._copy(nodes[-1])
        built = torch.fx.GraphModule(self.attributes, self.graph)
        built.meta[PLACEMENT] = self.placement
        return built

    def _copy(self, node: torch.fx.Node) -> None:
        if node.op in ("get_attr", "call_module"):
            self.attributes[str(node.target)] = _attribute(self.module, str(node.target))
        self.env[node] = self.graph.node_copy(node, lambda other: self.env[other])

    def _region(self, members: Sequence[torch.fx.Node], name: str) -> None:
        inside = set(members)
        inputs = list(dict.fromkeys(other for node in members for other in node.all_input_nodes if other not in inside))
        outputs = [node for node in members if any(user not in inside for user in node.users)]
        self.attributes[name] = Region(_subgraph(members, inputs, outputs), self.options)
        call = self.graph.call_module(name, tuple(self.env[other] for other in inputs))
        for index, node in enumerate(outputs):
            item = self.graph.create_node("call_function", operator.getitem, (call, index), name=node.name)
            item.meta = dict(node.meta)
            self.env[node] = item


def _subgraph(members: Sequence[torch.fx.Node], inputs: Sequence[torch.fx.Node], outputs: Sequence[torch.fx.Node]) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    env: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in inputs:
        env[node] = graph.create_node("placeholder", node.name, name=node.name)
        env[node].meta = dict(node.meta)
    for node in members:
        env[node] = graph.node_copy(node, lambda other: env[other])
    graph.output(tuple(env[node] for node in outputs))
    return torch.fx.GraphModule({}, graph)


def _attribute(module: torch.nn.Module, path: str) -> Any:
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part)
    return value
