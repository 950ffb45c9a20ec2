"""A multilayer perceptron."""

from __future__ import annotations

import torch


def build() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(12, 24), torch.nn.GELU(), torch.nn.LayerNorm(24), torch.nn.Linear(24, 24), torch.nn.Tanh(), torch.nn.Linear(24, 5)
    )


def inputs() -> tuple[torch.Tensor, ...]:
    return (torch.randn(6, 12),)
