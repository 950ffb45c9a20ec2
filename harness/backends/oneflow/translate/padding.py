"""Padding."""

from __future__ import annotations

from types import SimpleNamespace

from harness.backends.oneflow.translate.plan import Expr, Invocation
from harness.backends.oneflow.translate.registry import Adapt, form, op

_F = "oneflow.nn.functional"


def _pad(a: SimpleNamespace) -> Expr:
    args = (a.input, list(a.pad), a.mode)
    return Invocation(f"{_F}.pad", args if a.value is None else (*args, a.value))


op("pad", form("input: T, pad: I, mode: S = 'constant', value: s = None", _pad))


def _mode(mode: str) -> Adapt:
    return lambda a: Invocation(f"{_F}.pad", (a.input, list(a.padding), mode))


op("aten:reflection_pad1d aten:reflection_pad2d aten:reflection_pad3d", form("input: T, padding: I", _mode("reflect")))
op("aten:replication_pad1d aten:replication_pad2d aten:replication_pad3d", form("input: T, padding: I", _mode("replicate")))
op(
    "aten:constant_pad_nd",
    form("input: T, pad: I, value: s = 0", lambda a: Invocation(f"{_F}.pad", (a.input, list(a.pad), "constant", a.value))),
)
