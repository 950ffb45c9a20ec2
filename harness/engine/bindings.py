"""A second size for a captured dynamic case: what compiles for one size only is found out by the next one."""

from __future__ import annotations

import dataclasses

import numpy as np

from harness.errors import FormatError
from harness.minimize.edits import checked, literal_case
from harness.model.case import Call, Case
from harness.model.dtypes import DTYPES
from harness.model.fill import Literal
from harness.model.program import TensorSpec
from harness.model.symbols import Symbol
from harness.model.values import storage_size


def with_second_binding(case: Case) -> Case | None:
    """The case called once more with every symbolic size changed, its inputs' elements repeated as far as they go.

    None where there is nothing symbolic, where it has several calls already, or where no other size is in range. Whether
    the program takes that size is for eager to say.
    """
    if not case.symbols or len(case.calls) != 1:
        return None
    literal = literal_case(case)
    (call,) = literal.calls
    binding = {symbol.name: _other(symbol, call.binding[symbol.name]) for symbol in case.symbols}
    if all(binding[name] == call.binding[name] for name in binding):
        return None
    data = dict(call.data)
    try:
        for storage, (dtype, size) in _sizes(literal, binding).items():
            found = data.get(storage)
            if isinstance(found, Literal):
                data[storage] = _repeated(found, dtype, size)
    except FormatError:
        return None
    return checked(dataclasses.replace(literal, calls=(call, Call({**call.binding, **binding}, data))))


def _other(symbol: Symbol, size: int) -> int:
    """Another size in the symbol's range, the next larger one where there is one; sizes below 2 are special to compilers."""
    for other in (size + 1, size - 1):
        if max(symbol.low, 2) <= other <= symbol.high:
            return other
    return size


def _sizes(case: Case, binding: dict[str, int]) -> dict[str, tuple[str, int]]:
    """The dtype of each input's storage, and how many elements it must hold."""
    found: dict[str, tuple[str, int]] = {}
    for node in case.program.placeholders:
        if node.role == "input" and isinstance(node.spec, TensorSpec):
            name, spec = node.spec.storage or node.name, node.spec
            size = storage_size(spec.concrete_shape(binding), spec.concrete_strides(binding), spec.offset)
            found[name] = (spec.dtype, max(size, found.get(name, ("", 0))[1]))
    return found


def _repeated(data: Literal, dtype: str, size: int) -> Literal:
    elements = np.frombuffer(data.data, dtype=np.uint8).reshape(-1, DTYPES[dtype].itemsize)
    if not len(elements):
        return Literal(bytes(size * DTYPES[dtype].itemsize))
    return Literal(elements[np.arange(size) % len(elements)].tobytes())
