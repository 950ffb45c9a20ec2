"""OneFlow as an engine: a partition is a region of the backend `oneflow`, run in OneFlow's own process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.fx

from harness.compilers.aten.engines.protocol import Declared, Partition, Runnable
from harness.compilers.aten.errors import EngineResultError
from harness.compilers.oneflow.errors import NodeFailed, NotInOneFlow, WorkerDied
from harness.compilers.oneflow.options import Options
from harness.compilers.oneflow.region import Region
from harness.compilers.oneflow.support import refusal
from harness.environments.oneflow_env import oneflow_python
from harness.errors import Unsupported


class OneFlowEngine:
    """Takes what OneFlow's translation table has for the operator with these types. Static sizes only."""

    name = "oneflow"
    has_threads = True  # once a region runs: its process is talked to from a thread, which no fork may inherit

    def __init__(self) -> None:
        """Raises TargetUnavailable where the OneFlow environment is not built."""
        oneflow_python()
        self.regions: list[Region] = []

    @property
    def refused(self) -> int:
        """How many nodes OneFlow refused when it came to run them, which torch ran since."""
        return sum(len(region.refused) for region in self.regions)

    def supports(self, node: torch.fx.Node) -> bool:
        """Whether the operator can be translated; what it is translated from stands in `meta["val"]`."""
        around = [node, *node.all_input_nodes]
        if any(not _is_static(each.meta.get("val")) for each in around):
            return False
        before = {each: each.meta for each in around}
        try:
            for each in around:
                each.meta = {"example_value": each.meta["val"]}
            return refusal(node) is None
        finally:
            for each, meta in before.items():
                each.meta = meta

    def build(self, partition: Partition) -> Runnable:
        """A region with examples of its own. What OneFlow refuses shows at the first call; it then runs in torch, and is counted."""
        declared = iter(partition.inputs)
        for node in partition.module.graph.nodes:
            due = next(declared) if node.op == "placeholder" else node.meta.get("declared")
            node.meta = {"example_value": _example(due)}
        for node in partition.module.graph.nodes:
            if node.meta["example_value"] is None and node.op == "call_function":
                node.meta["example_value"] = _several(node)
        self.regions.append(Region(partition.module, Options()))
        return _Called(partition.name, self.regions[-1])

    def versions(self) -> Mapping[str, str]:
        """OneFlow's version stands in its own environment."""
        return dict(oneflow_python().versions)


class _Called:
    def __init__(self, name: str, region: Region) -> None:
        self.name = name
        self.region = region

    def __call__(self, *inputs: Any) -> Sequence[torch.Tensor]:
        try:
            with torch.no_grad():
                results: Sequence[torch.Tensor] = self.region(*inputs)
        except NotInOneFlow as error:
            raise Unsupported(f"{self.name}: {error}") from error
        except (NodeFailed, WorkerDied) as error:
            raise EngineResultError(self.name, f"{error.node}: {error}") from error
        return results


def _is_static(value: Any) -> bool:
    values = value if isinstance(value, tuple | list) else (value,)
    return all(isinstance(each, torch.Tensor) and all(isinstance(size, int) for size in each.shape) for each in values)


def _example(due: Any) -> Any:
    """A tensor of the declared type, its elements unset: only its type is looked at."""
    if not isinstance(due, Declared):
        return None
    shape = [size if size is not None else 1 for size in due.shape]
    if due.strides and None not in due.strides:
        return torch.empty_strided(shape, [step if step is not None else 0 for step in due.strides], dtype=due.dtype)
    return torch.empty(shape, dtype=due.dtype)


def _several(node: torch.fx.Node) -> Any:
    """The examples of a node with several results, from those who take them apart."""
    found = {user.args[1]: user.meta["example_value"] for user in node.users if len(user.args) == 2 and isinstance(user.args[1], int)}
    return tuple(found.get(index) for index in range(1 + max(found))) if found else None
