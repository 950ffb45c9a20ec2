"""An LSTM cell unrolled over a short sequence, and the same cell written out."""

from __future__ import annotations

import torch


class Unrolled(torch.nn.Module):
    def __init__(self, features: int = 6, hidden: int = 8) -> None:
        super().__init__()
        self.cell = torch.nn.LSTMCell(features, hidden)
        self.gates = torch.nn.Linear(hidden + hidden, 4 * hidden)
        self.hidden = hidden

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        upper_h, upper_c = torch.zeros_like(h), torch.zeros_like(c)
        outputs = []
        for step in x.unbind(1):
            h, c = self.cell(step, (h, c))
            i, f, g, o = self.gates(torch.cat([h, upper_h], dim=1)).chunk(4, dim=1)
            upper_c = torch.sigmoid(f) * upper_c + torch.sigmoid(i) * torch.tanh(g)
            upper_h = torch.sigmoid(o) * torch.tanh(upper_c)
            outputs.append(upper_h)
        return torch.stack(outputs, dim=1), (h, c)


def build() -> torch.nn.Module:
    return Unrolled()


def inputs() -> tuple[torch.Tensor, ...]:
    return (torch.randn(3, 4, 6), torch.randn(3, 8), torch.randn(3, 8))
