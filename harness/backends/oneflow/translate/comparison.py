"""Comparisons, tests and logic."""

from __future__ import annotations

from harness.backends.oneflow.translate.registry import form, op

op("eq ne lt le gt ge logical_and logical_or logical_xor", form("input: T, other, *, out=None", "oneflow.{}(input, other)"))
op("isnan isinf isfinite logical_not", form("input: T, *, out=None", "oneflow.{}(input)"))
op(
    "isclose allclose",
    form(
        "input: T, other: T, rtol: s = 1e-05, atol: s = 1e-08, equal_nan: b = False",
        "oneflow.{}(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan)",
    ),
)
op("equal", form("input: T, other: T", "oneflow.equal(input, other)"))
op(
    "where",
    form("condition: T, input, other, *, out=None", "oneflow.where(condition, input, other)"),
    form("condition: T", "oneflow.where(condition)"),
)
# PyTorch's method has the first choice for self, OneFlow's the condition.
op("method:where", form("input: T, condition: T, other", "oneflow.where(condition, input, other)"))
