"""What Dynamo says of the values in its graph: fake tensors, their storages, and sizes that may be symbolic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.fx
from torch.utils import _pytree as pytree

from harness.backends.oneflow.translate.plan import Expr, Operand
from harness.errors import CaptureError
from harness.torch_bridge.tensors import DTYPE_NAMES, from_torch

_UNBACKED = 2  # stands for a size that depends on data, where only the number of dims matters


def example(node: torch.fx.Node) -> Any:
    """The example value of a node: fake tensors, symbolic sizes, containers of them; None where nothing is known."""
    if node.op == "get_attr":
        value: Any = node.graph.owning_module
        for part in str(node.target).split("."):
            value = getattr(value, part, None)
        return value
    return node.meta.get("example_value")


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor in a nested value."""
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            yield leaf


def is_number(value: Any) -> bool:
    """Whether a value is made of numbers alone: sizes, shapes and what Python computes of them."""
    leaves = pytree.tree_leaves(tuple(value) if isinstance(value, torch.Size) else value)
    return bool(leaves) and all(isinstance(leaf, int | float | torch.SymInt | torch.SymFloat | torch.SymBool) for leaf in leaves)


def storages(value: Any) -> set[int]:
    """The memories behind a value's tensors, by identity."""
    found = set()
    for tensor in tensors(value):
        try:
            found.add(tensor.untyped_storage()._cdata)
        except (NotImplementedError, RuntimeError):  # sparse tensors and some wrappers have none
            found.add(id(tensor))
    return found


def hint(size: int | torch.SymInt) -> int:
    """A size as a number: the one of the example, where it is symbolic."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    known = size.node.hint if size.node.has_hint() else None
    return _UNBACKED if known is None else int(known)


def memory_order(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """Dims from outermost to innermost in memory, of a tensor that is not contiguous but dense; None for any other."""
    shape, strides = [hint(size) for size in tensor.shape], [hint(step) for step in tensor.stride()]
    order = sorted(range(len(shape)), key=lambda dim: (-strides[dim], dim))
    if order == list(range(len(shape))) or 0 in shape:
        return None
    step = 1
    for dim in reversed(order):
        if shape[dim] > 1 and strides[dim] != step:
            return None
        step *= shape[dim]
    return tuple(order)


def operand(name: str, value: Any) -> Expr:
    """An example value as a translation sees it.

    Raises CaptureError for tensors that are not of plain elements on the CPU, and for what no Program can hold.
    """
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.device.type != "cpu" or value.is_quantized:
            raise CaptureError(f"{name} is a {value.layout} tensor on {value.device.type}")
        if value.dtype not in DTYPE_NAMES:
            raise CaptureError(f"{name} is of {value.dtype}")
        return Operand(name, DTYPE_NAMES[value.dtype], tuple(hint(size) for size in value.shape))
    if isinstance(value, torch.SymInt):
        return hint(value)
    if isinstance(value, torch.SymFloat):
        return 0.5
    if isinstance(value, torch.SymBool):
        return True
    if isinstance(value, tuple):
        return tuple(operand(f"{name}_{index}", item) for index, item in enumerate(value))
    if isinstance(value, list):
        return [operand(f"{name}_{index}", item) for index, item in enumerate(value)]
    if isinstance(value, dict):
        return {key: operand(f"{name}_{key}", item) for key, item in value.items()}
    return from_torch(value)
