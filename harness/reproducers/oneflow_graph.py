"""repro.py for OneFlow's graphs: a bare script with the program as an nn.Module, compiled as nn.Graph."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from harness.backends.oneflow.errors import OneFlowUnsupported
from harness.backends.oneflow.graph import ROUND_TRIP, SWITCHES, chosen
from harness.backends.oneflow.operands import state_operands
from harness.backends.oneflow.translate.plan import Expr, Local, Operand, map_expr, render
from harness.backends.oneflow.translated import NodeRefused, Translated, translated
from harness.errors import Unsupported
from harness.model.case import Case
from harness.model.outcome import Outcome
from harness.model.values import Tensor, Value
from harness.model.verdict import Kind, Verdict
from harness.reproducers.check import DECLARED_KINDS
from harness.reproducers.literals import ONEFLOW, array_source
from harness.reproducers.oneflow import Script, assemble, mutated, traces_of_call

TARGETS = ("oneflow:graph", "oneflow:graph-mlir")

_GRAPH = """\
class Graph(oneflow.nn.Graph):
    def __init__(self, program):
        super().__init__()
        self.program = program

    def build(self, *inputs):
        return self.program(*inputs)
"""


def repro_source(
    case: Case, verdict: Verdict, reference: Outcome, *, options: Mapping[str, str], timeout: float = 60.0, note: str = ""
) -> str:
    """repro.py: exits 1 while the bug exists, 0 once it is fixed, 2 if it cannot run.

    `options` are the target's. Raises Unsupported where a node has no translation, where the reference's traces were not
    kept, and for types that are declared and not kept.
    """
    if verdict.kind in DECLARED_KINDS:
        raise Unsupported("a script would have to look into OneFlow's graph for what it declares")
    call = verdict.call or 0
    traces = traces_of_call(case, reference, call)
    try:
        source = translated(case, call, tuple(traces.values()))
        middle, inputs = _module(case, call, source)
    except (NodeRefused, OneFlowUnsupported) as error:
        raise Unsupported(f"a node has no translation to OneFlow: {error}") from error
    expected: Value = reference.calls[call].output if reference.calls else None
    lines = ["program = Program().eval()", f"output = Graph(program)({', '.join(inputs)})"]
    if verdict.kind is Kind.MUTATION:
        output, expected = mutated(case, reference, verdict, call)
        lines.append("oneflow._oneflow_internal.eager.Sync()")
        name = output.node
        lines.append(f"return [{name if name in inputs else f'program.{name}'}]")
    else:
        lines.append("return output")
    compute = "\n".join(["def compute():", *(f"    {line}" for line in lines)])
    variables = _variables(verdict.target, options)
    return assemble(f"{middle}\n\n\n{compute}", expected, verdict, calls=1, timeout=timeout, note=note, variables=variables)


def _variables(name: str, options: Mapping[str, str]) -> tuple[str, ...]:
    """What has to be in the environment for the passes that ran."""
    if not name.startswith("oneflow:graph-mlir"):
        return ()
    return (ROUND_TRIP, *(SWITCHES[switch].variable for switch in chosen(options.get("passes", ""))))


def _module(case: Case, call: int, source: Translated) -> tuple[str, tuple[str, ...]]:
    """Tensors, the module and the graph as statements, and the names of the inputs."""
    script = Script(case, {}, ())
    values = case.arguments(call)
    for name in (*source.inputs, *source.state.values()):
        _make(script, name, values[name])
    for name, tensor in source.literals.items():
        script.make(name, tensor)
    roles = {node.name: node.role for node in case.program.placeholders}
    init = ["super().__init__()"]
    for attribute, name in source.state.items():
        kept = f"oneflow.nn.Parameter({name}, requires_grad=False)" if roles[name] == "parameter" else name
        init.append(f"self.{attribute} = {kept}" if roles[name] == "parameter" else f'self.register_buffer("{attribute}", {name})')
    init += [f'self.register_buffer("{name}", {name})' for name in source.literals]
    for attribute, (target, plan) in source.modules.items():
        state = case.module_state(target)
        _, sources = state_operands(state, target)
        names = {operand: f"{attribute}_{operand}" for operand in sources}
        for operand, each in sources.items():
            script.make(names[operand], each.tensor)

        def leaf(expr: Expr, names: Mapping[str, str] = names) -> Expr:
            return Local(names[expr.name]) if isinstance(expr, Operand) else expr

        init += [f"{name} = {text}" if name else text for name, text in ((n, render(map_expr(step, leaf))) for n, step in plan.steps)]
        init.append(f"self.{attribute} = module")
    body = ["class Program(oneflow.nn.Module):", "    def __init__(self):", *(f"        {line}" for line in init), ""]
    body.append(textwrap.indent(source.text.rstrip("\n"), "    "))
    return "\n".join([*script.tensors, "", "", *body, "", "", _GRAPH.rstrip("\n")]), source.inputs


def _make(script: Script, name: str, tensor: Tensor) -> None:
    """A tensor; an expanded one is expanded by OneFlow, as the target does it."""
    if tensor.storage is not None or tensor.strides is None or 0 not in tensor.strides or 0 in tensor.shape:
        script.make(name, tensor)
        return
    few = tensor.array()[tuple(slice(0, 1) if step == 0 else slice(None) for step in tensor.strides)]
    order = sorted(range(few.ndim), key=lambda dim: -tensor.strides[dim])  # type: ignore[index]
    back = tuple(order.index(dim) for dim in range(few.ndim))
    head = f"{name} = "
    made = array_source(few.transpose(order), tensor.dtype, style=ONEFLOW, indent=" " * len(head))
    permuted = f".permute{back!r}" if list(order) != sorted(order) else ""
    script.tensors += f"{head}{made}{permuted}.expand{tensor.shape!r}".split("\n")
