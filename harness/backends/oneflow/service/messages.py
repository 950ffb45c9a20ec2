"""What passes between torch's process and OneFlow's: containers, numbers and tensors, as plain data for msgpack.

Each side knows its own tensors; this module knows every container that may pass, and nothing else passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from harness.errors import FxdiffError
from harness.model.values import DType

Plain = Any  # what msgpack can say
BACKWARD = " (backward)"  # follows the name of a node while its derivative is computed
INLINE_BYTES = 1 << 15  # larger tensors go through shared memory

_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder()


class CannotPass(FxdiffError):
    """A value of a type that neither side could understand from the other."""


class Packed(msgspec.Struct, frozen=True, array_like=True):
    """A tensor on its way: dtype by PyTorch's name, shape, and its contiguous bytes or their offset in shared memory."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes = b""
    offset: int = -1

    def size(self, itemsize: int) -> int:
        """Its bytes."""
        count = itemsize
        for extent in self.shape:
            count *= extent
        return count


def pack(message: dict[str, Any]) -> bytes:
    """A message as bytes."""
    return _PACK.encode(message)


def unpack(data: bytes) -> dict[str, Any]:
    """A message from bytes; raises msgspec.DecodeError."""
    message = _UNPACK.decode(data)
    if not isinstance(message, dict):
        raise msgspec.DecodeError(f"a message is a map, not a {type(message).__name__}")
    return message


def encode(
    value: Any, where: str, tensor: Callable[[Any, str], Packed | None], normal: Callable[[Any], Any] = lambda value: value
) -> Plain:
    """`value` as plain data; `tensor` packs what it knows as a tensor and returns None for anything else.

    `normal` may turn a container class of one's own into a tuple, list or dict. Raises CannotPass with the type and the
    position, `where` and what follows, for anything that has no place.
    """
    packed = tensor(value, where)
    if packed is not None:
        return {"tensor": packed}
    value = normal(value)
    kind = type(value)
    if value is None or kind in (bool, str, float):
        return value
    if kind is int:
        if not -(1 << 63) <= value < 1 << 64:
            raise CannotPass(f"{where}: the integer {value} is too large")
        return value
    if kind is DType:
        return {"dtype": value.name}
    if isinstance(value, tuple | list):
        items = [encode(item, f"{where}[{index}]", tensor, normal) for index, item in enumerate(value)]
        return items if isinstance(value, list) else {"tuple": items}
    if isinstance(value, dict):
        return {
            "dict": [[encode(key, where, tensor, normal), encode(item, f"{where}[{key!r}]", tensor, normal)] for key, item in value.items()]
        }
    if kind is slice:
        return {"slice": [encode(part, where, tensor, normal) for part in (value.start, value.stop, value.step)]}
    raise CannotPass(f"{where}: a {kind.__module__}.{kind.__qualname__} can pass neither to OneFlow nor from it")


def decode(plain: Plain, tensor: Callable[[Packed], Any]) -> Any:
    """The value behind plain data, its tensors made by `tensor`; raises CannotPass for what `encode` never writes."""
    if isinstance(plain, list):
        return [decode(item, tensor) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if len(plain) == 1:
        ((tag, body),) = plain.items()
        if tag == "tensor":
            return tensor(msgspec.convert(body, Packed))
        if tag == "tuple":
            return tuple([decode(item, tensor) for item in body])
        if tag == "dict":
            return {decode(key, tensor): decode(item, tensor) for key, item in body}
        if tag == "slice":
            return slice(*(decode(part, tensor) for part in body))
        if tag == "dtype":
            return DType(body)
    raise CannotPass(f"a value tagged {', '.join(map(str, plain))}")


def flat(value: Any) -> Iterator[Any]:
    """The leaves of nested tuples, lists and dicts, in the order in which `encode` meets them."""
    if isinstance(value, tuple | list):
        for item in value:
            yield from flat(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from flat(item)
    else:
        yield value
