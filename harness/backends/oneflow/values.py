"""The boundary: Values to OneFlow objects and back, copying, and complaining by name about whatever has no place in the grammar."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from harness.backends.oneflow.errors import OneFlowUnsupported
from harness.backends.oneflow.translate import FLOW_DTYPES
from harness.errors import HarnessError
from harness.model.dtypes import DTYPES, Array, float32_to_bfloat16, widen
from harness.model.fill import Literal, storage_elements
from harness.model.values import Tensor, Value, contiguous_strides, storage_size, tensor_from_array

_TORCH_DTYPES = {f"oneflow.{flow}": torch for torch, flow in FLOW_DTYPES.items()}


class TensorMaker:
    """Makes OneFlow tensors; those that name one storage share memory.

    Strides are kept, stride 0 included, except for bfloat16, which numpy cannot carry into OneFlow: it arrives contiguous.
    With `expand`, tensors of stride 0 are expanded by OneFlow from its own memory: `contiguous_()`, which nn.Graph calls on its
    inputs, writes all elements into the memory of the few, and past the end of a numpy array that was taken over.
    """

    def __init__(self, oneflow: Any, tensors: Iterable[Tensor] = (), *, expand: bool = False) -> None:
        self._oneflow = oneflow
        self._expand = expand
        self._storages: dict[str, Array] = {}
        self._sizes: dict[str, int] = {}
        for tensor in tensors:
            if tensor.storage is not None:
                self._sizes[tensor.storage] = max(self._sizes.get(tensor.storage, 0), _span(tensor))

    def make(self, tensor: Tensor) -> Any:
        """A OneFlow tensor of these elements; raises OneFlowUnsupported for a dtype that OneFlow does not have."""
        if tensor.dtype not in FLOW_DTYPES:
            raise OneFlowUnsupported("dtype", f"OneFlow 0.9.0 has no dtype {tensor.dtype}")
        if tensor.dtype == "bfloat16":
            if tensor.storage is not None:
                raise OneFlowUnsupported("untranslated", "bfloat16 tensors that share one storage")
            return self._oneflow.tensor(widen(tensor.array(), "bfloat16")).to(self._oneflow.bfloat16)
        if tensor.storage is None and (tensor.strides is None or tensor.strides == contiguous_strides(tensor.shape)):
            return self._oneflow.tensor(_plain_array(tensor))
        strides = tensor.strides if tensor.strides is not None else contiguous_strides(tensor.shape)
        if self._expand and tensor.storage is None and 0 in strides:
            return self._expanded(tensor, strides)
        elements = self._elements(tensor)
        view = np.lib.stride_tricks.as_strided(
            elements[tensor.offset :], tensor.shape, [step * elements.itemsize for step in strides], writeable=True
        )
        return self._oneflow.from_numpy(view)

    def _expanded(self, tensor: Tensor, strides: tuple[int, ...]) -> Any:
        few = tensor.array()[tuple(slice(0, 1) if step == 0 else slice(None) for step in strides)]
        order = sorted(range(few.ndim), key=lambda dim: -strides[dim])
        made = self._oneflow.tensor(np.ascontiguousarray(few.transpose(order)))
        return made.permute(*(order.index(dim) for dim in range(few.ndim))).expand(*tensor.shape)

    def _elements(self, tensor: Tensor) -> Array:
        if tensor.storage is None:
            return storage_elements(tensor.data, tensor.dtype, _span(tensor))
        if tensor.storage not in self._storages:
            count = max(self._sizes.get(tensor.storage, 0), _span(tensor))
            if isinstance(tensor.data, Literal):
                count = len(tensor.data.data) // DTYPES[tensor.dtype].itemsize
            self._storages[tensor.storage] = storage_elements(tensor.data, tensor.dtype, count)
        return self._storages[tensor.storage]


def _plain_array(tensor: Tensor) -> Array:
    """The elements of a contiguous tensor; a view of literal bytes where they are just that, since OneFlow copies them anyway."""
    info = DTYPES[tensor.dtype]
    if isinstance(tensor.data, Literal) and tensor.offset == 0 and len(tensor.data.data) == math.prod(tensor.shape) * info.itemsize:
        return np.frombuffer(tensor.data.data, dtype=np.dtype(info.carrier)).reshape(tensor.shape)
    return tensor.array()


def _bfloat16_bits(array: Any) -> Array:
    return float32_to_bfloat16(array).reshape(array.shape)  # it turns a scalar into a vector of one


def _span(tensor: Tensor) -> int:
    strides = tensor.strides if tensor.strides is not None else contiguous_strides(tensor.shape)
    return storage_size(tensor.shape, strides, tensor.offset)


def dtype_name(dtype: Any, where: str = "") -> str:
    """PyTorch's name of a OneFlow dtype; raises HarnessError that names one which has no counterpart."""
    name = _TORCH_DTYPES.get(str(dtype))
    if name is None:
        raise HarnessError(f"{where}: OneFlow's dtype {dtype} has no counterpart in PyTorch")
    return name


def from_flow(oneflow: Any, value: Any, where: str) -> Value:
    """What OneFlow returned, as a Value with literal tensors; waits until it is computed.

    Raises HarnessError naming the type and its position for anything outside the grammar, and lets OneFlow's own errors through.
    """
    return convert(oneflow, value, where, _literal)


def convert(oneflow: Any, value: Any, where: str, tensor: Callable[[Any, str], Value]) -> Value:
    """`value` in the containers of the grammar, with `tensor` of each OneFlow tensor and its position.

    Raises HarnessError naming the type and its position for anything outside the grammar.
    """
    if isinstance(value, oneflow.Tensor):
        return tensor(value, where)
    if value is None or isinstance(value, bool | str):
        return value
    if type(value) in (int, float):
        return value
    if isinstance(value, oneflow.Size):
        return tuple(int(size) for size in value)
    if isinstance(value, tuple | list | oneflow._oneflow_internal.TensorTuple):
        items = [convert(oneflow, item, f"{where}[{index}]", tensor) for index, item in enumerate(value)]
        listed = isinstance(value, list) and not isinstance(value, oneflow._oneflow_internal.TensorTuple)
        return items if listed else tuple(items)
    if isinstance(value, dict):
        return {key: convert(oneflow, item, f"{where}[{key!r}]", tensor) for key, item in value.items()}
    raise HarnessError(
        f"{where}: OneFlow returned a {type(value).__module__}.{type(value).__qualname__}, which has no place in the value grammar"
    )


def _literal(tensor: Any, where: str) -> Tensor:
    name = dtype_name(tensor.dtype, where)
    array = tensor.numpy()
    return tensor_from_array(_bfloat16_bits(array) if name == "bfloat16" else array, name)
