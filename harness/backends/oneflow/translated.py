"""One call of a program as an `oneflow.nn.Module`, written out as source: what nn.Graph and onefx take.

Sizes and dtypes come from the reference's trace, so that nothing runs in OneFlow before the way under test does.
"""

from __future__ import annotations

import operator
import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.backends.oneflow.errors import OneFlowUnsupported
from harness.backends.oneflow.execute import execute
from harness.backends.oneflow.operands import Source, arguments, is_structural, state_operands
from harness.backends.oneflow.translate import translate
from harness.backends.oneflow.translate.plan import Expr, FlowDType, Invocation, Local, Operand, Plan, map_expr, render
from harness.backends.oneflow.values import TensorMaker
from harness.errors import HarnessError
from harness.model.case import Case
from harness.model.outcome import NodeTrace
from harness.model.program import Node
from harness.model.symbols import Sym, evaluate
from harness.model.values import Device, DType, Layout, MemoryFormat, Ref, Tensor, Value, map_leaves

FILE_NAME = "<translated program>"
_STATE_ROLES = ("parameter", "buffer", "constant")


class NodeRefused(Exception):
    """OneFlow does not offer what one node asks for."""

    def __init__(self, node: str, error: OneFlowUnsupported) -> None:
        super().__init__(str(error))
        self.node = node


@dataclass(frozen=True, slots=True)
class Translated:
    """The source of a `forward`, and what its module must hold.

    `inputs` are the arguments of `forward`; `state` maps attributes to placeholders, `literals` to tensors, `modules` to the
    plan that builds them. `lines` tells the node of each line of `text`.
    """

    text: str
    inputs: tuple[str, ...]
    state: Mapping[str, str] = field(default_factory=dict)
    literals: Mapping[str, Tensor] = field(default_factory=dict)
    modules: Mapping[str, tuple[str, Plan]] = field(default_factory=dict)
    lines: Mapping[int, str] = field(default_factory=dict)
    plans: Mapping[str, Plan] = field(default_factory=dict)

    def node_of(self, error: BaseException) -> str | None:
        """The node whose line raised an exception."""
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE_NAME]
        return self.lines.get(frames[-1].lineno or 0) if frames else None


def translated(case: Case, call: int, trace: tuple[NodeTrace, ...]) -> Translated:
    """The source of one call; raises NodeRefused where a node has no translation."""
    return _Writer(case, call, {entry.name: entry for entry in trace}).write()


def build(oneflow: Any, case: Case, call: int, source: Translated) -> tuple[Any, dict[str, Any]]:
    """The module, and every tensor that a placeholder stands for, by name.

    Raises NodeRefused for a dtype that OneFlow does not have; OneFlow's own errors pass through.
    """
    values = case.arguments(call)
    tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    maker = TensorMaker(oneflow, tensors.values(), expand=True)
    made = {name: _made(maker, name, tensor) for name, tensor in tensors.items()}
    namespace: dict[str, Any] = {"oneflow": oneflow, "operator": operator}
    exec(compile(source.text, FILE_NAME, "exec"), namespace)
    module = type("Program", (oneflow.nn.Module,), {"forward": namespace["forward"]})()
    roles = {node.name: node.role for node in case.program.placeholders}
    for attribute, name in source.state.items():
        if roles[name] == "parameter":
            # Parameters of integers exist in captured programs; they can have no gradient.
            made[name] = oneflow.nn.Parameter(made[name], requires_grad=False)
            module.register_parameter(attribute, made[name])
        else:
            module.register_buffer(attribute, made[name])
    for attribute, tensor in source.literals.items():
        module.register_buffer(attribute, maker.make(tensor))
    for attribute, (target, plan) in source.modules.items():
        state, sources = state_operands(case.module_state(target), target)
        operands = {operand.name: maker.make(sources[operand.name].tensor) for operand in state.values()}
        module.add_module(attribute, execute(plan, operands))
    module.eval()
    for attribute, (target, _) in source.modules.items():
        getattr(module, attribute).train(case.program.modules[target].training)
    return module, made


def _made(maker: TensorMaker, name: str, tensor: Tensor) -> Any:
    try:
        return maker.make(tensor)
    except OneFlowUnsupported as error:
        raise NodeRefused(name, error) from error


