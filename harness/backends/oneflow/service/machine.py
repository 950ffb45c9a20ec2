"""Programs in OneFlow, called again and again: forward with OneFlow's own autograd, and backward through what it kept."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.backends.oneflow import session
from harness.backends.oneflow.errors import OneFlowUnsupported
from harness.backends.oneflow.execute import execute
from harness.backends.oneflow.refusals import judge
from harness.backends.oneflow.service.messages import BACKWARD, flat
from harness.backends.oneflow.translate import translate
from harness.backends.oneflow.translate.plan import Expr, Operand, Plan
from harness.backends.oneflow.values import dtype_name
from harness.backends.protocol import Progress
from harness.errors import FxdiffError
from harness.model.outcome import Status
from harness.model.program import Node, Program
from harness.model.values import DType, Ref, Value, map_leaves

_NO_GRADIENT = "The gradient function for op"  # "... index_add is not found": OneFlow's own word that it has no derivative


class NodeStopped(FxdiffError):
    """A node did not run: `refused` where OneFlow says that it does not do this, else it failed."""

    def __init__(self, node: str, message: str, *, refused: bool, backward: bool = False) -> None:
        super().__init__(message)
        self.node, self.refused, self.backward = node, refused, backward


@dataclass(frozen=True, slots=True)
class Result:
    """What a call computed: its outputs, the placeholders that it wrote to, and which tensors of the outputs have a gradient."""

    outputs: tuple[Any, ...]
    written: Mapping[str, Any]
    differentiable: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a backward pass needs of a call: the leaves, and the tensors of the outputs, each None where it has no gradient."""

    leaves: tuple[Any, ...]
    outputs: tuple[Any, ...]


class Machine:
    """Holds programs by number, and the graphs of calls whose gradients may still be asked for."""

    def __init__(self, oneflow: Any, progress: Progress) -> None:
        self._oneflow = oneflow
        self._position = _Position(progress)
        self._programs: dict[int, Program] = {}
        self._kept: dict[int, _Kept] = {}

    def load(self, number: int, program: Program) -> None:
        """Take a program; raises FormatError where it is none."""
        program.validate()
        self._programs[number] = program

    def forget(self, programs: Sequence[int], calls: Sequence[int]) -> None:
        """Drop programs and what was kept of calls."""
        for number in programs:
            self._programs.pop(number, None)
        for number in calls:
            self._kept.pop(number, None)

    def call(
        self, number: int, values: Sequence[Any], needs_grad: Sequence[bool], writes: Sequence[str], *, keep: int | None, rehearse: bool
    ) -> Result:
        """Run a program on fresh tensors, one value for each placeholder; `needs_grad` counts tensors among their leaves.

        With `keep`, the graph stays for `backward` under that number, and `rehearse` runs its backward pass once to hear
        what OneFlow refuses. Raises NodeStopped.
        """
        program = self._programs[number]
        leaves = [leaf for leaf in flat(values) if isinstance(leaf, self._oneflow.Tensor)]
        wanted = tuple(leaf if wants else None for leaf, wants in zip(leaves, needs_grad, strict=True))
        with self._oneflow.set_grad_enabled(keep is not None):
            for leaf in wanted:
                if leaf is not None:
                    leaf.requires_grad_(True)
            run = _Run(self._oneflow, self._position, program, values, keep is not None)
            run.operators()
        output = program.output
        outputs = tuple(run.lookup(item) for item in output)
        tensors = [leaf for leaf in flat(outputs) if isinstance(leaf, self._oneflow.Tensor)]
        differentiable = tuple(bool(keep is not None and tensor.requires_grad) for tensor in tensors)
        if keep is not None and any(differentiable):
            self._kept[keep] = _Kept(wanted, tuple(t if has else None for t, has in zip(tensors, differentiable, strict=True)))
            if rehearse:
                self._rehearse(keep)
        return Result(outputs, {name: run.values[name] for name in writes}, differentiable)

    def _rehearse(self, number: int) -> None:
        try:
            self.backward(number, [None if output is None else self._oneflow.ones_like(output) for output in self._kept[number].outputs])
        except NodeStopped:
            del self._kept[number]
            raise

    def backward(self, number: int, grads: Sequence[Any]) -> tuple[Any, ...]:
        """The gradients of the call's tensors, None where none arrives, for these gradients of its outputs' tensors.

        Raises NodeStopped with the node whose derivative OneFlow refused or failed to compute.
        """
        kept = self._kept[number]
        pairs = [(output, grad) for output, grad in zip(kept.outputs, grads, strict=True) if output is not None and grad is not None]
        if pairs:
            self._position.node(f"output{BACKWARD}")
            try:
                # The graph stays: PyTorch's retain_graph is not ours to see, and the call's number is given back when PyTorch's graph goes.
                self._oneflow.autograd.backward([output for output, _ in pairs], [grad for _, grad in pairs], retain_graph=True)
                session.synchronize(self._oneflow)
            except Exception as error:
                raise _stopped(error, Plan(None), self._position.name.removesuffix(BACKWARD), backward=True) from error
        found = tuple(None if leaf is None else leaf.grad for leaf in kept.leaves)
        for leaf in kept.leaves:
            if leaf is not None:
                leaf.grad = None
        return found


