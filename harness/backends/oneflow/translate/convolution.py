"""Convolutions; PyTorch's padding by name ('same', 'valid') is not offered by OneFlow's functions."""

from __future__ import annotations

from types import SimpleNamespace

from harness.backends.oneflow.translate.plan import Expr, Invocation
from harness.backends.oneflow.translate.registry import form, op, rank, refuse

op(
    "conv1d conv2d conv3d",
    form(
        "input: T, weight: T, bias: T = None, stride: I = 1, padding: I = 0, dilation: I = 1, groups: i = 1",
        "oneflow.nn.functional.{}(input, weight, bias, stride, padding, dilation, groups)",
    ),
)
op(
    "conv_transpose1d conv_transpose2d conv_transpose3d",
    form(
        "input: T, weight: T, bias: T = None, stride: I = 1, padding: I = 0, output_padding: I = 0, groups: i = 1, dilation: I = 1",
        "oneflow.nn.functional.{}(input, weight, bias, stride, padding, output_padding, groups, dilation)",
    ),
)


def _convolution(a: SimpleNamespace) -> Expr:
    dims = rank(a.weight) - 2
    if dims not in (1, 2, 3):
        raise refuse("convolution", f"weight of rank {dims + 2}")
    if a.transposed:
        args = (a.input, a.weight, a.bias, a.stride, a.padding, a.output_padding, a.groups, a.dilation)
        return Invocation(f"oneflow.nn.functional.conv_transpose{dims}d", args)
    return Invocation(f"oneflow.nn.functional.conv{dims}d", (a.input, a.weight, a.bias, a.stride, a.padding, a.dilation, a.groups))


op(
    "convolution",
    form("input: T, weight: T, bias, stride: I, padding: I, dilation: I, transposed: b, output_padding: I, groups: i", _convolution),
)
