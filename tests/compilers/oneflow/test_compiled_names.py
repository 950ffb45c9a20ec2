from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from harness.backends.oneflow.translate.absent import ABSENT
from harness.capture.graph import function_target
from harness.compilers.oneflow.support import program_node
from harness.compilers.oneflow.writes import written
from tests.compilers.oneflow.helpers import check, needs_oneflow, placed

# Functions that torch builds by boolean_dispatch: FX sees a closure whose qualified name is boolean_dispatch.<locals>.fn.
DISPATCHED = [
    *(f"{kind}max_pool{n}d" for kind in ("", "adaptive_") for n in (1, 2, 3)),
    *(f"fractional_max_pool{n}d" for n in (2, 3)),
]


def captured(function: Any, *inputs: Any) -> list[torch.fx.Node]:
    found: list[torch.fx.GraphModule] = []

    def backend(module: torch.fx.GraphModule, _: Any) -> Any:
        found.append(module)
        return module.forward

    torch.compile(function, backend=backend)(*inputs)
    return [node for node in found[0].graph.nodes if node.op.startswith("call_")]


@pytest.mark.parametrize("name", DISPATCHED)
def test_the_boolean_dispatch_family_is_known_by_what_it_is(name: str) -> None:
    function = getattr(F, name)
    assert "boolean_dispatch" in function.__qualname__
    assert function_target(function) == ("call_function", f"torch.nn.functional.{name}")
    nodes = captured(
        lambda x: function(x, 2, **({"output_size": 2} if "fractional" in name else {})), torch.randn(1, 1, *[5] * int(name[-2]))
    )
    assert any(program_node(node).target == f"torch.nn.functional.{name}" for node in nodes if node.op == "call_function")


@needs_oneflow
@pytest.mark.parametrize("indices", [False, True])
@pytest.mark.parametrize("name", [name for name in DISPATCHED if "fractional" not in name])
def test_the_boolean_dispatch_family_runs_in_oneflow(name: str, indices: bool) -> None:
    x = torch.randperm(6 ** int(name[-2])).view(1, 1, *[6] * int(name[-2])).float()
    check(lambda x: getattr(F, name)(torch.relu(x), 2, return_indices=indices), x)
    assert placed().share == 1.0


def test_what_oneflow_has_no_counterpart_of_is_known_as_missing() -> None:
    assert {"fractional_max_pool2d", "fractional_max_pool3d"} <= ABSENT


@pytest.mark.parametrize(
    ("function", "wrote"),
    [
        (lambda x: x.add_(1), ["l_x_"]),
        (lambda x: torch.relu_(x), ["l_x_"]),
        (lambda x: F.relu(x, inplace=True), ["l_x_"]),
        (lambda x: F.relu(x), []),
        (lambda x: torch.ops.aten.mul_.Tensor(x, x), ["l_x_"]),
        (lambda x: torch.add(x, 1, out=x), ["l_x_"]),
        (lambda x: F.batch_norm(x, x[0], x[1], training=True), ["getitem", "getitem_1"]),
        (lambda x: F.batch_norm(x, x[0], x[1], training=False), []),
        (lambda x: F.embedding(torch.tensor([0, 1]), x), []),
        (lambda x: F.embedding(torch.tensor([0, 1]), x, max_norm=1.0), ["l_x_"]),
    ],
)
def test_what_a_node_writes_is_told_from_its_signature(function: Any, wrote: list[str]) -> None:
    nodes = captured(function, torch.rand(4, 4).add(1))
    found = list(dict.fromkeys(other.name for node in nodes for other in written(node)))
    assert [name for name in found if not name.startswith("tensor")] == wrote


def test_a_write_by_index_is_seen() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x[0] = 1
        x += 1
        return x

    assert {other.name for node in captured(function, torch.ones(2)) for other in written(node)} >= {"l_x_"}
