"""Two witnesses of the reference: the program in float64, and how far one ulp at every node moves its outputs."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from harness.backends.eager_trace import Announcer, storages, tensors
from harness.backends.protocol import Progress
from harness.model.case import Case
from harness.model.dtypes import DTYPES, Array, is_float, widen
from harness.model.program import Node, Program
from harness.model.values import DType, Tensor, Value, leaves, map_leaves, tensor_from_array
from harness.torch_bridge.gradients import require_grad, train_step, with_gradients
from harness.torch_bridge.interpret import NodeFailed, build_arguments, build_modules, run_program
from harness.torch_bridge.tensors import from_torch

SPREAD_RUNS = 2
_WIDE = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64, torch.complex64: torch.complex128}
_CASTS = frozenset({"float", "half", "bfloat16"})
_BITCASTS = frozenset({"view", "aten.view.dtype"})
_INTEGER_OF_WIDTH = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def run_twin(case: Case, index: int, progress: Progress) -> Value:
    """The output of call `index` computed in float64 throughout; None where that cannot be done or says nothing."""
    program = _widened(case.program)
    if program is None:
        return None
    arguments = {name: _wide(value) for name, value in build_arguments(case, index).items()}
    modules = {name: module.double() for name, module in build_modules(case).items()}
    try:
        with torch.set_grad_enabled(case.mode != "fwd"), _default_dtype(torch.float64), _unshaken() as shaken:
            output = _result(case, program, arguments, modules, index, Announcer(progress))
    except (NodeFailed, RuntimeError):  # the second is what a backward pass raises
        return None
    # Random numbers drawn in another dtype are other numbers.
    return None if shaken() else from_torch(output)


def _result(
    case: Case, program: Program, arguments: dict[str, Any], modules: Mapping[str, torch.nn.Module], index: int, observer: Announcer
) -> Any:
    """What one call gives in the case's mode, gradients included."""
    if case.mode != "fwd":
        require_grad(program, arguments)
    output = run_program(program, arguments, modules, binding=case.calls[index].binding, observer=observer)
    if case.mode == "fwd":
        return output
    return (with_gradients if case.mode == "grad" else train_step)(program, arguments, modules, output)


def _wide(value: Any) -> Any:
    return value.to(_WIDE.get(value.dtype, value.dtype)) if isinstance(value, torch.Tensor) else value


def _widened(program: Program) -> Program | None:
    """The program with every floating dtype that it names replaced by float64; None where it reinterprets bits."""
    nodes = []
    for node in program.nodes:
        named = [leaf for _, leaf in (*leaves(node.args), *leaves(dict(node.kwargs))) if isinstance(leaf, DType)]
        if named and node.target in _BITCASTS:
            return None
        target = "double" if node.op == "call_method" and node.target in _CASTS else node.target
        nodes.append(
            node
            if not named and target == node.target and not _has_tensor(node)
            else replace(node, target=target, args=map_leaves(node.args, _wide_leaf), kwargs=map_leaves(dict(node.kwargs), _wide_leaf))
        )
    return replace(program, nodes=tuple(nodes))


def _has_tensor(node: Node) -> bool:
    return any(isinstance(leaf, Tensor) for _, leaf in (*leaves(node.args), *leaves(dict(node.kwargs))))


def _wide_leaf(leaf: Value) -> Value:
    if isinstance(leaf, DType) and leaf.name in DTYPES and is_float(leaf.name):
        return DType("float64")
    if isinstance(leaf, Tensor) and is_float(leaf.dtype):
        return tensor_from_array(widen(leaf.array(), leaf.dtype).astype(np.float64), "float64")
    return leaf


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def _unshaken() -> Iterator[Any]:
    """Seed torch's generator, and tell whether anything drew from it."""
    torch.default_generator.manual_seed(0)
    before = torch.default_generator.get_state()
    yield lambda: not torch.equal(before, torch.default_generator.get_state())


