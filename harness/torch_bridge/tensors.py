"""Values to torch objects and back."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from harness.errors import CaptureError, FormatError, HarnessError
from harness.model.dtypes import DTYPES
from harness.model.fill import Literal, storage_elements
from harness.model.symbols import Sym, evaluate
from harness.model.values import Device, DType, Layout, MemoryFormat, Ref, Tensor, Value, contiguous_strides, leaves, storage_size

TORCH_DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in DTYPES}
DTYPE_NAMES: dict[torch.dtype, str] = {dtype: name for name, dtype in TORCH_DTYPES.items()}
_LAYOUTS = {"strided": torch.strided}
_MEMORY_FORMATS = {name: getattr(torch, name) for name in ("contiguous_format", "channels_last", "channels_last_3d", "preserve_format")}
_MEMORY_FORMAT_NAMES = {value: name for name, value in _MEMORY_FORMATS.items()}


class Unrepresentable(CaptureError):
    """A torch object that the value grammar cannot hold: another layout, dtype or class."""


class Storages:
    """The memory of one materialization: tensors that name one storage share it."""

    def __init__(self) -> None:
        self._flat: dict[str, torch.Tensor] = {}
        self._extent: dict[str, int] = {}

    def reserve(self, value: Value) -> None:
        """Note how much of its named storage each tensor of `value` needs, before any of them is made."""
        for _, leaf in leaves(value):
            if isinstance(leaf, Tensor) and leaf.storage is not None:
                self._extent[leaf.storage] = max(self._extent.get(leaf.storage, 0), _extent(leaf))

    def tensor(self, value: Tensor) -> torch.Tensor:
        """`value` as a torch tensor with its strides and offset, sharing its named storage with earlier ones.

        Raises FormatError where the data does not fill the storage or dtypes of one storage differ.
        """
        strides = value.strides if value.strides is not None else contiguous_strides(value.shape)
        if value.storage is None:
            # Not a view of anything, as a user's input is not: views are slow to fake and differ under autograd.
            flat = _flat(value, _extent(value))
            return flat.new_empty(0).set_(flat.untyped_storage(), value.offset, value.shape, strides)
        if value.storage in self._flat:
            flat = self._flat[value.storage]
            if DTYPE_NAMES[flat.dtype] != value.dtype:
                raise FormatError(f"storage {value.storage!r} is both {DTYPE_NAMES[flat.dtype]} and {value.dtype}")
            if flat.numel() < _extent(value):
                raise FormatError(f"storage {value.storage!r} has {flat.numel()} elements where a view needs {_extent(value)}")
        else:
            flat = self._flat[value.storage] = _flat(value, max(_extent(value), self._extent.get(value.storage, 0)))
        return flat.as_strided(value.shape, strides, value.offset)


def _extent(value: Tensor) -> int:
    strides = value.strides if value.strides is not None else contiguous_strides(value.shape)
    return storage_size(value.shape, strides, value.offset)


def _flat(value: Tensor, count: int) -> torch.Tensor:
    if value.dtype not in TORCH_DTYPES:
        raise FormatError(f"unknown dtype {value.dtype!r}")
    if value.storage is not None and isinstance(value.data, Literal):
        count = max(count, len(value.data.data) // DTYPES[value.dtype].itemsize)
    elements = storage_elements(value.data, value.dtype, count)
    # The clone is memory of torch's own: a tensor over numpy's memory can be neither resized nor relied on for alignment.
    if value.dtype == "bfloat16":
        return torch.from_numpy(elements.view(np.int16)).clone().view(torch.bfloat16)
    return torch.from_numpy(elements).clone()


def to_torch(
    value: Value,
    env: Mapping[str, object] | None = None,
    *,
    binding: Mapping[str, int] | None = None,
    storages: Storages | None = None,
) -> Any:
    """`value` as the object that torch functions take: Refs looked up in `env`, size expressions evaluated in `binding`.

    Raises FormatError for a value outside the grammar, HarnessError for a Ref that has no value.
    """
    if value is None or isinstance(value, bool | int | float | complex | str) or value is Ellipsis:
        return value
    if isinstance(value, Ref):
        if env is None or value.node not in env:
            raise HarnessError(f"no value for node {value.node!r}")
        return env[value.node]
    if isinstance(value, tuple):
        return tuple([to_torch(item, env, binding=binding, storages=storages) for item in value])
    if isinstance(value, list):
        return [to_torch(item, env, binding=binding, storages=storages) for item in value]
    if isinstance(value, dict):
        return {key: to_torch(item, env, binding=binding, storages=storages) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(to_torch(part, env, binding=binding, storages=storages) for part in (value.start, value.stop, value.step)))
    if isinstance(value, Sym):
        return evaluate(value, binding or {})
    if isinstance(value, Tensor):
        return (storages or Storages()).tensor(value)
    return _constant(value)


def _constant(value: Value) -> object:
    if isinstance(value, DType):
        return _named(value.name, TORCH_DTYPES, "dtype")
    if isinstance(value, Device):
        try:
            return torch.device(value.name)
        except RuntimeError as error:
            raise FormatError(f"unknown device {value.name!r}") from error
    if isinstance(value, Layout):
        return _named(value.name, _LAYOUTS, "layout")
    if isinstance(value, MemoryFormat):
        return _named(value.name, _MEMORY_FORMATS, "memory format")
    raise FormatError(f"a value of type {type(value).__name__} is outside the value grammar")


def _named(name: str, known: Mapping[str, object], kind: str) -> object:
    if name not in known:
        raise FormatError(f"unknown {kind} {name!r}; known: {', '.join(known)}")
    return known[name]


def materialize(values: Mapping[str, Value], *, binding: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Several values at once, such as the arguments of a call; tensors that name one storage share it throughout."""
    storages = Storages()
    for value in values.values():
        storages.reserve(value)
    return {name: to_torch(value, binding=binding, storages=storages) for name, value in values.items()}


