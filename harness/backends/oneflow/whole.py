"""oneflow:eager: the whole program in OneFlow, node after node, its own values flowing on."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from harness.backends.oneflow import session
from harness.backends.oneflow.errors import OneFlowUnsupported
from harness.backends.oneflow.execute import execute
from harness.backends.oneflow.refusals import judge
from harness.backends.oneflow.translate import translate
from harness.backends.oneflow.translate.plan import Expr, Operand, Plan
from harness.backends.oneflow.values import TensorMaker, dtype_name, from_flow
from harness.backends.protocol import Progress
from harness.errors import HarnessError
from harness.model.case import Case
from harness.model.outcome import CallResult, Job, Outcome, Status
from harness.model.program import Node
from harness.model.symbols import Sym, evaluate
from harness.model.values import Ref, Tensor, Value, map_leaves


class _Stopped(Exception):
    """One node did not run."""

    def __init__(self, status: Status, node: str, call: int, message: str) -> None:
        super().__init__(message)
        self.status, self.node, self.call, self.message = status, node, call, message


class WholeBackend:
    """The target `oneflow:eager`."""

    def warm(self) -> None:
        """Map OneFlow's library; importing it here would hang the children."""
        session.map_library()

    def start(self) -> None:
        """Import OneFlow in this worker."""
        session.start_worker()

    def versions(self) -> Mapping[str, str]:
        """OneFlow and numpy."""
        return session.versions()

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        """Run every call, each with fresh inputs, parameters, buffers and modules, as eager does.

        Raises OneFlowUnsupported where gradients are wanted.
        """
        if case.mode != "fwd":
            raise OneFlowUnsupported("untranslated", f"mode {case.mode!r}; only the forward pass is run in OneFlow")
        oneflow = session.import_oneflow()
        progress.stage("run")
        results: list[CallResult] = []
        with oneflow.no_grad():
            for call in range(len(case.calls)):
                try:
                    results.append(_Call(oneflow, case, call, progress).run())
                except _Stopped as stop:
                    return Outcome(
                        job.target,
                        stop.status,
                        stage="run",
                        calls=tuple(results),
                        message=stop.message,
                        node=stop.node,
                        call=stop.call,
                    )
        return Outcome(job.target, Status.OK, stage="run", calls=tuple(results))


