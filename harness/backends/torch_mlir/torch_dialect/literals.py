"""Constants of the torch dialect as torch objects: attributes, dense elements, and resources beside the module."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch_mlir import ir

from harness.backends.torch_mlir.declared import tensor_claim
from harness.torch_bridge.tensors import TORCH_DTYPES

_VALUE = re.compile(r"\bdense<(?P<elements>.*)> : tensor<", re.DOTALL)
_RESOURCE = re.compile(r"\bdense_resource<(?P<name>[\w.$\"-]+)> : tensor<")
_RESOURCE_BLOB = re.compile(r'(?P<name>[\w.$"-]+): "0x(?P<hex>[0-9A-Fa-f]*)"')
_HEX_TEXT = re.compile(r'^"0x(?P<hex>[0-9A-Fa-f]*)"$')
_COMPLEX = re.compile(r"\(([^(),]+),([^(),]+)\)")
_NUMBER = re.compile(r"[^\s,\[\]]+")
_PARTS = {"complex64": "float32", "complex128": "float64"}
_INTEGER_OF = {2: "<u2", 4: "<u4", 8: "<u8"}


class UnknownLiteral(Exception):
    """A constant that is written in a way that nobody here reads."""


def resources(text: str) -> dict[str, bytes]:
    """The blobs behind a module's text, by name: each begins with four bytes of alignment."""
    _, mark, tail = text.partition("dialect_resources:")
    return {match["name"]: bytes.fromhex(match["hex"])[4:] for match in _RESOURCE_BLOB.finditer(tail)} if mark else {}


def literal(operation: ir.Operation, blobs: Callable[[], Mapping[str, bytes]]) -> torch.Tensor:
    """The tensor of a `torch.vtensor.literal`; raises UnknownLiteral."""
    claim = tensor_claim(str(operation.results[0].type))
    if claim is None or claim[0] is None or claim[1] is None or None in claim[1]:
        raise UnknownLiteral(f"a literal of type {operation.results[0].type}")
    dtype, shape = claim[0], tuple(size for size in claim[1] if size is not None)
    array = _array(operation)
    if array is not None and dtype not in ("bfloat16", *_PARTS):
        return torch.from_numpy(np.array(array)).to(TORCH_DTYPES[dtype]).reshape(shape)
    text = operation.get_asm(enable_debug_info=False)
    resource = _RESOURCE.search(text)
    if resource is not None:
        name = resource["name"]
        if name not in blobs():
            raise UnknownLiteral(f"the resource {name} is not beside the module")
        return _from_bytes(blobs()[name], dtype, shape)
    match = _VALUE.search(text)
    if match is None:
        raise UnknownLiteral(text[:80])
    return _from_text(match["elements"].strip(), dtype, shape)


def _array(operation: ir.Operation) -> np.ndarray[Any, Any] | None:
    """The elements where the bindings hand them over, as they do for the plain dtypes."""
    try:
        attribute = operation.attributes["value"]
        return np.asarray(memoryview(attribute))
    except (TypeError, BufferError, ValueError):
        return None


def _from_bytes(data: bytes, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
    count = int(np.prod(shape, dtype=np.int64))
    if dtype == "bool":
        return torch.from_numpy(np.frombuffer(data, np.uint8)[:count] != 0).reshape(shape)
    wanted = TORCH_DTYPES[dtype]
    if len(data) != count * wanted.itemsize:
        if len(data) != wanted.itemsize:
            raise UnknownLiteral(f"{len(data)} bytes for {count} elements of {dtype}")
        data = data * count  # a splat
    return torch.frombuffer(bytearray(data), dtype=wanted).reshape(shape) if data else torch.empty(shape, dtype=wanted)


def _from_text(text: str, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
    blob = _HEX_TEXT.match(text)
    if blob is not None:
        return _from_bytes(bytes.fromhex(blob["hex"]), dtype, shape)
    part = _PARTS.get(dtype)
    if part is not None:
        numbers: list[Any] = [complex(_number(a, part), _number(b, part)) for a, b in _COMPLEX.findall(text)]
    else:
        numbers = [_number(token, dtype) for token in _NUMBER.findall(text)]
    count = int(np.prod(shape, dtype=np.int64))
    if len(numbers) == 1:
        numbers *= count
    if len(numbers) != count:
        raise UnknownLiteral(f"{len(numbers)} elements where {count} are needed")
    return torch.tensor(numbers, dtype=TORCH_DTYPES[dtype]).reshape(shape)


def _number(token: str, dtype: str) -> Any:
    """A number as MLIR prints it: non-finite floats are the hexadecimal text of their bits."""
    token = token.strip()
    if token in ("true", "false"):
        return token == "true"
    wanted = TORCH_DTYPES[dtype]
    if not wanted.is_floating_point:
        return int(token, 0)
    if token.startswith("0x"):
        bits = int(token, 16)
        if dtype == "bfloat16":
            return struct.unpack("<f", struct.pack("<I", bits << 16))[0]
        return np.array(bits, _INTEGER_OF[wanted.itemsize]).view(f"<f{wanted.itemsize}").item()
    return float(token)


def constant(operation: ir.Operation) -> Any:
    """The value of a `torch.constant.*`; raises UnknownLiteral."""
    kind = operation.name.rpartition(".")[2]
    if kind == "none":
        return None
    value = operation.attributes["value"]
    if kind == "bool":
        return bool(ir.BoolAttr(value).value)
    if kind == "int":
        return int(ir.IntegerAttr(value).value)
    if kind == "float":
        return float(ir.FloatAttr(value).value)
    if kind == "number":
        return float(value.value) if isinstance(value, ir.FloatAttr) else int(ir.IntegerAttr(value).value)
    if kind in ("str", "device"):
        text = ir.StringAttr(value).value
        return torch.device(text) if kind == "device" else text
    raise UnknownLiteral(operation.name)
