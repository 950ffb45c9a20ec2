"""The result types that torch-mlir claims, read from a function in the torch dialect."""

from __future__ import annotations

import re

from torch_mlir import ir

_TENSOR = re.compile(r"^!torch\.v?tensor(?:<(?:\[(?P<dims>[^\]]*)\]|(?P<unranked>\*))(?:,(?P<dtype>.+))?>)?$")
_DTYPES = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "si8": "int8",
    "ui8": "uint8",
    "si16": "int16",
    "si32": "int32",
    "si64": "int64",
    "i1": "bool",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
}

Claim = tuple[str | None, tuple[int | None, ...] | None]


def tensor_claim(text: str) -> Claim | None:
    """The dtype and shape that a torch type states, None for what it leaves open; None for a type that is no tensor."""
    match = _TENSOR.match(text)
    if match is None:
        return None
    dtype = _DTYPES.get(match["dtype"]) if match["dtype"] else None
    if match["dims"] is None:
        return dtype, None
    dims = [dim.strip() for dim in match["dims"].split(",") if dim.strip()]
    return dtype, tuple(None if dim == "?" else int(dim) for dim in dims)


def result_claims(module: ir.Module, function: str = "main") -> tuple[Claim | None, ...]:
    """What each result of `function` is said to be; raises KeyError where there is no such function."""
    for op in module.body.operations:
        if ir.StringAttr(op.attributes["sym_name"]).value == function:
            signature = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
            return tuple(tensor_claim(str(kind)) for kind in signature.results)
    raise KeyError(function)
