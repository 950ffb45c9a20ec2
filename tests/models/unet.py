"""A small U-Net, written out: convolutions with group norm going down and up, skips joined by concatenation."""

from __future__ import annotations

import torch
import torch.nn.functional as F


class Double(torch.nn.Module):
    def __init__(self, incoming: int, outgoing: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = torch.nn.Conv2d(incoming, outgoing, 3, padding=1), torch.nn.Conv2d(outgoing, outgoing, 3, padding=1)
        self.norm1, self.norm2 = torch.nn.GroupNorm(2, outgoing), torch.nn.BatchNorm2d(outgoing)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.silu(self.norm1(self.conv1(x)))
        return F.leaky_relu(self.norm2(self.conv2(x)), 0.1)


class UNet(torch.nn.Module):
    def __init__(self, channels: int = 4) -> None:
        super().__init__()
        self.down1, self.down2, self.middle = Double(1, channels), Double(channels, 2 * channels), Double(2 * channels, 4 * channels)
        self.lift = torch.nn.ConvTranspose2d(4 * channels, 2 * channels, 2, stride=2)
        self.up2, self.up1 = Double(4 * channels, 2 * channels), Double(3 * channels, channels)
        self.head = torch.nn.Conv2d(channels, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.down1(x)
        second = self.down2(F.max_pool2d(first, 2))
        x = self.middle(F.avg_pool2d(second, 2))
        x = self.up2(torch.cat([self.lift(x), second], dim=1))
        x = F.interpolate(x, scale_factor=2.0, mode="nearest")
        return torch.sigmoid(self.head(self.up1(torch.cat([x, first], dim=1))))


def build() -> torch.nn.Module:
    return UNet()


def inputs() -> tuple[torch.Tensor, ...]:
    return (torch.randn(2, 1, 8, 8),)
