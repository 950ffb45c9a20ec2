"""Running a snapshot in the torch dialect with eager operators, every declared type held against the real tensor.

The interpreter is what a snapshot means. It runs anything that verifies, at whatever stage of the torch-level pipelines;
what it cannot run it names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch_mlir import ir

from harness.backends.torch_mlir.declared import tensor_claim
from harness.backends.torch_mlir.precision import spelled
from harness.backends.torch_mlir.refusals import is_refusal
from harness.backends.torch_mlir.torch_dialect.literals import UnknownLiteral, constant, literal, resources
from harness.backends.torch_mlir.torch_dialect.operators import UnknownOperation, operator
from harness.torch_bridge.tensors import DTYPE_NAMES, tensor_bytes

_LOCATION_NAME = re.compile(r'"([^"]+)":\d+:\d+')
_RETURNS = ("func.return", "torch.prim.If.yield", "torch.shape.calculate.yield", "torch.dtype.calculate.yield")
_CALCULATIONS = ("torch.shape.calculate", "torch.dtype.calculate")
_MISFIT = "Expected a value of type"  # our operands do not fit PyTorch's schema: nothing that a pass could be blamed for
MAX_TRIPS = 10_000


class Uninterpretable(Exception):
    """An operation or constant that the interpreter does not run."""

    def __init__(self, op: str, reason: str = "") -> None:
        super().__init__(f"{op}: {reason}" if reason else op)
        self.op = op


class Unexecutable(Exception):
    """Eager PyTorch refuses an operation with the operands that the snapshot gives it."""

    def __init__(self, op: str, node: str, error: Exception) -> None:
        super().__init__(f"{op}: {type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}")
        self.op = op
        self.node = node


@dataclass(frozen=True, slots=True)
class Violation:
    """A declared type that the real tensor does not have."""

    op: str
    node: str
    declared: str
    actual: str


@dataclass(frozen=True, slots=True)
class Traced:
    """What one operation gave; `node` is the program's node that its location names."""

    op: str
    node: str
    values: tuple[Any, ...]


@dataclass(slots=True)
class Run:
    """What one run of a function returned, and what was seen on the way."""

    results: tuple[Any, ...] = ()
    violations: list[Violation] = field(default_factory=list)
    trace: list[Traced] = field(default_factory=list)
    undetermined: str = ""  # the first operation whose values are nobody's promise


def type_violation(declared: str, value: Any) -> str | None:
    """What type `value` has if it is not the declared one, as precision.spelled has it; None where nothing else is declared."""
    claim = tensor_claim(declared)
    if claim is None or not isinstance(value, torch.Tensor):
        return None
    dtype, shape = claim
    wrong_shape = shape is not None and (
        len(shape) != value.dim() or any(want not in (None, have) for want, have in zip(shape, value.shape, strict=True))
    )
    if wrong_shape or (dtype is not None and DTYPE_NAMES.get(value.dtype) != dtype):
        return spelled((DTYPE_NAMES.get(value.dtype, str(value.dtype)), tuple(value.shape)))
    return None


def interpret(module: ir.Module, arguments: Sequence[torch.Tensor], *, function: str = "main") -> Run:
    """Run `function` of `module` on `arguments`, which stay as they are.

    Where an operation draws random numbers or leaves memory as it is, a second run with others tells whether the results
    depend on it. Raises Uninterpretable for what it does not know, Unexecutable for what eager PyTorch refuses.
    """
    with torch.no_grad():
        run = _Interpreter(module).run(function, [argument.clone() for argument in arguments])
        if run.undetermined:
            with torch.random.fork_rng(devices=()):
                torch.manual_seed(1)
                again = _Interpreter(module, take=1).run(function, [argument.clone() for argument in arguments])
            if all(_same(*pair) for pair in zip(run.results, again.results, strict=True)):
                run.undetermined = ""
    return run


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and tensor_bytes(one) == tensor_bytes(other)
    return bool(one == other)


