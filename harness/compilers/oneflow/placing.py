"""Where each node of a graph runs, torch or OneFlow, and in which stage: even stages are torch's, odd ones OneFlow's.

A node is in the first stage of its side that comes after everything it depends on, so no stage waits for a later one. Writing
to memory, drawing random numbers and switching modes are dependences too: what eager does in order is done in order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import torch
import torch.fx

from harness.compilers.oneflow.support import Refusal, picks, refusal
from harness.compilers.oneflow.values import example, storages, tensors
from harness.compilers.oneflow.writes import written

Node = torch.fx.Node

_FUNCTORCH = ("torch._functorch.", "torch._C._functorch.", "torch.func.")
_MEMORY = Refusal("memory", "shares memory that is written to with nodes outside its stage")
_VIEW = Refusal("view", "only looks at what torch has in another shape")
_ITEM = Refusal("view", "an item of what torch holds")
_ALIAS = Refusal("memory", "its result shares memory with an input or with another output")
_BUFFER = Refusal("memory", "writes to an input that the graph also reads in other ways")


@dataclass(slots=True)
class Placement:
    """The stage of every node but placeholders and the output, and the reason of each that runs in torch."""

    stages: dict[Node, int] = field(default_factory=dict)
    refusals: dict[Node, Refusal] = field(default_factory=dict)

    def in_oneflow(self) -> list[Node]:
        """The nodes that run in OneFlow, in the graph's order."""
        return [node for node, stage in self.stages.items() if stage % 2]


def place(graph: torch.fx.Graph, refused: Mapping[str, Refusal], *, exclude: Collection[str] = ()) -> Placement:
    """Place every node; `refused` holds, by name, those of which OneFlow has said that it does not do them.

    `exclude` holds canonical names of operators that stay in torch.
    """
    return _Placing(graph, refused, exclude).placement()


