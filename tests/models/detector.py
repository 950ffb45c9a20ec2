"""A small detector of the shape of Faster R-CNN's first half: backbone, FPN, RPN head, anchors and box arithmetic."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F


class Backbone(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        sizes = [(3, width, 2), (width, width, 2), (width, 2 * width, 2)]
        self.convs = torch.nn.ModuleList(torch.nn.Conv2d(i, o, 3, stride=s, padding=1, bias=False) for i, o, s in sizes)
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(o) for _, o, _ in sizes)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        features = []
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = F.relu(norm(conv(x)), inplace=True)
            features.append(x)
        return features[1:]


class Detector(torch.nn.Module):
    def __init__(self, width: int = 8, anchors: int = 3) -> None:
        super().__init__()
        self.backbone = Backbone(width)
        self.lateral = torch.nn.ModuleList(torch.nn.Conv2d(c, width, 1) for c in (width, 2 * width))
        self.smooth = torch.nn.ModuleList(torch.nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.rpn = torch.nn.Conv2d(width, width, 3, padding=1)
        self.objectness = torch.nn.Conv2d(width, anchors, 1)
        self.deltas = torch.nn.Conv2d(width, 4 * anchors, 1)
        self.ratios = (0.5, 1.0, 2.0)[:anchors]

    def pyramid(self, x: torch.Tensor) -> list[torch.Tensor]:
        fine, coarse = self.backbone(x)
        top = self.lateral[1](coarse)
        merged = self.lateral[0](fine) + F.interpolate(top, size=fine.shape[-2:], mode="nearest")
        return [self.smooth[0](merged), self.smooth[1](top)]

    def anchors(self, height: int, width: int, stride: int) -> torch.Tensor:
        cells = []
        for ratio in self.ratios:
            h, w = 2 * stride * math.sqrt(ratio), 2 * stride / math.sqrt(ratio)
            cells.append([-w / 2, -h / 2, w / 2, h / 2])
        y, x = torch.meshgrid(torch.arange(height) * stride, torch.arange(width) * stride, indexing="ij")
        shifts = torch.stack((x.reshape(-1), y.reshape(-1), x.reshape(-1), y.reshape(-1)), dim=1)
        return (shifts[:, None, :] + torch.tensor(cells)[None]).reshape(-1, 4)

    def decode(self, anchors: torch.Tensor, deltas: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
        widths, heights = anchors[:, 2] - anchors[:, 0], anchors[:, 3] - anchors[:, 1]
        x = anchors[:, 0] + 0.5 * widths + deltas[..., 0] * widths
        y = anchors[:, 1] + 0.5 * heights + deltas[..., 1] * heights
        w = torch.exp(torch.clamp(deltas[..., 2], max=math.log(1000.0 / 16))) * widths
        h = torch.exp(torch.clamp(deltas[..., 3], max=math.log(1000.0 / 16))) * heights
        corners = (x - 0.5 * w).clamp(0, size[1]), (y - 0.5 * h).clamp(0, size[0])
        return torch.stack((*corners, (x + 0.5 * w).clamp(0, size[1]), (y + 0.5 * h).clamp(0, size[0])), dim=-1)

    def forward(self, x: torch.Tensor) -> dict[str, object]:
        boxes, scores = [], []
        features = self.pyramid(x)
        for level, feature in enumerate(features):
            batch, _, height, width = feature.shape
            hidden = F.relu(self.rpn(feature))
            logits = self.objectness(hidden).permute(0, 2, 3, 1).reshape(batch, -1)
            deltas = self.deltas(hidden).view(batch, -1, 4, height, width).permute(0, 3, 4, 1, 2).reshape(batch, -1, 4)
            found = self.decode(self.anchors(height, width, 4 << level), deltas, (x.shape[-2], x.shape[-1]))
            best, index = logits.topk(8, dim=1)
            boxes.append(torch.gather(found, 1, index[..., None].expand(-1, -1, 4)))
            scores.append(torch.sigmoid(best))
        return {"boxes": boxes, "scores": scores, "pooled": {"fine": features[0].mean((2, 3)), "coarse": features[1].mean((2, 3))}}


def build() -> torch.nn.Module:
    return Detector()


def inputs() -> tuple[torch.Tensor, ...]:
    return (torch.randn(2, 3, 32, 40),)
