"""Symbolic sizes of torch as size expressions of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from harness.errors import CaptureError
from harness.model.symbols import Dim, Sym, Symbol

UNBOUNDED = 1 << 16


class Sizes:
    """The symbols of one captured graph, renamed s0, s1, ... in order of appearance, with their values."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.binding: dict[str, int] = {}
        self.ranges: dict[str, tuple[int, int]] = {}

    def named(self, dim: Any, value: int) -> Sym:
        """A symbol for a torch.export Dim: one for each name, a new one for each hint such as Dim.AUTO."""
        key = getattr(dim, "__name__", None) or object()
        if key not in self.names:
            name = self.names[key] = f"s{len(self.names)}"
            self.binding[name] = value
            low, high = getattr(dim, "min", None), getattr(dim, "max", None)
            self.ranges[name] = (low if isinstance(low, int) else 0, min(high, UNBOUNDED) if isinstance(high, int) else UNBOUNDED)
        return Sym(self.names[key])

    def dim(self, size: int | Sym | torch.SymInt) -> Dim:
        """A size as an int or as an expression; raises CaptureError for what the grammar cannot say."""
        if isinstance(size, Sym):
            return size
        if isinstance(size, int):
            return int(size)
        expr = size.node.expr
        if expr.is_Integer:
            return int(expr)
        self._learn(size)
        text, _ = self._text(expr)
        return Sym(text)

    def is_backed(self, size: torch.SymInt) -> bool:
        """Whether a size follows from the inputs' sizes; others depend on data and have no value before the run."""
        env = size.node.shape_env
        return all(symbol in _values(env) for symbol in size.node.expr.free_symbols)

    def bind(self, size: int | Sym | torch.SymInt, value: int) -> None:
        """Note that a size is `value` in this call, where it is one symbol alone."""
        if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
            self._learn(size)
            self.binding[self.names[size.node.expr]] = value

    def symbols(self) -> tuple[Symbol, ...]:
        """Every symbol with a range that holds its value."""
        found = []
        for name in self.names.values():
            low, high = self.ranges.get(name, (0, UNBOUNDED))
            value = self.binding[name]
            found.append(Symbol(name, min(low, value), max(high, value)))
        return tuple(found)

    def _learn(self, size: torch.SymInt) -> None:
        env = size.node.shape_env
        for symbol in sorted(size.node.expr.free_symbols, key=str):
            if symbol in self.names:
                continue
            name = self.names[symbol] = f"s{len(self.names)}"
            values = _values(env)
            if symbol not in values:
                raise CaptureError(f"the size {size} depends on data")
            self.binding[name] = int(values[symbol])
            bounds = env.var_to_range.get(symbol)
            if bounds is not None:
                low = int(bounds.lower) if bounds.lower.is_Integer else 0
                high = int(bounds.upper) if bounds.upper.is_Integer else UNBOUNDED
                self.ranges[name] = (max(low, 0), min(high, UNBOUNDED))

    def _text(self, expr: Any) -> tuple[str, int]:
        """An expression and how tightly it binds: 0 sum, 1 product, 2 atom."""
        if expr.is_Integer:
            return (str(int(expr)), 2) if expr >= 0 else (f"({int(expr)})", 2)
        if expr.is_Symbol:
            return self.names[expr], 2
        if expr.is_Add:
            return "+".join(self._text(term)[0] for term in expr.args), 0
        if expr.is_Mul:
            return "*".join(self._tight(factor, 1) for factor in expr.args), 1
        if expr.is_Pow and expr.exp.is_Integer and 0 < expr.exp <= 8:
            return "*".join([self._tight(expr.base, 2)] * int(expr.exp)), 1
        name = type(expr).__name__
        if name in ("FloorDiv", "CleanDiv"):
            return f"({self._tight(expr.args[0], 2)}//{self._tight(expr.args[1], 2)})", 2
        if name in ("Mod", "PythonMod"):
            return f"({self._tight(expr.args[0], 2)}%{self._tight(expr.args[1], 2)})", 2
        raise CaptureError(f"the size {expr} holds {name}, which a size expression cannot say")

    def _tight(self, expr: Any, level: int) -> str:
        text, binds = self._text(expr)
        return text if binds >= level else f"({text})"


def _values(env: Any) -> Mapping[Any, Any]:
    values = getattr(env, "backed_var_to_val", None)
    return values if values is not None else env.var_to_val  # type: ignore[no-any-return]