class _Placing:
    def __init__(self, graph: torch.fx.Graph, refused: Mapping[str, Refusal], exclude: Collection[str]) -> None:
        self.nodes = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
        self.given = [node for node in graph.nodes if node.op in ("placeholder", "get_attr")]
        self.output = next(node for node in graph.nodes if node.op == "output")
        self.storages = {node: storages(example(node)) for node in graph.nodes if node.op != "output"}
        self.writes = {node: written(node) for node in self.nodes}
        self.refusals: dict[Node, Refusal] = {}
        self.asked = {node: refusal(node, exclude) for node in self.nodes}
        self.order = self._order()
        whole = self._whole()
        for node in self.nodes:
            reason = whole or refused.get(node.name) or self._reason(node)
            if reason is not None:
                self.refusals[node] = reason

    def placement(self) -> Placement:
        """Refuse what cannot be apart from the rest until nothing changes, then give every node its stage."""
        self._keep_aliases()
        self._keep_inputs()
        while True:
            stages = self._stages()
            late = [*self._torn(stages), *self._mere_views(stages)]
            if not late:
                return Placement(stages, {node: self.refusals[node] for node in self.nodes if node in self.refusals})
            for node, reason in late:
                self.refusals.setdefault(node, reason)

    def _whole(self) -> Refusal | None:
        """Why nothing of this graph can run in OneFlow."""
        if torch.is_autocast_enabled("cpu"):
            return Refusal("mode", "autocast chooses dtypes in torch")
        for node in self.nodes:
            module = getattr(node.target, "__module__", None) or ""
            if node.op == "call_function" and f"{module}.".startswith(_FUNCTORCH):
                return Refusal("mode", "torch.func transforms what torch runs")
            if node.op == "call_function" and "autocast" in getattr(node.target, "__name__", ""):
                return Refusal("mode", "autocast chooses dtypes in torch")
        return None

    def _reason(self, node: Node) -> Refusal | None:
        if node.op == "get_attr":
            return Refusal("memory", "a constant that torch holds")
        if picks(node):
            container = node.args[0]
            assert isinstance(container, torch.fx.Node)
            return _ITEM if container in self.given or container in self.refusals else None
        found = self.asked[node]
        if found is not None and found.kind == "number" and any(self._is_oneflows(other) for other in node.all_input_nodes):
            # A size of what OneFlow computes is told there, where OneFlow can tell it.
            return None if node.op == "call_function" and not _has_tensor(node) else found
        return found

    def _is_oneflows(self, node: Node) -> bool:
        return node not in self.refusals and node not in self.given

    def _order(self) -> dict[Node, list[Node]]:
        """What each node comes after, besides its inputs."""
        after: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        hot = {key for nodes in self.writes.values() for node in nodes for key in self.storages[node]}
        touched: dict[int, list[Node]] = {}
        last_write: dict[int, Node] = {}
        barrier: Node | None = None
        last_random: Node | None = None
        for index, node in enumerate(self.nodes):
            if barrier is not None:
                after[node].append(barrier)
            if _switches(node):
                after[node] += self.nodes[:index]
                barrier = node
            found = self.asked[node]
            if found is not None and found.kind == "random":
                after[node] += [last_random] if last_random is not None else []
                last_random = node
            writes = {key for other in self.writes[node] for key in self.storages[other]}
            for key in self._touches(node) & hot:
                after[node] += touched.get(key, []) if key in writes else [last_write[key]] if key in last_write else []
                touched.setdefault(key, []).append(node)
                if key in writes:
                    last_write[key] = node
        return after

    def _touches(self, node: Node) -> set[int]:
        return self.storages[node].union(*(self.storages[other] for other in node.all_input_nodes))

    def _members(self, key: int) -> list[Node]:
        """The nodes that touch a memory until it is written to for the last time; who reads it later reads what is final."""
        last = max((i for i, node in enumerate(self.nodes) if any(key in self.storages[other] for other in self.writes[node])), default=-1)
        return [node for node in self.nodes[: last + 1] if key in self._touches(node)]

    def _hot(self) -> set[int]:
        return {key for nodes in self.writes.values() for node in nodes for key in self.storages[node]}

    def _keep_aliases(self) -> None:
        """Outputs that share memory with an input or with each other are made where the memory is, in torch."""
        outside = {key for node in self.given for key in self.storages[node]}
        results = list(dict.fromkeys(self.output.all_input_nodes))
        for node in results:
            shared = self.storages[node] & (outside | {key for other in results if other is not node for key in self.storages[other]})
            for key in shared:
                creator = next((other for other in self.nodes if key in self.storages[other]), None)
                for other in self.nodes:
                    if key in self.storages[other] and (key in outside or other is not creator):
                        self.refusals.setdefault(other, _ALIAS)

    def _keep_inputs(self) -> None:
        """A write to an input happens in OneFlow only where nothing else in the graph could see it half done."""
        for key in self._hot():
            owners = [node for node in self.given if key in self.storages[node]]
            if not owners:
                continue
            members = self._members(key)
            carriers = [node for node in members if key in self.storages[node] and node not in self.given]
            simple = (
                len(owners) == 1
                and owners[0].op == "placeholder"
                and isinstance(example(owners[0]), torch.Tensor)
                and not any(tensor.requires_grad for node in (*owners, *carriers) for tensor in tensors(example(node)))
                and all(owners[0] in self.writes[node] and not node.users for node in carriers)
            )
            if not simple:
                for node in members:
                    self.refusals.setdefault(node, _BUFFER)

    def _torn(self, stages: Mapping[Node, int]) -> Iterable[tuple[Node, Refusal]]:
        """Nodes that share memory which one of them writes, where they are not all in one stage."""
        outside = {key for node in self.given for key in self.storages[node]}
        for key in self._hot() - outside:
            members = self._members(key)
            if len({stages[node] for node in members}) == 1:
                continue
            for node in members:
                creates = key not in set().union(*(self.storages[other] for other in node.all_input_nodes))
                if node not in self.refusals and not creates:
                    yield node, _MEMORY

    def _mere_views(self, stages: Mapping[Node, int]) -> Iterable[tuple[Node, Refusal]]:
        """Stages of OneFlow's that compute nothing: they only look at torch's tensors in another shape."""
        by_stage: dict[int, list[Node]] = {}
        for node, stage in stages.items():
            if stage % 2:
                by_stage.setdefault(stage, []).append(node)
        for members in by_stage.values():
            if all(self._is_view(node) for node in members):
                yield from ((node, _VIEW) for node in members)

    def _is_view(self, node: Node) -> bool:
        if self.writes[node]:
            return False
        mine, read = self.storages[node], [self.storages[other] for other in node.all_input_nodes if self.storages[other]]
        return bool(read) and all(mine & theirs for theirs in read)

    def _stages(self) -> dict[Node, int]:
        stages: dict[Node, int] = {}
        for node in self.nodes:
            side = 0 if node in self.refusals else 1
            before = [stages[other] for other in (*node.all_input_nodes, *self.order[node]) if other in stages]
            last = max(before, default=0)
            stages[node] = last if last % 2 == side else last + 1
        return stages


def _has_tensor(node: Node) -> bool:
    return any(True for other in node.all_input_nodes for _ in tensors(example(other)))


def _switches(node: Node) -> bool:
    """Whether a node changes how others run: gradient mode, autocast, the seed; it has no tensor to show for it."""
    if node.op != "call_function" or node.all_input_nodes or node.users:
        return False
    value = example(node)
    module = str(getattr(node.target, "__module__", None) or "")
    return value is None and module.startswith("torch") and not module.startswith("torch.nn")
