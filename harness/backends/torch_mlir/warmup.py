"""Tiny programs that exercise the whole path once, so that a forked worker finds every library warm."""

from __future__ import annotations

from harness.model.case import Call, Case
from harness.model.fill import Fill
from harness.model.program import Node, Program, TensorSpec
from harness.model.symbols import Sym, Symbol
from harness.model.values import Ref


class _Silent:
    def stage(self, name: str) -> None:
        """Say nothing."""

    def node(self, name: str) -> None:
        """Say nothing."""


SILENT = _Silent()


def cases() -> tuple[Case, ...]:
    """A static program and one with a symbolic size."""
    return _case(2), _case(Sym("s0"))


def _case(rows: int | Sym) -> Case:
    nodes = (
        Node("x0", "placeholder", "x0", role="input", spec=TensorSpec("float32", (rows, 3))),
        Node("p0", "placeholder", "p0", role="parameter", spec=TensorSpec("float32", (3, 3))),
        Node("linear_1", "call_function", "torch.nn.functional.linear", (Ref("x0"), Ref("p0"))),
        Node("relu_2", "call_function", "torch.relu", (Ref("linear_1"),)),
        Node("sum_3", "call_method", "sum", (Ref("relu_2"), 1)),
        Node("output", "output", "output", ((Ref("relu_2"), Ref("sum_3")),)),
    )
    symbols = (Symbol("s0", 1, 8),) if isinstance(rows, Sym) else ()
    calls = tuple(Call({"s0": size} if symbols else {}, {"x0": Fill("exact/1")}) for size in ((2, 3) if symbols else (2,)))
    return Case(Program(nodes), calls, symbols, {"p0": Fill("exact/1", 1)})