class _Position:
    """Where the machine is: said before a node runs, and remembered for its error."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.name = ""

    def node(self, name: str) -> None:
        self.name = name
        self._progress.node(name)


class _Run:
    """One call of one program."""

    def __init__(self, oneflow: Any, position: _Position, program: Program, values: Sequence[Any], grad: bool) -> None:
        self._oneflow = oneflow
        self._position = position
        self._program = program
        self._grad = grad
        self.values = {node.name: value for node, value in zip(program.placeholders, values, strict=True)}

    def operators(self) -> None:
        for node in self._program.operators:
            self._position.node(node.name)
            result = self._node(node)
            self.values[node.name] = result
            if self._grad:
                self._announce(node.name, result)

    def _announce(self, name: str, result: Any) -> None:
        """Name the node whose derivative comes next, once the gradient of its result is there."""
        for leaf in flat(result):
            if isinstance(leaf, self._oneflow.Tensor) and leaf.requires_grad and not leaf.is_leaf:
                leaf.register_hook(_hook(self._oneflow, self._position, name))

    def lookup(self, value: Value) -> Any:
        return map_leaves(value, lambda item: self.values[item.node] if isinstance(item, Ref) else item)

    def _node(self, node: Node) -> Any:
        args, kwargs = self.lookup(node.args), self.lookup(dict(node.kwargs))
        if node.op == "call_function" and not self._is_for_oneflow(node, args):
            return self._python(node, args, kwargs)
        operands: dict[str, Any] = {}
        plan = Plan(None)
        try:
            plan = translate(
                node,
                tuple(self._operands(item, operands) for item in args),
                {key: self._operands(item, operands) for key, item in kwargs.items()},
            )
            value = execute(plan, operands)
            session.synchronize(self._oneflow)
        except OneFlowUnsupported as error:
            raise NodeStopped(node.name, str(error), refused=True) from error
        except Exception as error:
            raise _stopped(error, plan, node.name) from error
        return value

    def _is_for_oneflow(self, node: Node, args: Any) -> bool:
        if node.target == "operator.getitem":
            return isinstance(args[0], self._oneflow.Tensor)
        return not node.target.startswith("operator.") or any(isinstance(item, self._oneflow.Tensor) for item in args)

    def _python(self, node: Node, args: Any, kwargs: Any) -> Any:
        """Arithmetic on sizes, and picking from containers."""
        try:
            return getattr(operator, node.target.removeprefix("operator."))(*args, **kwargs)
        except (TypeError, LookupError, ArithmeticError) as error:  # OneFlow returned another structure than PyTorch
            raise NodeStopped(node.name, f"{type(error).__name__}: {error}", refused=False) from error

    def _operands(self, value: Any, operands: dict[str, Any]) -> Expr:
        if isinstance(value, self._oneflow.Tensor):
            name = f"t{len(operands)}"
            operands[name] = value
            return Operand(name, dtype_name(value.dtype, name), tuple(int(size) for size in value.shape))
        if isinstance(value, self._oneflow.Size):
            return tuple(int(size) for size in value)
        if isinstance(value, tuple | self._oneflow._oneflow_internal.TensorTuple):
            return tuple(self._operands(item, operands) for item in value)
        if isinstance(value, list):
            return [self._operands(item, operands) for item in value]
        if isinstance(value, dict):
            return {key: self._operands(item, operands) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(*(self._operands(part, operands) for part in (value.start, value.stop, value.step)))
        if isinstance(value, self._oneflow.dtype):
            return DType(dtype_name(value))
        return value


def _hook(oneflow: Any, position: _Position, name: str) -> Callable[[Any], None]:
    def arrived(_: Any) -> None:
        session.synchronize(oneflow)  # so that a death of the one before is not this one's
        position.node(name + BACKWARD)

    return arrived


def _stopped(error: Exception, plan: Plan, node: str, *, backward: bool = False) -> NodeStopped:
    status, message = judge(error, plan)
    if _NO_GRADIENT in message:
        return NodeStopped(node, f"refused: {message}", refused=True, backward=backward)
    return NodeStopped(node, message, refused=status is Status.UNSUPPORTED, backward=backward)
