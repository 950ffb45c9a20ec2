"""Padding."""

from __future__ import annotations

from types import SimpleNamespace

from harness.backends.oneflow.translate.plan import Expr, Invocation
from harness.backends.oneflow.translate.registry import form, op

_F = "oneflow.nn.functional"


def _pad(a: SimpleNamespace) -> Expr:
    args = (a.input, list(a.pad), a.mode)
    return Invocation(f"{_F}.pad", args if a.value is None else (*args, a.value))


op("pad", form("input: T, pad: I, mode: S = 'constant', value: s = None", _pad))
op("aten:pad", form("input: T, pad: I, value: s = 0", lambda a: Invocation(f"{_F}.pad", (a.input, list(a.pad), "constant", a.value))))
