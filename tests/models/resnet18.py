"""ResNet-18 written out, of a quarter of the usual width."""

from __future__ import annotations

import torch


class Block(torch.nn.Module):
    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(channels_in, channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(channels)
        self.relu = torch.nn.ReLU(inplace=True)
        self.conv2 = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(channels)
        self.downsample: torch.nn.Module | None = None
        if stride != 1 or channels_in != channels:
            self.downsample = torch.nn.Sequential(
                torch.nn.Conv2d(channels_in, channels, 1, stride=stride, bias=False), torch.nn.BatchNorm2d(channels)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class ResNet18(torch.nn.Module):
    def __init__(self, width: int = 16, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(width)
        self.relu = torch.nn.ReLU(inplace=True)
        self.maxpool = torch.nn.MaxPool2d(3, stride=2, padding=1)
        blocks, channels_in = [], width
        for stage in range(4):
            channels = width << stage
            blocks += [Block(channels_in, channels, 1 if stage == 0 else 2), Block(channels, channels, 1)]
            channels_in = channels
        self.blocks = torch.nn.Sequential(*blocks)
        self.avgpool = torch.nn.AdaptiveAvgPool2d((1, 1))
        self.fc = torch.nn.Linear(channels_in, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        return self.fc(torch.flatten(self.avgpool(self.blocks(x)), 1))


def build() -> torch.nn.Module:
    return ResNet18()


def inputs() -> tuple[torch.Tensor, ...]:
    return (torch.randn(3, 3, 64, 64),)
