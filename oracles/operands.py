"""The concrete operands of one node as the reference ran it, with the attributes of its call or module."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.model.case import Case
from harness.model.dtypes import DTYPES, Array
from harness.model.opnames import canonical
from harness.model.outcome import NodeTrace
from harness.model.program import Node
from harness.model.values import Ref, Tensor, Value, leaves
from oracles.operators import base_name
from oracles.spans import Span, measure_value, parts


@dataclass(frozen=True)
class Operands:
    """One node, its trace, and lazily what the rules ask of them."""

    case: Case
    node: Node
    trace: NodeTrace

    @functools.cached_property
    def name(self) -> str:
        """The canonical operator, without the in-place underscore."""
        return base_name(canonical(self.node, self.case.program))

    @functools.cached_property
    def state(self) -> dict[str, Tensor]:
        """The tensors of the module that a call_module calls."""
        return self.case.module_state(self.node.target) if self.node.op == "call_module" else {}

    @functools.cached_property
    def tensors(self) -> list[Tensor]:
        """Every tensor operand in order: arguments, keyword arguments, the module's state."""
        found = [leaf for _, leaf in leaves((self.trace.args, dict(self.trace.kwargs))) if isinstance(leaf, Tensor)]
        return found + list(self.state.values())

    @functools.cached_property
    def arrays(self) -> list[Array]:
        """The real numbers of every tensor operand."""
        return [parts(tensor.array(), tensor.dtype) for tensor in self.tensors]

    @functools.cached_property
    def spans(self) -> list[Span]:
        """The spans of the leading operands: positional tensors and numbers, then tensors given by keyword, then state."""
        given = [leaf for _, leaf in leaves(self.trace.args) if isinstance(leaf, Tensor | int | float | complex)]
        named = [
            leaf for key, value in self.trace.kwargs.items() for _, leaf in leaves(value) if isinstance(leaf, Tensor) or key == "other"
        ]
        return [measure_value(value) for value in (*given, *named, *self.state.values())]

    @functools.cached_property
    def outputs(self) -> list[Tensor]:
        """Every tensor that the node returned."""
        return [leaf for _, leaf in leaves(self.trace.output) if isinstance(leaf, Tensor)]

    @functools.cached_property
    def peak(self) -> float:
        """The largest finite magnitude over the node's outputs."""
        if self.trace.peak is not None:
            return self.trace.peak
        return max((measure_value(value).peak for value in self.outputs), default=0.0)

    @property
    def in_place(self) -> bool:
        """Whether the node writes into its first argument, or an `out=`."""
        name = canonical(self.node, self.case.program)
        return name != base_name(name) or name == "setitem" or self.trace.kwargs.get("out") is not None or self._updates_statistics

    @property
    def _updates_statistics(self) -> bool:
        return self.name in ("batch_norm", "instance_norm") and self.node.op == "call_function"

    def argument(self, position: int, name: str, default: Value = None) -> Value:
        """An attribute by position in the function's arguments (a module's constructor counts from its first) or by name."""
        if self.node.op == "call_module":
            recipe = self.case.program.modules[self.node.target]
            args, kwargs, position = recipe.args, recipe.kwargs, position - 1
        else:
            args, kwargs = self.trace.args, self.trace.kwargs
        if name in kwargs:
            return kwargs[name]
        return args[position] if 0 <= position < len(args) else default

    def read(self, ref: str) -> list[Tensor | float]:
        """The tensors and numbers that came from node `ref`."""
        return list(self._by_ref.get(ref, ()))

    @functools.cached_property
    def _by_ref(self) -> dict[str, list[Tensor | float]]:
        concrete = list(leaves((self.trace.args, dict(self.trace.kwargs))))
        found: dict[str, list[Tensor | float]] = {}
        for path, leaf in leaves((self.node.args, dict(self.node.kwargs))):
            if isinstance(leaf, Ref):
                values = [value for at, value in concrete if at.startswith(path) and isinstance(value, Tensor | int | float)]
                found.setdefault(leaf.node, []).extend(values)
        return found


def has_nonfinite(tensors: Iterable[Tensor]) -> frozenset[str]:
    """Which of `nan` and `inf` occur in any of these tensors."""
    found: set[str] = set()
    for tensor in tensors:
        if DTYPES[tensor.dtype].mantissa:
            numbers: Any = parts(tensor.array(), tensor.dtype)
            if np.isnan(numbers).any():
                found.add("nan")
            if np.isinf(numbers).any():
                found.add("inf")
    return frozenset(found)
