"""Bare OneFlow source for one node: the same translation that ran, printed."""

from __future__ import annotations

from collections.abc import Sequence

from harness.backends.oneflow.errors import OneFlowUnsupported
from harness.backends.oneflow.operands import Source, arguments, is_structural, state_operands
from harness.backends.oneflow.translate import FLOW_DTYPES, translate
from harness.backends.oneflow.translate.plan import render, render_plan
from harness.model.case import Case
from harness.model.dtypes import widen
from harness.model.outcome import NodeTrace
from harness.model.program import Node
from harness.model.values import Ref, Tensor, contiguous_strides, storage_size


def render_call(node: Node, trace: NodeTrace, *, case: Case | None = None, result: str = "result") -> str:
    """Lines of source that need `import oneflow` and the tensors of `call_tensors` by name, and leave the value in `result`.

    `case` supplies the recipe and state of a call_module. Raises OneFlowUnsupported where the node has no translation.
    """
    bound = arguments(node, trace.args, trace.kwargs)
    if node.op != "call_module":
        return render_plan(translate(node, bound.args, bound.kwargs), result)
    if case is None:
        raise ValueError(f"node {node.name!r} calls a module, whose recipe is in the case")
    state, _ = state_operands(case.module_state(node.target), node.target)
    recipe = case.program.modules[node.target]
    return render_plan(translate(node, bound.args, bound.kwargs, recipe=recipe, state=state), result)


def call_tensors(node: Node, trace: NodeTrace, *, case: Case | None = None) -> dict[str, Source]:
    """The tensors that `render_call` mentions, by variable name, with their values."""
    sources = dict(arguments(node, trace.args, trace.kwargs).sources)
    if node.op == "call_module" and case is not None:
        sources.update(state_operands(case.module_state(node.target), node.target)[1])
    return sources


def render_unit(case: Case, traces: Sequence[NodeTrace]) -> tuple[dict[str, Source], str]:
    """Source for nodes that share storage, in order, each leaving its value in a variable of its name; and the tensors from outside.

    Raises OneFlowUnsupported where a node has no translation.
    """
    outside: dict[str, Source] = {}
    lines: list[str] = []
    done: set[str] = set()
    for trace in traces:
        node = case.program.node(trace.name)
        if is_structural(node, trace):
            if isinstance(node.args[0], Ref) and node.args[0].node in done:
                lines.append(f"{node.name} = {node.args[0].node}[{trace.args[1]!r}]")
                done.add(node.name)
            continue
        for name, source in call_tensors(node, trace, case=case).items():
            if source.node not in done:
                outside.setdefault(name, source)
            elif source.path:
                lines.append(f"{name} = {source.node}{''.join(f'[{step!r}]' for step in source.path)}")
        lines.append(render_call(node, trace, case=case, result=node.name))
        done.add(node.name)
    return outside, "\n".join(lines)


def render_tensor(name: str, tensor: Tensor) -> str:
    """A line of source that makes a tensor with its values, dtype and strides in the variable `name`, out of numbers alone.

    Raises OneFlowUnsupported for a dtype that OneFlow does not have.
    """
    if tensor.dtype not in FLOW_DTYPES:
        raise OneFlowUnsupported("dtype", f"OneFlow 0.9.0 has no dtype {tensor.dtype}")
    dtype = f"oneflow.{FLOW_DTYPES[tensor.dtype]}"
    strides = tensor.strides
    # OneFlow cannot take strided bfloat16 from outside, so values.TensorMaker makes it contiguous, and so does this.
    if strides is None or strides == contiguous_strides(tensor.shape) or tensor.dtype == "bfloat16":
        numbers = widen(tensor.array(), tensor.dtype).tolist()
        return f"{name} = oneflow.tensor({_numbers(numbers)}, dtype={dtype})"
    size = storage_size(tensor.shape, strides, 0)
    elements = Tensor(tensor.dtype, (size,), tensor.data, (1,), tensor.offset).array().tolist()
    return f"{name} = oneflow.tensor({_numbers(elements)}, dtype={dtype}).as_strided({tensor.shape!r}, {strides!r})"


def _numbers(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_numbers(item) for item in value) + "]"
    return render(value)
