"""Operations of the torch dialect by name: the eager operator that each one means, or the little Python that it takes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

# ScalarType's numbering, which the dialect's integers for dtypes follow.
SCALAR_TYPES = (
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.float32,
    torch.float64,
    torch.complex32,
    torch.complex64,
    torch.complex128,
    torch.bool,
    torch.qint8,
    torch.quint8,
    torch.qint32,
    torch.bfloat16,
)
_EMPTY = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted")
_RANDOM = torch.Tag.nondeterministic_seeded
_SPELLED_OTHERWISE = {"aten.bernoulli.float": "aten.bernoulli.p"}  # the dialect's own value-semantics twin
_NAMESPACES = ("aten", "prims", "prim", "quantized", "torchvision", "onnx")


class UnknownOperation(Exception):
    """An operation that nobody here runs."""


@dataclass(frozen=True, slots=True)
class Operator:
    """An eager operator with where its operands go; `undetermined` where its values are nobody's promise."""

    call: Callable[..., Any]
    keywords: tuple[str, ...] = ()  # of the last operands
    dtypes: tuple[int, ...] = ()  # operands that must be torch.dtypes, where the dialect has integers
    undetermined: bool = False
    empty: bool = False
    unpacks: bool = False  # the result holds the operation's results, be it a single one

    def __call__(self, operands: Sequence[Any], *, take: int = 0) -> Any:
        """What the operator makes of an operation's operands; memory that it leaves uninitialized is filled by `take`."""
        operands = list(operands)
        for index in self.dtypes:
            if index < len(operands) and isinstance(operands[index], int):
                operands[index] = SCALAR_TYPES[operands[index]]
        count = len(operands) - len(self.keywords)
        result = self.call(*operands[:count], **dict(zip(self.keywords, operands[count:], strict=True)))
        return _filled(result, take) if self.empty else result


def _filled(tensor: torch.Tensor, take: int) -> torch.Tensor:
    """Uninitialized memory as zeros, or as values that stand out."""
    if take:
        return tensor.zero_()
    if tensor.is_floating_point() or tensor.is_complex():
        return tensor.fill_(float("nan"))
    return tensor.fill_(True) if tensor.dtype is torch.bool else tensor.fill_(torch.iinfo(tensor.dtype).max)


@functools.cache
def operator(name: str) -> Operator:
    """The operator behind `torch.aten.add.Tensor`, or behind that name without `torch.`; raises UnknownOperation."""
    short = name.removeprefix("torch.").removeprefix("valsem.")
    short = _SPELLED_OTHERWISE.get(short, short)
    if short in _SPECIAL:
        return Operator(_SPECIAL[short], unpacks=short.endswith("Unpack"))
    namespace, _, rest = short.partition(".")
    packet_name, _, overload = rest.partition(".")
    if namespace not in _NAMESPACES or not packet_name:
        raise UnknownOperation(name)
    try:
        found = getattr(getattr(getattr(torch.ops, namespace), packet_name), overload or "default")
    except AttributeError as error:
        raise UnknownOperation(name) from error
    arguments = found._schema.arguments
    keywords = tuple(item.name for item in arguments if item.kwarg_only)
    dtypes = tuple(index for index, item in enumerate(arguments) if namespace == "prims" and item.name == "dtype")
    random = _RANDOM in getattr(found, "tags", ())
    empty = namespace == "aten" and packet_name in _EMPTY
    return Operator(found, keywords, dtypes, undetermined=random or empty, empty=empty)


