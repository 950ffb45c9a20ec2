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


def executed() -> tuple[Case, ...]:
    """Programs to run all the way: a static one and one with a symbolic size."""
    return _linear(2), _linear(Sym("s0"))


def imported() -> tuple[Case, ...]:
    """Programs to import only, each for a part of tracing that loads modules of its own: writes, sizes from data, decompositions."""
    write = Node("add__1", "call_method", "add_", (Ref("x0"), 1.0))
    mask = Node("isnan_1", "call_function", "torch.isnan", (Ref("x0"),))
    masked = Node("getitem_2", "call_function", "operator.getitem", (Ref("x0"), Ref("isnan_1")))
    norm = Node("norm_1", "call_function", "torch.nn.functional.layer_norm", (Ref("x0"), (3,)))
    softmax = Node("softmax_2", "call_function", "torch.softmax", (Ref("norm_1"), 1))
    return _unary(write), _unary(mask, masked), _unary(norm, softmax)


def _unary(*nodes: Node) -> Case:
    x0 = Node("x0", "placeholder", "x0", role="input", spec=TensorSpec("float32", (2, 3)))
    output = Node("output", "output", "output", (Ref(nodes[-1].name),))
    return Case(Program((x0, *nodes, output)), (Call({}, {"x0": Fill("exact/1")}),))


def _linear(rows: int | Sym) -> Case:
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
