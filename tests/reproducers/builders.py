"""Small cases and what eager gives for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from harness.model.case import Call, Case
from harness.model.dtypes import DTYPES
from harness.model.fill import Data, Fill, Literal
from harness.model.outcome import CallResult, Outcome, Status
from harness.model.program import ModuleRecipe, Node, Program, TensorSpec
from harness.model.symbols import Sym
from harness.model.values import Ref
from harness.torch_bridge.module import build
from harness.torch_bridge.tensors import from_torch

Build = Callable[..., Case]


def data(values: Any, dtype: str = "float32") -> Literal:
    return Literal(np.asarray(values, np.dtype(DTYPES[dtype].carrier)).tobytes())


def placeholder(name: str, dtype: str, shape: tuple[int | Sym, ...], role: str = "input", **spec: Any) -> Node:
    return Node(name, "placeholder", name, role=role, fqn=name, spec=TensorSpec(dtype, shape, **spec))


def make_case(
    nodes: list[Node],
    output: Any,
    inputs: Mapping[str, Data] | list[Call],
    *,
    state: Mapping[str, Data] | None = None,
    modules: Mapping[str, ModuleRecipe] | None = None,
    **more: Any,
) -> Case:
    """A case whose output is `output`; `inputs` is the data of its one call, or all its calls."""
    program = Program((*nodes, Node("output", "output", "output", (output,))), modules or {})
    calls = tuple(inputs) if isinstance(inputs, list) else (Call(data=inputs),)
    case = Case(program, calls, state=state or {}, **more)
    case.validate()
    return case


def roll_case(shift: int) -> Case:
    x = placeholder("x0", "float32", (2, 3))
    return make_case([x, Node("roll_1", "call_function", "torch.roll", (Ref("x0"), shift, 1))], Ref("roll_1"), {"x0": Fill("ordinary/1")})


def eager(case: Case) -> Outcome:
    """What eager gives, without the machinery of workers."""
    built = build(case)
    with torch.no_grad():
        calls = tuple(CallResult(from_torch(built.module(*built.inputs(index)))) for index in range(len(case.calls)))
    return Outcome("eager", Status.OK, calls=calls)