def tensor_bytes(tensor: torch.Tensor) -> bytes:
    """The elements of a strided CPU tensor in row-major order, as little-endian bytes."""
    with torch.no_grad():
        plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    # Through the pointer: Tensor.numpy() knows no bfloat16 and forbids the live storage to be resized ever after.
    return ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size()) if plain.numel() else b""


def tensor_from_torch(tensor: torch.Tensor, *, layout: bool = False) -> Tensor:
    """A literal Tensor: contiguous, or with `layout` with the real strides and just the memory that they reach.

    Raises Unrepresentable for sparse, quantized, fake and foreign tensors and for dtypes outside the model.
    """
    if tensor.layout is not torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
        raise Unrepresentable(f"a {tensor.layout} tensor on {tensor.device.type} is outside the value grammar")
    dtype = DTYPE_NAMES.get(tensor.dtype)
    if dtype is None:
        raise Unrepresentable(f"{tensor.dtype} is outside the value grammar")
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        raise Unrepresentable(f"a {type(tensor).__name__} is outside the value grammar")
    shape = tuple(tensor.shape)
    if not layout or tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        return Tensor(dtype, shape, Literal(tensor_bytes(tensor)))
    strides = tuple(tensor.stride())
    with torch.no_grad():
        reached = tensor.detach().as_strided((storage_size(shape, strides, 0),), (1,), tensor.storage_offset())
    return Tensor(dtype, shape, Literal(tensor_bytes(reached)), strides)


def from_torch(value: object, *, layout: bool = False) -> Value:
    """Any object that torch functions take or return, as a Value; named tuples and torch.Size become tuples.

    Raises Unrepresentable naming the class that the grammar cannot hold.
    """
    if isinstance(value, torch.Tensor):
        return tensor_from_torch(value, layout=layout)
    if value is None or value is Ellipsis or type(value) in (bool, int, float, complex, str):
        return value
    if isinstance(value, tuple):
        return tuple([from_torch(item, layout=layout) for item in value])
    if isinstance(value, list):
        return [from_torch(item, layout=layout) for item in value]
    if isinstance(value, Mapping) and type(value).__module__ in ("builtins", "collections", "torch.fx.immutable_collections"):
        return {key: from_torch(item, layout=layout) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(from_torch(part, layout=layout) for part in (value.start, value.stop, value.step)))
    if isinstance(value, torch.dtype):
        if value not in DTYPE_NAMES:
            raise Unrepresentable(f"the dtype {value} is none of those that a tensor of a Program may have")
        return DType(str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return Device(str(value))
    if isinstance(value, torch.layout):
        return Layout(str(value).removeprefix("torch."))
    if isinstance(value, torch.memory_format):
        return MemoryFormat(_MEMORY_FORMAT_NAMES[value])
    if isinstance(value, torch.nn.Module) or not isinstance(value, bool | int | float):
        raise Unrepresentable(f"a {type(value).__module__}.{type(value).__qualname__} is outside the value grammar")
    return int(value) if isinstance(value, int) else float(value)