class _Interpreter:
    def __init__(self, module: ir.Module, *, take: int = 0) -> None:
        self.module = module
        self.take = take
        self.functions = {
            ir.StringAttr(op.attributes["sym_name"]).value: op for op in module.body.operations if op.operation.name == "func.func"
        }
        self.log = Run()
        self._blobs: Mapping[str, bytes] | None = None
        self._numbers: dict[int, tuple[torch.Tensor, Any]] = {}  # tensors that the importer made of Python's numbers

    def blobs(self) -> Mapping[str, bytes]:
        if self._blobs is None:
            self._blobs = resources(self.module.operation.get_asm())
        return self._blobs

    def run(self, function: str, arguments: list[Any]) -> Run:
        self.log.results = tuple(self.call(function, arguments))
        return self.log

    def call(self, function: str, arguments: Sequence[Any]) -> list[Any]:
        if function not in self.functions:
            raise Uninterpretable("func.call", f"there is no function {function}")
        block = self.functions[function].regions[0].blocks[0]
        for argument, value in zip(block.arguments, arguments, strict=True):
            self.check("argument", "", str(argument.type), value)
        return self.block(block, {}, arguments)

    def check(self, op: str, node: str, declared: str, value: Any) -> None:
        actual = type_violation(declared, value)
        if actual is not None:
            self.log.violations.append(Violation(op, node, declared, actual))

    def block(self, block: ir.Block, outer: Mapping[ir.Value, Any], arguments: Sequence[Any]) -> list[Any]:
        """What the block's terminator hands on."""
        known = dict(outer)
        known.update(zip(block.arguments, arguments, strict=True))
        for view in block.operations:
            operation = view.operation
            name = operation.name
            operands = [known[operand] for operand in operation.operands]
            if name in _RETURNS or name == "torch.prim.Loop.condition":
                return operands
            node = _node_of(operation)
            values = self.values(operation, name, node, operands, known)
            for result, value in zip(operation.results, values, strict=True):
                known[result] = value
                self.check(name, node, str(result.type), value)
            if values and isinstance(values[0], torch.Tensor):
                self.log.trace.append(Traced(name, node, tuple(values)))
        return []

    def values(self, operation: ir.Operation, name: str, node: str, operands: list[Any], known: Mapping[ir.Value, Any]) -> Sequence[Any]:
        if name.startswith("torch.constant.") or name in ("torch.vtensor.literal", "torch.tensor.literal"):
            try:
                value = literal(operation, self.blobs) if name.endswith(".literal") else constant(operation)
            except UnknownLiteral as error:
                raise Uninterpretable(name, str(error)) from error
            return [value]
        if name in _CALCULATIONS:
            return self.block(operation.regions[0].blocks[0], known, [])  # what its other region says of types, the types show
        if name == "torch.prim.If":
            return self.block(operation.regions[0 if operands[0] else 1].blocks[0], known, [])
        if name == "torch.prim.Loop":
            return self.loop(operation, operands, known)
        if name == "func.call":
            return self.call(ir.FlatSymbolRefAttr(operation.attributes["callee"]).value, operands)
        if name == "torch.runtime.assert" and not operands[0]:
            said = ir.StringAttr(operation.attributes["message"]).value
            if is_refusal(said):  # torch-mlir's word, put off to run time, that it does not do this
                raise Uninterpretable(name, said)
        called = name
        if name == "torch.operator":
            called = ir.StringAttr(operation.attributes["name"]).value
        try:
            found = operator(called)
        except UnknownOperation as error:
            raise Uninterpretable(called) from error
        if found.undetermined and not self.log.undetermined:
            self.log.undetermined = called
        count = len(operation.results)
        try:
            value = found(operands, take=self.take)
            if count == 1 and self._numbers and type_violation(str(operation.results[0].type), value) is not None:
                value = found(self._as_numbers(operands), take=self.take)
        except Exception as error:  # eager operators raise what they like
            if _MISFIT in str(error):
                raise Uninterpretable(called, str(error).splitlines()[0]) from error
            raise Unexecutable(called, node, error) from error
        if called == "torch.prim.NumToTensor.Scalar":
            self._numbers[id(value)] = (value, operands[0])
        if count == 1 and not found.unpacks:
            return [value]
        return list(value) if count else []

    def _as_numbers(self, operands: list[Any]) -> list[Any]:
        """Operands with Python's numbers back in their place: in type promotion they count for less than tensors."""
        if all(id(operand) in self._numbers for operand in operands if isinstance(operand, torch.Tensor)):
            return operands
        return [self._numbers[id(operand)][1] if id(operand) in self._numbers else operand for operand in operands]

    def loop(self, operation: ir.Operation, operands: list[Any], known: Mapping[ir.Value, Any]) -> list[Any]:
        trips, going, *carried = operands
        body, trip = operation.regions[0].blocks[0], 0
        while going and trip < trips:
            if trip >= MAX_TRIPS:
                raise Uninterpretable("torch.prim.Loop", f"more than {MAX_TRIPS} trips")
            going, *carried = self.block(body, known, [trip, *carried])
            trip += 1
        return carried


def _node_of(operation: ir.Operation) -> str:
    match = _LOCATION_NAME.search(str(operation.location))
    return match[1] if match is not None else ""