class _Writer:
    """Writes the statements of one call, node after node."""

    def __init__(self, case: Case, call: int, traces: Mapping[str, NodeTrace]) -> None:
        self._case = case
        self._binding = case.calls[call].binding
        self._values = case.arguments(call)
        self._traces = traces
        self._statements: list[tuple[str, str]] = []
        self._literals: dict[str, Tensor] = {}
        self._modules: dict[str, tuple[str, Plan]] = {}
        self._attributes: dict[str, str] = {}  # of modules, by target
        self._plans: dict[str, Plan] = {}
        self._taken = {node.name for node in case.program}

    def write(self) -> Translated:
        program = self._case.program
        inputs: list[str] = []
        state: dict[str, str] = {}
        for node in program.placeholders:
            value = self._values[node.name]
            if not isinstance(value, Tensor):
                self._statements.append((node.name, f"{node.name} = {value!r}"))
            elif node.role in _STATE_ROLES:
                state[node.name] = node.name
                self._statements.append((node.name, f"{node.name} = self.{node.name}"))
            else:
                inputs.append(node.name)
        for node in program.operators:
            try:
                self._node(node)
            except OneFlowUnsupported as error:
                raise NodeRefused(node.name, error) from error
        self._statements.append(("output", f"return {render(map_leaves(program.output, self._leaf))}"))
        head = f"def forward({', '.join(['self', *inputs])}):"
        text = "\n".join([head, *(f"    {statement}" for _, statement in self._statements)]) + "\n"
        lines = {number: name for number, (name, _) in enumerate(self._statements, start=2)}
        return Translated(text, tuple(inputs), state, self._literals, self._modules, lines, self._plans)

    def _node(self, node: Node) -> None:
        trace = self._traces.get(node.name)
        if trace is None:
            raise HarnessError(f"eager left no trace of node {node.name!r}")
        if is_structural(node, trace):
            args = tuple(map_leaves(item, self._leaf) for item in node.args)
            self._plans[node.name] = Plan(Invocation(node.target, args))
            self._statements.append((node.name, f"{node.name} = {render(self._plans[node.name].result)}"))
            return
        bound = arguments(node, trace.args, trace.kwargs)
        if node.op != "call_module":
            plan = translate(node, bound.args, bound.kwargs)
        else:
            recipe = self._case.program.modules[node.target]
            state, _ = state_operands(self._case.module_state(node.target), node.target)
            plan = translate(node, bound.args, bound.kwargs, recipe=recipe, state=state)
            attribute = self._attribute(node.target)
            self._modules.setdefault(attribute, (node.target, Plan(Local("module"), plan.steps)))
        self._plans[node.name] = plan
        texts = {name: self._source_text(node, source) for name, source in bound.sources.items()}

        def leaf(expr: Expr) -> Expr:
            if isinstance(expr, Operand):
                return Local(texts[expr.name])
            if isinstance(expr, Local):
                return Local(f"self.{self._attribute(node.target)}" if node.op == "call_module" else self._local(node, expr.name))
            return expr

        if node.op != "call_module":
            for name, step in plan.steps:
                text = render(map_expr(step, leaf))
                self._statements.append((node.name, f"{self._local(node, name)} = {text}" if name else text))
        self._statements.append((node.name, f"{node.name} = {render(map_expr(plan.result, leaf))}"))

    def _source_text(self, node: Node, source: Source) -> str:
        """An operand as an expression: a node's result or a part of it, or a literal that the module holds."""
        if source.node in {each.name for each in self._case.program}:
            return source.node + "".join(f"[{step!r}]" for step in source.path)
        attribute = self._fresh(f"{node.name}_{source.node}")
        self._literals[attribute] = source.tensor
        return f"self.{attribute}"

    def _attribute(self, target: str) -> str:
        if target not in self._attributes:
            self._attributes[target] = self._fresh(re.sub(r"\W", "_", target))
        return self._attributes[target]

    def _local(self, node: Node, name: str) -> str:
        return f"{node.name}__{name}"

    def _fresh(self, name: str) -> str:
        while name in self._taken or not name.isidentifier():
            name = f"{name}_" if name.isidentifier() else f"m_{name}"
        self._taken.add(name)
        return name

    def _leaf(self, leaf: Value) -> Expr:
        if isinstance(leaf, Ref):
            return Local(leaf.node)
        if isinstance(leaf, Sym):
            return evaluate(leaf, self._binding)
        if isinstance(leaf, DType):
            return FlowDType(leaf.name)
        if isinstance(leaf, Device | Layout | MemoryFormat):
            return leaf.name
        if isinstance(leaf, complex):
            raise OneFlowUnsupported("dtype", "OneFlow 0.9.0 has no complex scalars")
        return leaf
