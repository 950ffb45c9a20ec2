"""Fake quantization against PyTorch's, and quantization-aware training."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
import torch
from torch.ao.quantization import MinMaxObserver

from tests.backends.oneflow.running import needs_oneflow
from tests.oneflow_fx.inside import Inside

pytestmark = needs_oneflow
RANGES = ((-128, 127), (0, 255), (-8, 7))


def with_gradient(
    kind: str, x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, low: int, high: int, dim: int
) -> dict[str, np.ndarray]:
    incoming = torch.randn_like(x)
    x.requires_grad_(True)
    if dim < 0:
        value = torch.fake_quantize_per_tensor_affine(x, float(scale), int(zero_point), low, high)
    else:
        value = torch.fake_quantize_per_channel_affine(x, scale, zero_point, dim, low, high)
    (value * incoming).sum().backward()
    assert x.grad is not None
    parts = {"x": x.detach(), "scale": scale, "zero_point": zero_point, "value": value.detach(), "gradient": x.grad, "incoming": incoming}
    return {f"{kind}_{name}": part.numpy() for name, part in parts.items()} | {f"{kind}_settings": np.array([low, high, dim])}


def cases() -> Mapping[str, np.ndarray]:
    """Drawn tensors, some of whose elements are out of range or halfway between two integers."""
    torch.manual_seed(0)
    data: dict[str, np.ndarray] = {}
    for index in range(40):
        low, high = RANGES[index % 3]
        shape = tuple(int(size) for size in torch.randint(1, 6, (1 + index % 4,)))
        x = torch.randn(shape) * (high - low) / 8
        if index % 5 == 0:
            x = torch.round(x * 2) / 2  # ties, where the scale is a power of two
        scale = torch.tensor(0.25 if index % 5 == 0 else float(torch.rand(()) + 0.05))
        data |= with_gradient(f"tensor{index}", x.clone(), scale, torch.randint(low, high + 1, ()), low, high, -1)
        dim = index % len(shape)
        scales, zero_points = torch.rand(shape[dim]) + 0.05, torch.randint(low, high + 1, (shape[dim],), dtype=torch.int32)
        data |= with_gradient(f"channel{index}", x.clone(), scales, zero_points, low, high, dim)
    for name, scheme in (("affine", torch.per_tensor_affine), ("symmetric", torch.per_tensor_symmetric)):
        seen = torch.randn(3, 50) + 1
        observer = MinMaxObserver(dtype=torch.qint8, qscheme=scheme)
        for each in seen:
            observer(each)
        scale, zero_point = observer.calculate_qparams()
        data |= {
            f"observer_{name}_x": seen.numpy(),
            f"observer_{name}_scale": scale.numpy(),
            f"observer_{name}_zero_point": zero_point.numpy(),
        }
    return data


INSIDE = Inside("inside_quantizing.py", cases)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("check", INSIDE.checks)
def test_quantizing(check: str) -> None:
    INSIDE.expect(check)
