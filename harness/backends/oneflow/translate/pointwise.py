"""Elementwise arithmetic, with broadcasting and promotion as OneFlow has them."""

from __future__ import annotations

from types import SimpleNamespace

from harness.backends.oneflow.translate.plan import Expr, Operand
from harness.backends.oneflow.translate.registry import call, form, op, refuse
from harness.model.dtypes import is_float

op(
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc erfinv exp expm1 floor lgamma log log10 log1p log2 neg"
    " reciprocal rsqrt sign sin sinh sqrt square tan trunc",
    form("input: T, *, out=None", "oneflow.{}(input)"),
)
op("round", form("input: T, *, decimals: i = 0, out=None", "oneflow.round(input)"))
op(
    "add sub",
    form("input: T, other, *, alpha: s = 1, out=None", "oneflow.{}(input, other, alpha=alpha)"),
    form("input: T, other: s, alpha: s", "oneflow.{}(input, other, alpha=alpha)"),  # aten.add.Scalar
)
op("mul floor_divide fmod atan2 maximum minimum logaddexp", form("input: T, other, *, out=None", "oneflow.{}(input, other)"))


def _div(a: SimpleNamespace) -> Expr:
    if a.rounding_mode == "floor":
        return call("oneflow.floor_divide", a.input, a.other)
    if a.rounding_mode == "trunc":
        operands = [item for item in (a.input, a.other) if isinstance(item, Operand)]
        if not any(is_float(operand.dtype) for operand in operands):
            raise refuse("div", "rounding_mode='trunc' of integers")  # its quotient of them is a float32, which is not exact
        return call("oneflow.trunc", call("oneflow.div", a.input, a.other))
    if a.rounding_mode is not None:
        raise refuse("div", f"rounding_mode={a.rounding_mode!r}")
    return call("oneflow.div", a.input, a.other)


op("div", form("input: T, other, *, rounding_mode=None, out=None", _div))
op(
    "pow",
    form("input: T, exponent, *, out=None", "oneflow.pow(input, exponent)"),
    form("input: s, exponent: T, *, out=None", "oneflow.pow(input, exponent)"),
)
op(
    "addcmul addcdiv",
    form("input: T, tensor1: T, tensor2: T, *, value: s = 1, out=None", "oneflow.{}(input, tensor1, tensor2, value=value)"),
)


def _clamp(a: SimpleNamespace) -> Expr:
    return call("oneflow.clamp", a.input, min=a.min, max=a.max)


op("clamp", form("input: T, min: s = None, max: s = None, *, out=None", _clamp))
op("clamp_min", form("input: T, min: s, *, out=None", "oneflow.clamp_min(input, min)"))
op("clamp_max", form("input: T, max: s, *, out=None", "oneflow.clamp_max(input, max)"))

# In place: only where OneFlow's tensors have the method.
op("sin_ floor_ erfinv_ zero_", form("input: T", "input.{}()"))
op("add_", form("input: T, other, *, alpha: s = 1", "input.add_(other, alpha=alpha)"))
op("sub_", form("input: T, other, *, alpha: s = 1", "input.sub_(other)"))
op("mul_", form("input: T, other", "input.mul_(other)"))
op("div_", form("input: T, other, *, rounding_mode=None", "input.div_(other)"))
op("addcmul_ addcdiv_", form("input: T, tensor1: T, tensor2: T, *, value: s = 1", "input.{}(tensor1, tensor2, value=value)"))
op("clamp_", form("input: T, min: s = None, max: s = None", lambda a: call(".clamp_", a.input, min=a.min, max=a.max)))
op("clamp_min_", form("input: T, min: s", "input.clamp_min_(min)"))
op("clamp_max_", form("input: T, max: s", "input.clamp_max_(max)"))
op("fill_", form("input: T, value", "input.fill_(value)"))
op("copy_", form("input: T, src: T, non_blocking: b = False", "input.copy_(src)"))

# `x.__rsub__(2)` and the like: OneFlow's tensors have these methods, though not the function torch.rsub.
op("method:rsub", form("input: T, other, *, alpha: s = 1", "input.__rsub__(other)"))