def run_spread(case: Case, index: int, progress: Progress, reference: Value) -> Value:
    """How far each element of the output of call `index` moved, as float64, when inputs and nodes were nudged by one ulp.

    `reference` is the plain output. None where the structure, a shape or random numbers depend on what was nudged.
    """
    moved: Value = None
    for run in range(SPREAD_RUNS):
        arguments = build_arguments(case, index)
        nudger = Nudger(progress, run)
        done: set[int] = set()
        for name, value in arguments.items():
            # Views of one storage are nudged once, through the first of them.
            if isinstance(value, torch.Tensor) and not done & storages(value):
                nudger.nudge(value, name)
                done |= storages(value)
        modules = build_modules(case)  # before the generator is watched, since constructors draw their first weights from it
        try:
            with torch.set_grad_enabled(case.mode != "fwd"), _unshaken() as shaken:
                output = _result(case, case.program, arguments, modules, index, nudger)
        except (NodeFailed, RuntimeError):
            return None
        if shaken():
            return None
        distance = _distance(reference, from_torch(output))
        if distance is None:
            return None
        moved = distance if moved is None else _largest(moved, distance)
    return moved


class Nudger(Announcer):
    """Moves every floating element that a node computes by one ulp, up or down by a fixed pseudo-random pattern."""

    def __init__(self, progress: Progress, run: int) -> None:
        super().__init__(progress)
        self._run = run

    def after(self, node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> Any:
        """Nudge what the node made, in place, so that aliases stay what they are; a view of an input is left alone."""
        outside = storages((args, dict(kwargs)))
        for position, tensor in enumerate(tensors(result)):
            if not storages(tensor) & outside:
                self.nudge(tensor, f"{node.name}[{position}]")
        return result

    def nudge(self, tensor: torch.Tensor, label: str) -> None:
        """Nudge one tensor in place; zeros and whatever is not finite stay."""
        if not tensor.dtype.is_floating_point or tensor.numel() == 0:
            return
        if 0 in tensor.stride() and any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)):
            return
        integer = _INTEGER_OF_WIDTH[tensor.element_size()]
        signs = torch.from_numpy(_signs(tensor.numel(), zlib.crc32(label.encode()) + self._run)).to(integer).view(tensor.shape)
        with torch.no_grad():
            plain = tensor.detach().contiguous()
            moved = (plain.view(integer) + signs).view(tensor.dtype)
            # Not through autograd's eyes: what it kept for the backward pass is nudged with the value itself.
            tensor.data.copy_(torch.where((plain != 0) & torch.isfinite(moved) & torch.isfinite(plain), moved, plain))


def _signs(count: int, seed: int) -> Array:
    mixed = (np.arange(count, dtype=np.uint32) + np.uint32(seed & 0xFFFFFFFF)) * np.uint32(2654435761)
    return ((mixed >> np.uint32(15)) & np.uint32(1)).astype(np.int8) * np.int8(2) - np.int8(1)


def _numbers(value: Tensor) -> Array:
    array = widen(value.array(), value.dtype)
    return array if DTYPES[value.dtype].kind == "complex" else array.astype(np.float64)


def _distance(first: Value, second: Value) -> Value:
    """|second - first| with each tensor as float64; None where anything but numbers differs."""
    ours, theirs = list(leaves(first)), list(leaves(second))
    if [path for path, _ in ours] != [path for path, _ in theirs]:
        return None
    found: list[Value] = []
    for (_, left), (_, right) in zip(ours, theirs, strict=True):
        if isinstance(left, Tensor) and isinstance(right, Tensor):
            if left.shape != right.shape or left.dtype != right.dtype:
                return None
            a, b = _numbers(left), _numbers(right)
            with np.errstate(invalid="ignore", over="ignore"):
                delta = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(b - a))
            found.append(tensor_from_array(np.where(np.isnan(delta), np.inf, delta), "float64"))
        elif type(left) is not type(right) or (isinstance(left, int | str) and left != right):
            return None
        else:
            found.append(left)
    rest = iter(found)
    return map_leaves(first, lambda _: next(rest))


def _largest(first: Value, second: Value) -> Value:
    others = iter([leaf for _, leaf in leaves(second)])

    def larger(leaf: Value) -> Value:
        other = next(others)
        return tensor_from_array(np.maximum(leaf.array(), other.array()), "float64") if isinstance(leaf, Tensor) else leaf

    return map_leaves(first, larger)
