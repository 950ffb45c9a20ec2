"""Torch's tensors on their way to OneFlow and back: no memory is shared with what the user holds."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from harness.backends.oneflow.service.arena import Arena
from harness.backends.oneflow.service.messages import INLINE_BYTES, CannotPass, Packed
from harness.torch_bridge.tensors import DTYPE_NAMES, TORCH_DTYPES


def pack(value: Any, where: str, arena: Arena) -> Packed | None:
    """A tensor's elements, in row-major order, and where they are; None for what is no tensor.

    Raises CannotPass for a tensor that is not of plain elements on the CPU.
    """
    if not isinstance(value, torch.Tensor):
        return None
    if type(value) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        raise CannotPass(f"{where}: a {type(value).__module__}.{type(value).__qualname__} can pass neither to OneFlow nor from it")
    if value.layout is not torch.strided or value.device.type != "cpu" or value.dtype not in DTYPE_NAMES:
        raise CannotPass(f"{where}: a {value.layout} tensor of {value.dtype} on {value.device} cannot pass to OneFlow")
    dtype, shape = DTYPE_NAMES[value.dtype], tuple(value.shape)
    size = value.numel() * value.element_size()
    with torch.no_grad():
        plain = value.detach().resolve_conj().resolve_neg()
        if size < INLINE_BYTES:
            plain = plain.contiguous()
            # Through the pointer: Tensor.numpy() forbids the user's storage to be resized ever after.
            return Packed(dtype, shape, ctypes.string_at(plain.data_ptr(), size) if size else b"")
        memory, offset = arena.reserve(size)
        torch.frombuffer(memory, dtype=value.dtype, count=value.numel(), offset=offset).view(shape).copy_(plain)
    return Packed(dtype, shape, b"", offset)


def unpack(packed: Packed, arena: Arena) -> torch.Tensor:
    """A fresh contiguous tensor."""
    dtype = TORCH_DTYPES[packed.dtype]
    size = packed.size(dtype.itemsize)
    if not size:
        return torch.empty(packed.shape, dtype=dtype)
    memory, offset = (arena.map_to(packed.offset + size), packed.offset) if packed.offset >= 0 else (bytearray(packed.data), 0)
    # The clone is no view: torch forbids writing to views that come out of an autograd function.
    return torch.frombuffer(memory, dtype=dtype, count=size // dtype.itemsize, offset=offset).view(packed.shape).clone()


def in_memory_order(tensor: torch.Tensor, order: tuple[int, ...] | None) -> torch.Tensor:
    """The same elements with dims lying in memory in this order, outermost first; None leaves them as they are."""
    if order is None:
        return tensor
    return torch.empty_permuted(tensor.shape, order, dtype=tensor.dtype).copy_(tensor)
