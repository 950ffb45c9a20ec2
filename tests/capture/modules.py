"""Modules to capture, each with its inputs and what is odd about it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx
from torch import nn

from harness.model.case import Case
from harness.model.values import Tensor, Value, leaves
from harness.torch_bridge.module import build
from harness.torch_bridge.tensors import from_torch

ALL = ("symbolic_trace", "dynamo", "export")


def helper(value: torch.Tensor) -> torch.Tensor:
    """A function of the user's that fx is told not to look into."""
    return value * 2


torch.fx.wrap("helper")


class F(nn.Module):
    """A module around a function."""

    def __init__(self, function: Callable[..., Any], **children: Any) -> None:
        super().__init__()
        self.function = function
        for name, child in children.items():
            setattr(self, name, child)

    def forward(self, *args: Any) -> Any:
        return self.function(self, *args)


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(2, 3, 2, padding="same", bias=False), nn.BatchNorm2d(3), nn.ReLU(inplace=True), nn.MaxPool2d(2, ceil_mode=True)
        )
        self.head = nn.Linear(27, 4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.head(torch.flatten(self.body(image), 1)), -1)


class DictOutput(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        return {"sum": x + y, "rest": (x, [y * 2, None, 3.5])}


class NestedInput(nn.Module):
    def forward(self, pair: tuple[torch.Tensor, dict[str, torch.Tensor]], factor: int) -> torch.Tensor:
        return pair[0] * factor - pair[1]["bias"]


class InPlace(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        y = x * 1
        y += x
        y[0] = 5
        return y * 2


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("scale", torch.tensor([2.0]), persistent=False)
        self.offset = torch.arange(3.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x * self.scale + self.offset + self.count + torch.tensor([1, 2, 3])


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        y = y + 1 if y.sum() > 1000 else y - 1
        return torch.relu(y) * self.linear.weight.sum()


class Shapes(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
        rows, columns = x.shape
        return x.view(rows * columns).reshape(columns, -1), x.new_zeros(rows, columns // 2), x.size(1) // 2


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)
        self.two.weight = self.one.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(self.one(x)) @ self.one.weight.t() + self.two.weight


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.linear.register_forward_hook(lambda module, args, output: output * 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


def cell(kind: type[nn.Module]) -> nn.Module:
    return F(lambda self, x: self.inner(x), inner=kind(3, 5))


@dataclass(frozen=True)
class Example:
    """A module, its inputs, and why a way of capturing it must refuse, by way."""

    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Any, ...]]
    refused: dict[str, str] = field(default_factory=dict)

    def fresh(self) -> tuple[nn.Module, tuple[Any, ...]]:
        torch.manual_seed(0)
        return self.make(), self.inputs()


def x(*shape: int) -> torch.Tensor:
    count = torch.tensor(shape).prod().item()
    return (torch.arange(count) * 7 % 11 - 5).to(torch.float32).reshape(shape) / 4


def overlapping() -> tuple[torch.Tensor, torch.Tensor]:
    base = x(6)
    return base[:4], base[2:]


CONTROL = "control flow"
EXAMPLES = {
    "convolution": Example(lambda: ConvNet().eval(), lambda: (x(1, 2, 5, 5),)),
    "double channels_last": Example(
        lambda: ConvNet().eval().double(), lambda: (x(1, 2, 5, 5).double().to(memory_format=torch.channels_last),)
    ),
    "training batch norm": Example(lambda: ConvNet().train(), lambda: (x(2, 2, 5, 5),)),
    "LSTMCell": Example(lambda: cell(nn.LSTMCell).eval(), lambda: (x(2, 3),)),
    "GRUCell": Example(lambda: cell(nn.GRUCell).eval(), lambda: (x(2, 3),)),
    "LSTM": Example(lambda: cell(nn.LSTM).eval(), lambda: (x(4, 2, 3),), {"symbolic_trace": CONTROL}),
    "MultiheadAttention": Example(
        lambda: F(lambda self, x: self.inner(x, x, x), inner=nn.MultiheadAttention(4, 2, batch_first=True)).eval(),
        lambda: (x(1, 3, 4),),
        {"symbolic_trace": CONTROL},
    ),
    "dict output": Example(DictOutput, lambda: (x(2), x(2).double())),
    "nested input": Example(NestedInput, lambda: ((x(3), {"bias": x(1)}), 3)),
    "in place": Example(InPlace, lambda: (x(3),)),
    "buffers and constants": Example(Counter, lambda: (x(3),)),
    "branching": Example(lambda: Branching().eval(), lambda: (x(2, 3),), {"symbolic_trace": CONTROL, "export": "data-dependent"}),
    "shapes": Example(Shapes, lambda: (x(2, 4),)),
    "tied weights": Example(lambda: Tied().eval(), lambda: (x(3, 3),)),
    "hooks": Example(lambda: Hooked().eval(), lambda: (x(2, 3),)),
    "parametrization": Example(
        lambda: F(lambda self, x: self.inner(x), inner=nn.utils.parametrizations.weight_norm(nn.Linear(3, 4))).eval(), lambda: (x(2, 3),)
    ),
    "overlapping inputs": Example(lambda: F(lambda self, x, y: (x.mul_(2), y + 1)), overlapping),
    "transposed and expanded inputs": Example(lambda: F(lambda self, x, y: (x @ y, x.t())), lambda: (x(3, 2).t(), x(3, 1).expand(3, 4))),
    "bfloat16 and integers": Example(
        lambda: F(lambda self, x, i: (x[i], x.to(torch.float16), i % 3)), lambda: (x(4).bfloat16(), torch.tensor([3, 0, -1]))
    ),
    "several results": Example(lambda: F(lambda self, x: (torch.topk(x, 2), x.split(2), torch.max(x, 0))), lambda: (x(5),)),
    "a layer made inside": Example(lambda: F(lambda self, x: nn.AvgPool2d(2)(x)), lambda: (x(1, 1, 4, 4),)),
    "padding and index": Example(lambda: F(lambda self, x: nn.functional.pad(x, (1, -1), value=2.0)[..., None, ::2]), lambda: (x(2, 5),)),
}


def bits(value: Value) -> list[Any]:
    return [(path, (leaf.dtype, leaf.shape, leaf.array().tobytes()) if isinstance(leaf, Tensor) else leaf) for path, leaf in leaves(value)]


def module_result(module: nn.Module, inputs: tuple[Any, ...]) -> list[Any]:
    """What the module itself gives, run on copies."""
    module, inputs = copy.deepcopy((module, inputs))
    with torch.no_grad():
        return bits(from_torch(module(*inputs)))


def case_result(case: Case, call: int = 0) -> list[Any]:
    """What the captured program gives, as a module that is built from the case alone."""
    built = build(case)
    with torch.no_grad():
        return bits(from_torch(built.module(*built.inputs(call))))
