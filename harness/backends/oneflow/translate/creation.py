"""Tensors from nothing, or in the likeness of another."""

from __future__ import annotations

from types import SimpleNamespace

from harness.backends.oneflow.translate.plan import Expr, Invocation
from harness.backends.oneflow.translate.registry import call, form, op

_HOW = "dtype: D = None, layout=None, device=None, pin_memory=False, requires_grad=False"


def _sized(a: SimpleNamespace) -> Expr:
    return Invocation(f"oneflow.{a.op}", (a.size,), {} if a.dtype is None else {"dtype": a.dtype})


def _from_data(a: SimpleNamespace) -> Expr:
    return call("oneflow.tensor", a.data, dtype=a.dtype)


op("zeros ones", form(f"*size, out=None, {_HOW}", _sized))
op("tensor", form("data, *, dtype: D = None, device=None, requires_grad=False, pin_memory=False", _from_data))
op("full", form(f"size: I, fill_value: s, *, out=None, {_HOW}", lambda a: call("oneflow.full", a.size, a.fill_value, dtype=a.dtype)))
op("zeros_like ones_like", form(f"input: T, *, {_HOW}, memory_format=None", lambda a: call(f"oneflow.{a.op}", a.input, dtype=a.dtype)))
op(
    "full_like",
    form(
        f"input: T, fill_value: s, *, {_HOW}, memory_format=None", lambda a: call("oneflow.full_like", a.input, a.fill_value, dtype=a.dtype)
    ),
)


def _new(a: SimpleNamespace) -> Expr:
    return Invocation(f".{a.op}", (a.input, a.size), {} if a.dtype is None else {"dtype": a.dtype})


op("new_zeros new_ones", form(f"input: T, *size, {_HOW}", _new))
op(
    "new_full",
    form(f"input: T, size: I, fill_value: s, *, {_HOW}", lambda a: call(".new_full", a.input, a.size, a.fill_value, dtype=a.dtype)),
)
op(
    "arange",
    form(f"end: s, *, out=None, {_HOW}", lambda a: call("oneflow.arange", a.end, dtype=a.dtype)),
    form(f"start: s, end: s, step: s = 1, *, out=None, {_HOW}", lambda a: call("oneflow.arange", a.start, a.end, a.step, dtype=a.dtype)),
)
op(
    "linspace",
    form(f"start: s, end: s, steps: i, *, out=None, {_HOW}", lambda a: call("oneflow.linspace", a.start, a.end, a.steps, dtype=a.dtype)),
)
op(
    "logspace",
    form(
        f"start: s, end: s, steps: i, base: s = 10.0, *, out=None, {_HOW}",
        lambda a: call("oneflow.logspace", a.start, a.end, a.steps, base=a.base, dtype=a.dtype),
    ),
)
op(
    "eye",
    form(f"n: i, *, out=None, {_HOW}", lambda a: call("oneflow.eye", a.n, dtype=a.dtype)),
    form(f"n: i, m: i, *, out=None, {_HOW}", lambda a: call("oneflow.eye", a.n, a.m, dtype=a.dtype)),
)
