"""Bare OneFlow source for one node: the same translation that ran, printed."""

from __future__ import annotations

from harness.backends.oneflow.operands import Source, arguments, state_operands
from harness.backends.oneflow.translate import translate
from harness.backends.oneflow.translate.plan import render_plan
from harness.model.case import Case
from harness.model.outcome import NodeTrace
from harness.model.program import Node


def render_call(node: Node, trace: NodeTrace, *, case: Case | None = None, result: str = "result") -> str:
    """Lines of source that need `import oneflow` and the tensors of `call_tensors` by name, and leave the value in `result`.

    `case` supplies the recipe and state of a call_module. Raises OneFlowUnsupported where the node has no translation.
    """
    bound = arguments(node, trace.args, trace.kwargs)
    if node.op != "call_module":
        return render_plan(translate(node, bound.args, bound.kwargs), result)
    if case is None:
        raise ValueError(f"node {node.name!r} calls a module, whose recipe is in the case")
    state, _ = state_operands(case.module_state(node.target))
    recipe = case.program.modules[node.target]
    return render_plan(translate(node, bound.args, bound.kwargs, recipe=recipe, state=state), result)


def call_tensors(node: Node, trace: NodeTrace, *, case: Case | None = None) -> dict[str, Source]:
    """The tensors that `render_call` mentions, by variable name, with their values."""
    sources = dict(arguments(node, trace.args, trace.kwargs).sources)
    if node.op == "call_module" and case is not None:
        sources.update(state_operands(case.module_state(node.target))[1])
    return sources