class _Call:
    """One call of one program."""

    def __init__(self, oneflow: Any, case: Case, call: int, progress: Progress) -> None:
        self._oneflow = oneflow
        self._case = case
        self._call = call
        self._modules: dict[str, Any] = {}
        self._progress = progress
        self._binding = case.calls[call].binding
        self._values: dict[str, Any] = {}

    def run(self) -> CallResult:
        before = self._bind_placeholders()
        for node in self._case.program.operators:
            self._progress.node(node.name)
            self._values[node.name] = self._run_node(node)
        output = self._checked("output", Plan(None), lambda: from_flow(self._oneflow, self._lookup(self._case.program.output), "output"))
        return CallResult(output, self._mutations(before))

    def _bind_placeholders(self) -> dict[str, bytes]:
        arguments = self._case.arguments(self._call)
        tensors = {name: value for name, value in arguments.items() if isinstance(value, Tensor)}
        maker = TensorMaker(self._oneflow, tensors.values())
        before: dict[str, bytes] = {}
        for node in self._case.program.placeholders:
            value = arguments[node.name]
            if isinstance(value, Tensor):
                made = self._make(node.name, maker, value)
                self._values[node.name] = made
                before[node.name] = made.numpy().tobytes()
            else:
                self._values[node.name] = value
        return before

    def _make(self, name: str, maker: TensorMaker, tensor: Tensor) -> Any:
        try:
            return maker.make(tensor)
        except OneFlowUnsupported as error:
            raise _Stopped(Status.UNSUPPORTED, name, self._call, str(error)) from error

    def _mutations(self, before: Mapping[str, bytes]) -> dict[str, Tensor]:
        found = {}
        for name, data in before.items():
            if self._values[name].numpy().tobytes() != data:
                found[name] = from_flow(self._oneflow, self._values[name], name)
        return found

    def _lookup(self, value: Value) -> Any:
        def leaf(item: Value) -> Any:
            if isinstance(item, Ref):
                return self._values[item.node]
            return evaluate(item, self._binding) if isinstance(item, Sym) else item

        return map_leaves(value, leaf)

    def _run_node(self, node: Node) -> Any:
        self._expect_tensors(node)
        args, kwargs = self._lookup(node.args), self._lookup(dict(node.kwargs))
        if node.op == "call_function" and node.target.startswith("operator.") and not self._needs_oneflow(node, args):
            try:
                return getattr(operator, node.target.removeprefix("operator."))(*args, **kwargs)
            except (TypeError, LookupError) as error:  # OneFlow returned another structure than PyTorch
                raise _Stopped(Status.ERROR, node.name, self._call, f"{type(error).__name__}: {error}") from error
        operands: dict[str, Any] = {}
        try:
            plan = self._plan(node, args, kwargs, operands)
        except OneFlowUnsupported as error:
            raise _Stopped(Status.UNSUPPORTED, node.name, self._call, str(error)) from error
        return self._checked(node.name, plan, lambda: self._execute(node, plan, operands))

    def _expect_tensors(self, node: Node) -> None:
        for name in node.inputs():
            if self._values[name] is None:
                raise _Stopped(Status.ERROR, name, self._call, f"returned None, and {node.name} reads it")

    def _needs_oneflow(self, node: Node, args: tuple[Any, ...]) -> bool:
        if node.target == "operator.getitem":
            return isinstance(args[0], self._oneflow.Tensor)
        return any(isinstance(item, self._oneflow.Tensor) for item in args)

    def _plan(self, node: Node, args: Any, kwargs: Any, operands: dict[str, Any]) -> Plan:
        converted = tuple(self._operands(item, operands) for item in args)
        named = {key: self._operands(item, operands) for key, item in kwargs.items()}
        if node.op != "call_module":
            return translate(node, converted, named)
        state = {}
        if node.target not in self._modules:
            tensors = self._case.module_state(node.target)
            maker = TensorMaker(self._oneflow, tensors.values())
            for name, tensor in tensors.items():
                operand = Operand(f"state_{name.replace('.', '_')}", tensor.dtype, tensor.shape)
                state[name] = operand
                operands[operand.name] = maker.make(tensor)
        return translate(node, converted, named, recipe=self._case.program.modules[node.target], state=state)

    def _operands(self, value: Any, operands: dict[str, Any]) -> Expr:
        if isinstance(value, self._oneflow.Tensor):
            name = f"t{len(operands)}"
            operands[name] = value
            return Operand(name, dtype_name(value.dtype, name), tuple(int(size) for size in value.shape))
        if isinstance(value, self._oneflow.Size):
            return tuple(int(size) for size in value)
        if isinstance(value, tuple):
            return tuple(self._operands(item, operands) for item in value)
        if isinstance(value, list):
            return [self._operands(item, operands) for item in value]
        if isinstance(value, dict):
            return {key: self._operands(item, operands) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(*(self._operands(part, operands) for part in (value.start, value.stop, value.step)))
        return value

    def _execute(self, node: Node, plan: Plan, operands: Mapping[str, Any]) -> Any:
        if node.op != "call_module":
            value = execute(plan, operands)
        else:
            if node.target not in self._modules:
                self._modules[node.target] = execute(Plan(plan.result.args[0], plan.steps), operands)
            value = execute(Plan(plan.result), {**operands, "module": self._modules[node.target]})
        session.synchronize(self._oneflow)
        return value

    def _checked(self, name: str, plan: Plan, action: Any) -> Any:
        try:
            return action()
        except HarnessError:
            raise
        except Exception as error:
            status, message = judge(error, plan)
            raise _Stopped(status, name, self._call, message) from error
