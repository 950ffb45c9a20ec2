"""Convolution, batch normalization, ReLU; twice, and a pool."""

from __future__ import annotations

import torch
import torch.nn.functional as F


class ConvBn(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(8)
        self.conv2 = torch.nn.Conv2d(8, 8, 3, stride=2, padding="valid", groups=2, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(8, momentum=0.3)
        self.relu = torch.nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        return F.max_pool2d(self.relu(self.bn2(self.conv2(x))), 2)


def build() -> torch.nn.Module:
    return ConvBn()


def inputs() -> tuple[torch.Tensor, ...]:
    return (torch.randn(4, 3, 13, 13),)
