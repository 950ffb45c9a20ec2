"""Small modules that the tests of the aten path compile, with inputs for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional


class Conv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> Any:
        y = functional.relu(self.norm(self.conv(x))).mean((2, 3))
        return {"scores": torch.softmax(self.out(y), -1) * 2.5, "sizes": (3, None)}


class Embedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = nn.Embedding(7, 4), nn.LayerNorm(4)

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        return self.norm(self.table(index))


class Scalars(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 2.0 + 0.5).clamp(-1.0, 1.5) + torch.tensor([1.0, 2.0, 3.0])


class Writes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count: torch.Tensor
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> Any:
        self.count.add_(1)
        y = x * self.count
        x.mul_(2)
        return y + x, x[0]


class Views(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        y = torch.relu(x) + 1
        return x.t(), y.view(-1), y.view(-1)[2:]


class Pieces(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        first, second = torch.split(x, 2, -1)
        values, index = torch.sort(first + second, descending=True)
        return values, index, torch.cumsum(second.exp(), 0)


MODULES: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "conv": (Conv, lambda: (torch.randn(2, 3, 6, 6),)),
    "embedding": (Embedding, lambda: (torch.tensor([[0, 3], [6, 1]]),)),
    "scalars": (Scalars, lambda: (torch.randn(4, 3),)),
    "writes": (Writes, lambda: (torch.randn(4, 3),)),
    "views": (Views, lambda: (torch.randn(4, 3),)),
    "pieces": (Pieces, lambda: (torch.randn(3, 4),)),
}
# Those whose backward pass is legal: no input is overwritten that it needs.
TRAINABLE = ("conv", "embedding", "scalars", "pieces")


def fresh(name: str, *, training: bool = False) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The module and its inputs, the same on every call."""
    torch.manual_seed(0)
    make, inputs = MODULES[name]
    return make().train(training), inputs()


class _Tracer(torch.fx.Tracer):
    proxy_buffer_attributes = True  # else what a module writes to its buffers happens while it is traced, and never again


def graph_of(module: nn.Module) -> torch.fx.GraphModule:
    """The module's graph, sharing its parameters and buffers."""
    return torch.fx.GraphModule(module, _Tracer().trace(module))
