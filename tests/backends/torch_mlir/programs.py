"""Small programs, written in a line or two each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.model.case import Call, Case
from harness.model.fill import Data, Fill
from harness.model.program import Node, Program, TensorSpec
from harness.model.symbols import Dim, Sym, Symbol
from harness.model.values import Ref, Value

F = "torch.nn.functional."


class Draft:
    """A program under construction; every method returns the Ref of the node it adds."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.inputs: dict[str, Data] = {}
        self.state: dict[str, Data] = {}

    def tensor(self, dtype: str, shape: Sequence[Dim], *, role: str = "input", fill: Data | None = None, **layout: Any) -> Ref:
        name = f"{role[0]}{len(self.nodes)}"
        self.nodes.append(Node(name, "placeholder", name, role=role, spec=TensorSpec(dtype, tuple(shape), **layout)))
        storage = layout.get("storage") or name
        (self.inputs if role == "input" else self.state).setdefault(storage, fill or Fill("exact/1", len(self.nodes)))
        return Ref(name)

    def call(self, target: str, *args: Value, **kwargs: Value) -> Ref:
        name = f"{target.split('.')[-1]}_{len(self.nodes)}"
        self.nodes.append(Node(name, "call_function" if "." in target else "call_method", target, args, kwargs))
        return Ref(name)

    def case(self, output: Value, *, bindings: Sequence[Mapping[str, int]] = ({},)) -> Case:
        program = Program((*self.nodes, Node("output", "output", "output", (output,))))
        symbols = tuple(Symbol(name) for name in sorted(program.symbols()))
        case = Case(program, tuple(Call(dict(binding), self.inputs) for binding in bindings), symbols, self.state, lane="exact")
        case.validate()
        return case


def one(target: str, *shapes: Sequence[Dim], dtype: str = "float32", args: tuple[Value, ...] = (), **kwargs: Value) -> Case:
    """One operator on inputs of these shapes, then `args`."""
    draft = Draft()
    inputs = [draft.tensor(dtype, shape) for shape in shapes]
    return draft.case(draft.call(target, *inputs, *args, **kwargs))


def symbolic(target: str, *shapes: Sequence[Dim], sizes: Sequence[int] = (2, 3), args: tuple[Value, ...] = (), **kwargs: Value) -> Case:
    """The same, called once for each size of `s0`."""
    draft = Draft()
    inputs = [draft.tensor("float32", shape) for shape in shapes]
    return draft.case(draft.call(target, *inputs, *args, **kwargs), bindings=[{"s0": size} for size in sizes])


S0 = Sym("s0")
