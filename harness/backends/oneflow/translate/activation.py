"""Activations and softmaxes."""

from __future__ import annotations

from types import SimpleNamespace

from harness.backends.oneflow.errors import OneFlowUnsupported
from harness.backends.oneflow.translate.plan import Expr, Invocation
from harness.backends.oneflow.translate.registry import form, op, refuse

_F = "oneflow.nn.functional"

op("sigmoid tanh", form("input: T, *, out=None", "oneflow.{}(input)"))
op("relu relu6 hardsigmoid", form("input: T, inplace: b = False", f"{_F}.{{}}(input, inplace)"))
op("selu silu mish hardswish", form("input: T, inplace: b = False", f"{_F}.{{}}(input)"))
op("softsign logsigmoid", form("input: T", f"{_F}.{{}}(input)"))
op("relu_", form("input: T", "input.relu_()"))
op("leaky_relu", form("input: T, negative_slope: s = 0.01, inplace: b = False", f"{_F}.leaky_relu(input, negative_slope, inplace)"))
op("aten:elu", form("input: T, alpha: s = 1, scale: s = 1, input_scale: s = 1", f"{_F}.elu(input, alpha)"))
op("elu", form("input: T, alpha: s = 1.0, inplace: b = False", f"{_F}.elu(input, alpha)"))
op("celu", form("input: T, alpha: s = 1.0, inplace: b = False", f"{_F}.celu(input, alpha=alpha, inplace=inplace)"))
op("gelu", form("input: T, *, approximate: S = 'none'", f"{_F}.gelu(input, approximate)"))
op("hardtanh", form("input: T, min_val: s = -1.0, max_val: s = 1.0, inplace: b = False", f"{_F}.hardtanh(input, min_val, max_val)"))
op("hardshrink", form("input: T, lambd: s = 0.5", f"{_F}.hardshrink(input, lambd=lambd)"))
op("softshrink", form("input: T, lambd: s = 0.5", f"{_F}.softshrink(input, alpha=lambd)"))
op("softplus", form("input: T, beta: s = 1, threshold: s = 20", f"{_F}.softplus(input, beta, threshold)"))
op("threshold", form("input: T, threshold: s, value: s, inplace: b = False", f"{_F}.threshold(input, threshold=threshold, value=value)"))
op("glu", form("input: T, dim: i = -1", f"{_F}.glu(input, dim)"))
op("prelu", form("input: T, weight: T", f"{_F}.prelu(input, weight)"))


# OneFlow takes no dtype here; PyTorch's documentation says that the input is cast to it first.
_SOFTMAX_DTYPE = "oneflow.{}(input.to(dtype), dim)"
op(
    "softmax log_softmax",
    form("input: T, dim: i, *, dtype: D, out=None", _SOFTMAX_DTYPE),
    form("input: T, dim: i, dtype: D", _SOFTMAX_DTYPE),
    form("input: T, dim: i, *, dtype=None, out=None", "oneflow.{}(input, dim)"),
    form("input: T, dim: i, half_to_float: b = False", "oneflow.{}(input, dim)"),
    form("input: T, dim: i = None, _stacklevel: i = 3, *, dtype: D", _SOFTMAX_DTYPE),
    form("input: T, dim: i = None, _stacklevel: i = 3, dtype=None", "oneflow.{}(input, dim)"),
)


def _native_dropout(a: SimpleNamespace) -> Expr:
    raise refuse("dropout", "mask beside its result")


op("aten:native_dropout", form("input: T, p: s, train=None", _native_dropout))


def _dropout(a: SimpleNamespace) -> Expr:
    if a.training and a.p not in (0, 1):
        raise OneFlowUnsupported("untranslated", f"{a.op} that is random has no reference value")
    return Invocation(f"{_F}.{a.op}", (a.input,), {"p": a.p, "training": a.training, **({"inplace": True} if a.inplace else {})})


op("dropout", form("input: T, p: s = 0.5, training: b = True, inplace: b = False", _dropout))
op(
    "dropout1d dropout2d dropout3d",
    form("input: T, p: s = 0.5, training: b = True", lambda a: _dropout(SimpleNamespace(**vars(a), inplace=False))),
)
