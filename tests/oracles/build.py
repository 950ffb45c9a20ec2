"""Cases and their reference outcomes, computed by numpy: what eager would leave behind, traces included."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.model.case import Call, Case
from harness.model.dtypes import DTYPES, narrow, widen
from harness.model.fill import Literal
from harness.model.outcome import CallResult, NodeResult, NodeTrace, Outcome, Status, Witness
from harness.model.program import Node, Program, TensorSpec
from harness.model.values import Ref, Tensor, map_leaves, tensor_from_array

TARGET = "other"


def tensor(values: Any, dtype: str = "float32") -> Tensor:
    """A tensor of `dtype` that holds `values`, rounded."""
    return tensor_from_array(narrow(np.asarray(values), dtype), dtype)


def numbers(value: Tensor) -> Any:
    """The numbers of a tensor, in a dtype that numpy computes with."""
    return widen(value.array(), value.dtype)


@dataclass(frozen=True)
class Step:
    """One node: its operator, how numpy computes it from arrays, and its arguments."""

    target: str
    compute: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] | None = None
    dtype: str | None = None
    op: str = "call_function"


def build(
    inputs: Mapping[str, Tensor], steps: Mapping[str, Step], output: Any, *, lane: str = "ordinary", wide: bool = False
) -> tuple[Case, Outcome]:
    """A one-call case and its reference; `wide` adds the float64 twin."""
    nodes = [Node(name, "placeholder", name, role="input", spec=TensorSpec(each.dtype, each.shape)) for name, each in inputs.items()]
    nodes += [Node(name, step.op, step.target, step.args, step.kwargs or {}) for name, step in steps.items()]
    nodes.append(Node("output", "output", "output", (output,)))
    data = {name: each.data if isinstance(each.data, Literal) else tensor(numbers(each), each.dtype).data for name, each in inputs.items()}
    case = Case(Program(tuple(nodes)), (Call(data=data),), lane=lane)
    case.validate()
    env: dict[str, Any] = dict(inputs)
    traces = []
    for name, step in steps.items():
        args, kwargs = _filled(step.args, env), _filled(dict(step.kwargs or {}), env)
        env[name] = _compute(step, args)
        traces.append(NodeTrace(name, args, kwargs, env[name]))
    twin = None
    if wide:
        widened = {name: tensor(numbers(each), "float64") if DTYPES[each.dtype].mantissa else each for name, each in inputs.items()}
        env64: dict[str, Any] = dict(widened)
        for name, step in steps.items():
            env64[name] = _compute(replace(step, dtype=None), _filled(step.args, env64))
        twin = _filled(output, env64)
    witness = Witness(tuple(traces), twin)
    return case, Outcome("eager", Status.OK, "run", (CallResult(_filled(output, env)),), witness=(witness,))


def _filled(value: Any, env: Mapping[str, Any]) -> Any:
    return map_leaves(value, lambda leaf: env[leaf.node] if isinstance(leaf, Ref) else leaf)


def _compute(step: Step, args: Any) -> Any:
    with np.errstate(all="ignore"):
        result = step.compute(*map_leaves(args, lambda leaf: numbers(leaf) if isinstance(leaf, Tensor) else leaf))
    dtype = step.dtype or next((leaf.dtype for leaf in args if isinstance(leaf, Tensor)), "float32")
    return map_leaves(result, lambda leaf: _wrapped(leaf, dtype) if isinstance(leaf, np.ndarray | np.generic) else leaf)


def _wrapped(array: Any, dtype: str) -> Tensor:
    if array.dtype.kind == "f" or (array.dtype.kind in "iu" and dtype in ("int8", "uint8", "int32", "bfloat16")):
        return tensor(array, dtype)
    return tensor(array, {"b": "bool", "i": "int64", "u": "uint8", "c": "complex64"}[array.dtype.kind])


def observed(reference: Outcome, output: Any, **changes: Any) -> Outcome:
    """What a target gave that differs from the reference in its output alone."""
    return Outcome(TARGET, Status.OK, "run", (CallResult(output),), **changes)


def lockstep(reference: Outcome, **wrong: Any) -> Outcome:
    """A lockstep run that is right but for the nodes named."""
    results = [
        NodeResult(trace.name, call, Status.OK, wrong.get(trace.name, trace.output))
        for call, witness in enumerate(reference.witness)
        for trace in witness.trace
    ]
    return Outcome(TARGET, Status.OK, "run", nodes=tuple(results))


def one(
    target: str, compute: Callable[..., Any], *args: Any, wide: bool = False, kwargs: Any = None, **options: Any
) -> tuple[Case, Outcome]:
    """A case of one node over the tensors among `args`."""
    inputs = {f"x{i}": arg for i, arg in enumerate(args) if isinstance(arg, Tensor)}
    given = tuple(Ref(f"x{i}") if isinstance(arg, Tensor) else arg for i, arg in enumerate(args))
    return build(inputs, {"node_0": Step(target, compute, given, kwargs, **options)}, Ref("node_0"), wide=wide)


def with_spread(reference: Outcome, spread: Any) -> Outcome:
    """The reference with a measured spread of its output."""
    witness = replace(reference.witness[0], spread=spread)
    return replace(reference, witness=(witness,))


def nudged(value: Tensor, index: tuple[int, ...], by: float) -> Tensor:
    """`value` with `by` added to one element."""
    array = np.array(numbers(value), dtype=np.float64)
    array[index] += by
    return tensor(array, value.dtype)
