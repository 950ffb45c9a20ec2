"""Drawn cases, planted predicates and made-up traces for tests of edits, passes and the reducer; nothing here runs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from generators.draw import draw_case
from generators.profile import profile
from harness.minimize.passes import Traces
from harness.model.case import Call, Case
from harness.model.fill import Data, Fill
from harness.model.outcome import NodeTrace
from harness.model.program import Node, Program, TensorSpec
from harness.model.symbols import Sym, Symbol
from harness.model.values import Ref, Tensor, Value, map_leaves, tensor_from_array

Interesting = Callable[[Case], Traces | None]


@cache
def drawn(index: int, kind: str = "default", seed: int = 77) -> Case:
    return draw_case(profile(kind), seed, index)[0]


def all_drawn(count: int = 40) -> Iterator[Case]:
    for index in range(count):
        yield drawn(index)


def made_up_traces(case: Case) -> Traces:
    """Traces in which every operator returns a (2, 3) tensor, as far as edits can tell from one that ran."""
    result = []
    for index in range(len(case.calls)):
        known: dict[str, Value] = dict(case.arguments(index))
        trace: dict[str, NodeTrace] = {}

        def fill(value: Value, known: dict[str, Value] = known) -> Value:
            return map_leaves(value, lambda leaf: known.get(leaf.node, leaf) if isinstance(leaf, Ref) else leaf)

        for number, node in enumerate(case.program.operators):
            output = tensor_from_array(np.full((2, 3), number, dtype=np.float32), "float32")
            trace[node.name] = NodeTrace(node.name, fill(node.args), fill(dict(node.kwargs)), output)
            known[node.name] = output
        result.append(trace)
    return tuple(result)


def always(case: Case) -> Traces:
    return made_up_traces(case)


def holds(predicate: Callable[[Case], bool]) -> Interesting:
    """What the reducer asks for, from a yes or no on the case alone."""
    return lambda case: made_up_traces(case) if predicate(case) else None


def calls_operator(*targets: str) -> Callable[[Case], bool]:
    """Whether every one of these targets is still called by a node that the output needs."""
    return lambda case: set(targets) <= {node.target for node in case.program.operators}


def chain(
    *targets: str,
    dtype: str = "float32",
    shape: tuple[int | Sym, ...] = (4, 5),
    sizes: tuple[int, ...] = (),
    fill: Data | None = None,
    spec: TensorSpec | None = None,
) -> Case:
    """x0 through unary operators, one after another; one call for each of `sizes` of the symbol s0, else one call."""
    nodes = [Node("x0", "placeholder", "x0", role="input", spec=spec if spec is not None else TensorSpec(dtype, shape))]
    for number, target in enumerate(targets):
        nodes.append(Node(f"n{number}", "call_function", target, (Ref(nodes[-1].name),)))
    nodes.append(Node("output", "output", "output", (Ref(nodes[-1].name),)))
    data = {"x0": fill if fill is not None else Fill("ordinary/1", seed=3)}
    calls = tuple(Call({"s0": size}, data) for size in sizes) or (Call({}, data),)
    case = Case(Program(tuple(nodes)), calls, (Symbol("s0", 0, 64),) if sizes else ())
    case.validate()
    return case


def values_of(case: Case, name: str = "x0", call: int = 0) -> Tensor:
    value = case.arguments(call)[name]
    assert isinstance(value, Tensor)
    return value
