"""Normalizations."""

from __future__ import annotations

from harness.backends.oneflow.translate.registry import form, op

_F = "oneflow.nn.functional"

op(
    "batch_norm",
    form(
        "input: T, running_mean: T = None, running_var: T = None, weight: T = None, bias: T = None, training: b = False,"
        " momentum: s = 0.1, eps: s = 1e-05",
        f"{_F}.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)",
    ),
)
_LAYER_NORM = f"{_F}.layer_norm(input, normalized_shape, weight, bias, eps)"
op(
    "layer_norm",
    form("input: T, normalized_shape: I, weight: T = None, bias: T = None, eps: s = 1e-05", _LAYER_NORM),
    form("input: T, normalized_shape: I, weight: T = None, bias: T = None, eps: s = 1e-05, cudnn_enable: b = True", _LAYER_NORM),
)
op(
    "normalize",
    form("input: T, p: s = 2.0, dim: i = 1, eps: s = 1e-12, out=None", f"{_F}.normalize(input, p, dim, eps)"),
)