def _view(tensor: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """Values know no strides, so what a view of this size shows is always there."""
    return tensor.reshape(size)


def _as_strided(tensor: torch.Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None) -> torch.Tensor:
    return tensor.contiguous().as_strided(size, stride, offset or 0)


def _overwrite(value: torch.Tensor, overwritten: torch.Tensor) -> None:
    overwritten.copy_(value)


def _assert(condition: bool) -> None:
    if not condition:
        raise RuntimeError("a runtime assertion of the IR does not hold")


def _raise(message: str, _class: str | None = None) -> None:
    raise RuntimeError(f"the IR raises: {message}")


def _append(items: list[Any], item: Any) -> list[Any]:
    items.append(item)
    return items


def _unchanged(value: Any) -> Any:
    return value


def _list(*items: Any) -> list[Any]:
    return list(items)


def _tuple(*items: Any) -> tuple[Any, ...]:
    return items


def _dict(*items: Any) -> dict[Any, Any]:
    half = len(items) // 2
    return dict(zip(items[:half], items[half:], strict=True))


def _tensor(data: Any, dtype: int | None = None, device: Any = None, requires_grad: bool = False) -> torch.Tensor:
    return torch.tensor(data, dtype=None if dtype is None else SCALAR_TYPES[dtype])


def _nothing(*_: Any) -> None:
    return None


_SPECIAL: dict[str, Callable[..., Any]] = {
    "aten.view": _view,
    "aten._reshape_alias": lambda tensor, size, _stride: tensor.reshape(size),
    "aten._unsafe_view": _view,
    "aten.as_strided": _as_strided,
    "aten.__is__": lambda a, b: a is b,
    "aten.__isnot__": lambda a, b: a is not b,
    "aten.__not__": lambda value: not value,
    "aten.__contains__.str": lambda mapping, key: key in mapping,
    "aten.__contains__.int_list": lambda items, item: item in items,
    "aten.__getitem__.t": lambda items, index: items[index],
    "aten.__getitem__.Dict_str": lambda mapping, key: mapping[key],
    "aten._set_item.t": lambda items, index, item: items.__setitem__(index, item) or items,
    "aten.append.t": _append,
    "aten.len.t": len,
    "aten.len.str": len,
    "aten.len.Tensor": len,
    "aten.slice.t": lambda items, start, end, step: items[slice(start, end, step)],
    "aten.add.t": lambda a, b: [*a, *b],
    "aten.mul.left_t": lambda items, count: items * count,
    "aten.list.t": list,
    "aten.insert.t": lambda items, index, item: items.insert(index, item),
    "aten.eq.int_list": lambda a, b: a == b,
    "aten.keys.str": lambda mapping: list(mapping),
    "aten.tensor": _tensor,
    "aten.warn": _nothing,
    "aten.Bool.Tensor": bool,
    "aten.Int.Tensor": int,
    "aten.Float.Tensor": float,
    "aten.Int.Scalar": int,
    "aten.Float.Scalar": float,
    "aten.Int.bool": int,
    "aten.Bool.int": bool,
    "aten.Bool.float": bool,
    "aten.Int.float": int,
    "aten.IntImplicit": int,
    "aten.FloatImplicit": float,
    "aten.ScalarImplicit": lambda tensor: tensor.item(),
    "aten.item": lambda tensor: tensor.item(),
    "aten.size": lambda tensor: list(tensor.shape),
    "aten.dim": lambda tensor: tensor.dim(),
    "aten.device.with_index": lambda kind, index: torch.device(kind, index),
    "prim.ListConstruct": _list,
    "prim.TupleConstruct": _tuple,
    "prim.DictConstruct": _dict,
    "prim.ListUnpack": tuple,
    "prim.TupleUnpack": tuple,
    "prim.TupleIndex": lambda items, index: items[index],
    "prim.NumToTensor.Scalar": torch.tensor,
    "prim.unchecked_cast": _unchanged,
    "prim.Uninitialized": _nothing,
    "prim.layout": lambda _tensor: 0,
    "prim.device": lambda tensor: tensor.device,
    "prim.dtype": lambda tensor: SCALAR_TYPES.index(tensor.dtype),
    "prim.min.self_int": min,
    "prim.min.int": min,
    "prim.max.self_int": max,
    "prim.max.int": max,
    "prim.tolist": lambda tensor, *_: tensor.tolist(),
    "prim.abs.Scalar": abs,
    "prim.Print": _nothing,
    "prim.RaiseException": _raise,
    "tensor_static_info_cast": _unchanged,
    "derefine": _unchanged,
    "copy.to_tensor": lambda tensor: tensor.clone(),
    "copy.to_vtensor": lambda tensor: tensor.clone(),
    "overwrite.tensor.contents": _overwrite,
    "runtime.assert": _assert,
    "bind_symbolic_shape": _nothing,
}
