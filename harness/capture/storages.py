"""Real tensors as placeholder specs and literal data; views of one memory stay views of one memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from harness.errors import CaptureError
from harness.model.fill import Data, Literal
from harness.model.program import TensorSpec
from harness.model.symbols import Dim
from harness.model.values import contiguous_strides
from harness.torch_bridge.tensors import DTYPE_NAMES, Unrepresentable, tensor_bytes, tensor_from_torch


@dataclass(frozen=True, slots=True)
class Described:
    """A placeholder's spec, the name of its storage, and that storage's data."""

    spec: TensorSpec
    storage: str
    data: Data


def describe(tensors: Sequence[tuple[str, torch.Tensor, tuple[Dim, ...] | None]]) -> list[Described]:
    """The specs and data of several tensors, given as (name, tensor, shape with symbols or None).

    Tensors over one memory get one storage, named after the first of them. Raises CaptureError for what the value
    grammar cannot hold.
    """
    groups: dict[int, list[int]] = {}
    for position, (name, tensor, _) in enumerate(tensors):
        _check(name, tensor)
        groups.setdefault(tensor.untyped_storage().data_ptr() or -position - 1, []).append(position)
    result: dict[int, Described] = {}
    for members in groups.values():
        if len(members) == 1:
            (position,) = members
            result[position] = _alone(*tensors[position])
        else:
            result.update(_together(members, [tensors[position] for position in members]))
    return [result[position] for position in range(len(tensors))]


def _check(name: str, tensor: torch.Tensor) -> None:
    try:
        tensor_from_torch(tensor[:0] if tensor.dim() and tensor.layout is torch.strided else tensor)
    except Unrepresentable as error:
        raise CaptureError(f"{name}: {error}") from error


def _alone(name: str, tensor: torch.Tensor, shape: tuple[Dim, ...] | None) -> Described:
    value = tensor_from_torch(tensor, layout=True)
    dims = shape if shape is not None else value.shape
    order, expanded = _dense(value.shape, value.strides or contiguous_strides(value.shape))
    if order is not None or value.strides is None:
        written = None if order == tuple(range(len(dims))) and not expanded else order
        return Described(TensorSpec(value.dtype, dims, written, expanded), name, value.data)
    if shape is not None and any(not isinstance(dim, int) for dim in shape):
        raise CaptureError(f"{name}: strides {value.strides} under a symbolic shape cannot be said for every size")
    return Described(TensorSpec(value.dtype, dims, strides=value.strides), name, value.data)


def _dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
    """The memory order and the expanded dims that give these strides, or no order where none does."""
    expanded = tuple(dim for dim, stride in enumerate(strides) if stride == 0 and shape[dim] > 1)
    order = tuple(sorted(range(len(shape)), key=lambda dim: (-strides[dim] if dim not in expanded else 0, dim)))
    if 0 not in shape and TensorSpec("float32", shape, order, expanded).concrete_strides({}) == strides:
        return order, expanded
    return None, ()


def _together(members: list[int], tensors: list[tuple[str, torch.Tensor, tuple[Dim, ...] | None]]) -> dict[int, Described]:
    storage, first, _ = tensors[0]
    if len({tensor.dtype for _, tensor, _ in tensors}) > 1:
        raise CaptureError(f"{', '.join(name for name, _, _ in tensors)} are views of one memory with different dtypes")
    with torch.no_grad():
        flat = torch.empty(0, dtype=first.dtype).set_(first.untyped_storage())
        data = Literal(tensor_bytes(flat))
    result = {}
    for position, (_, tensor, shape) in zip(members, tensors, strict=True):
        contiguous = tensor.is_contiguous()
        if shape is not None and not contiguous and any(not isinstance(dim, int) for dim in shape):
            raise CaptureError(f"{storage}: a strided view of shared memory under a symbolic shape cannot be said for every size")
        spec = TensorSpec(
            DTYPE_NAMES[tensor.dtype],
            shape if shape is not None else tuple(tensor.shape),
            strides=None if contiguous else tuple(tensor.stride()),
            offset=int(tensor.storage_offset()),
            storage=storage,
        )
        result[position] = Described(spec, storage, data)
    return result
