"""Symbolic sizes for tracing: one import that holds for every binding of a case, or the news that there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy
import torch
from torch._dynamo.source import ConstantSource
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from harness.backends.torch_mlir.tracing import Specialized
from harness.model.case import Case


class SymbolicSizes:
    """The case's symbols as SymInts hinted with the first call's values.

    Every symbol is its own, sizes 0 and 1 are not special, and what tracing assumes of the symbols is checked
    afterwards against all calls by `check_guards`.
    """

    def __init__(self, case: Case) -> None:
        self._case = case
        self._env = ShapeEnv(specialize_zero_one=False, duck_shape=False, allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True)
        self._symbols: dict[str, sympy.Symbol] = {}
        self.binding: dict[str, torch.SymInt] = {}
        for name, hint in case.calls[0].binding.items():
            source = ConstantSource(name)
            symbol = self._env.create_symbol(hint, source, dynamic_dim=DimDynamic.DYNAMIC)
            self._symbols[name] = symbol
            self.binding[name] = self._env.create_symintnode(symbol, hint=hint, source=source)  # type: ignore[assignment]
        self.mode = FakeTensorMode(shape_env=self._env, allow_non_fake_inputs=True)

    def check_guards(self) -> None:
        """Raise Specialized where an assumption of the trace does not hold in every call."""
        for guard in self._env.guards:
            for index, call in enumerate(self._case.calls):
                if not _holds(guard.expr, {self._symbols[name]: value for name, value in call.binding.items()}):
                    raise Specialized(f"tracing assumed {guard.expr}, which fails in call {index}")


def _holds(expr: Any, values: Mapping[sympy.Symbol, int]) -> bool:
    return bool(expr.xreplace({symbol: sympy.Integer(value) for symbol, value in values.items()}))
