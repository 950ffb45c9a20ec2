"""Convolutions; PyTorch's padding by name ('same', 'valid') is said in numbers, which is what OneFlow's functions take."""

from __future__ import annotations

from types import SimpleNamespace

from harness.backends.oneflow.translate.plan import Expr, Invocation
from harness.backends.oneflow.translate.registry import form, op, rank, refuse

_CONV = "oneflow.nn.functional.{}(input, weight, bias, stride, padding, dilation, groups)"


def _padded_by_name(a: SimpleNamespace) -> Expr:
    """What PyTorch's documentation says of the names: 'valid' is none, 'same' keeps sizes at stride 1, the odd one at the end."""
    kernel = a.weight.shape[2:]
    dilation = tuple(a.dilation) if isinstance(a.dilation, tuple | list) else (a.dilation,)
    dilation = dilation * len(kernel) if len(dilation) == 1 else dilation
    if a.padding not in ("same", "valid"):
        raise refuse(a.op, f"padding={a.padding!r}")
    total = [step * (size - 1) if a.padding == "same" else 0 for size, step in zip(kernel, dilation, strict=True)]
    if any(size % 2 for size in total):
        raise refuse(a.op, "padding by different numbers at the two ends of a dim")
    padding = tuple(size // 2 for size in total)
    return Invocation(f"oneflow.nn.functional.{a.op}", (a.input, a.weight, a.bias, a.stride, padding, a.dilation, a.groups))


op(
    "conv1d conv2d conv3d",
    form("input: T, weight: T, bias: T = None, stride: I = 1, padding: I = 0, dilation: I = 1, groups: i = 1", _CONV),
    form("input: T, weight: T, bias: T = None, stride: I = 1, padding: S = 'valid', dilation: I = 1, groups: i = 1", _padded_by_name),
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
