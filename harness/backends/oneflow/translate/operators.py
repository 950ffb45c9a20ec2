"""Python's operators: OneFlow's tensors have their own, so `x % 3` is asked as `x % 3`."""

from __future__ import annotations

from harness.backends.oneflow.errors import OneFlowUnsupported
from harness.backends.oneflow.translate.plan import Expr, Invocation

_OFFERED = (
    "add sub mul truediv floordiv mod pow matmul and_ or_ xor invert neg abs eq ne lt le gt ge getitem setitem iadd isub imul itruediv ipow"
)
# Python would fall back to the out-of-place operator, or finds no method at all.
_MISSING = "lshift rshift pos ifloordiv imod imatmul iand ior ixor ilshift irshift"


def operator_call(name: str, args: tuple[Expr, ...]) -> Invocation:
    """`operator.NAME` on OneFlow's tensors; raises OneFlowUnsupported where they have no such operator."""
    if name in _MISSING.split():
        raise OneFlowUnsupported("missing", f"OneFlow's tensors do not define operator.{name}")
    if name not in _OFFERED.split():
        raise OneFlowUnsupported("untranslated", f"there is no adapter for operator.{name}")
    return Invocation(f"operator.{name}", args)
