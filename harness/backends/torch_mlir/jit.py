"""Executing a lowered module on the wheel's ExecutionEngine, by the reference backend's calling convention.

Every tensor argument is an unranked memref; results come back through a callback whose name spells their types
(`refbackend_consume_func_return_mrf32_i64`). The memory of a result is valid only inside the callback, so it is copied
there.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.execution_engine import ExecutionEngine

from harness.errors import Unsupported
from harness.model.dtypes import DTYPES, Array
from harness.model.fill import MAX_ELEMENTS
from harness.model.values import Tensor, Value, tensor_from_array

_CONSUMER = "refbackend_consume_func_return_"

_MEMREF_DTYPE = {
    "mrf16": "float16",
    "mrbf16": "bfloat16",
    "mrf32": "float32",
    "mrf64": "float64",
    "mri1": "bool",
    "mri8": "int8",
    "mri16": "int16",
    "mri32": "int32",
    "mri64": "int64",
    "mrc32": "complex64",
    "mrc64": "complex128",
}
# (as the callback says, as declared): the same bits under another name.
_SAME_BITS = {("int8", "uint8"), ("int16", "bfloat16")}
_SCALAR_CTYPE: dict[str, Any] = {
    "i1": ctypes.c_bool,
    "i8": ctypes.c_int8,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}


class RunFailure(Exception):
    """The compiled code handed back what cannot be: no results, or a result of impossible shape."""


class _UnrankedMemRef(ctypes.Structure):
    _fields_ = (("rank", ctypes.c_int64), ("descriptor", ctypes.c_void_p))


@dataclass(frozen=True, slots=True)
class _Descriptor:
    """A memref over an array's memory, with everything that must stay alive during the call."""

    pointer: ctypes.c_void_p
    keep: tuple[object, ...]


def _describe(array: Array) -> _Descriptor:
    rank = array.ndim
    strides = [stride // array.itemsize for stride in array.strides]
    address = array.ctypes.data
    fields = (ctypes.c_int64 * (3 + 2 * rank))(address, address, 0, *array.shape, *strides)
    memref = _UnrankedMemRef(rank, ctypes.addressof(fields))
    inner = ctypes.c_void_p(ctypes.addressof(memref))
    return _Descriptor(ctypes.c_void_p(ctypes.addressof(inner)), (array, fields, memref, inner))


def _read(memref: _UnrankedMemRef, dtype: str) -> Array:
    rank = memref.rank
    fields = (ctypes.c_int64 * (3 + 2 * rank)).from_address(memref.descriptor)
    aligned, offset = fields[1], fields[2]
    shape, strides = tuple(fields[3 : 3 + rank]), tuple(fields[3 + rank :])
    carrier = np.dtype(DTYPES[dtype].carrier)
    if any(size < 0 for size in shape) or math.prod(shape) > MAX_ELEMENTS:
        raise RunFailure(f"a result memref claims shape {shape}")
    if 0 in shape:
        return np.empty(shape, carrier)
    lowest = sum(min(0, (size - 1) * stride) for size, stride in zip(shape, strides, strict=True))
    highest = sum(max(0, (size - 1) * stride) for size, stride in zip(shape, strides, strict=True))
    start = aligned + (offset + lowest) * carrier.itemsize
    memory = (ctypes.c_char * ((highest - lowest + 1) * carrier.itemsize)).from_address(start)
    elements = np.frombuffer(memory, dtype=carrier)
    view = np.lib.stride_tricks.as_strided(elements[-lowest:], shape, [stride * carrier.itemsize for stride in strides])
    return np.array(view, order="C")


def symbol_names(module: ir.Module) -> list[str]:
    """The names of the functions that `module` holds."""
    return [ir.StringAttr(op.attributes["sym_name"]).value for op in module.body.operations if "sym_name" in op.attributes]


def prefer_cheap_code(module: ir.Module) -> None:
    """Mark every function `optnone`: code generation costs half, and a test case's code runs once or twice."""
    with module.context:
        unit = ir.UnitAttr.get()
        for op in module.body.operations:
            if op.operation.name == "llvm.func" and len(op.regions[0].blocks) > 0:
                op.attributes["optimize_none"] = unit
                op.attributes["no_inline"] = unit


class Executable:
    """A module in the LLVM dialect, compiled on its first call.

    `dtypes` are the declared dtypes of the results, used only where the calling convention has one name for two: it
    tells neither unsigned from signed nor, by our own wrapper, bfloat16 from int16. Raises RuntimeError where
    LLVM does not take the module.
    """

    def __init__(self, module: ir.Module, dtypes: Sequence[str | None], *, function: str = "main") -> None:
        prefer_cheap_code(module)
        self._dtypes = tuple(dtypes)
        self._results: list[Value] | None = None
        self._fault: Exception | None = None
        self._callbacks: list[object] = []
        self._engine = ExecutionEngine(module, opt_level=0, enable_object_dump=False)
        for name in symbol_names(module):
            if name.startswith(_CONSUMER):
                self._register(name)
        self._function = function
        self._entry: object = None

    def _register(self, name: str) -> None:
        tags = name[len(_CONSUMER) :].split("_")
        prototype = ctypes.CFUNCTYPE(None, *(_SCALAR_CTYPE.get(tag, ctypes.POINTER(_UnrankedMemRef)) for tag in tags))

        def consume(*values: object) -> None:
            # An exception cannot cross the compiled frames below; it is raised again after the call.
            try:
                self._results = [self._result(i, tag, value) for i, (tag, value) in enumerate(zip(tags, values, strict=True))]
            except Exception as error:
                self._fault = error

        callback = prototype(consume)
        self._callbacks.append(callback)
        self._engine.register_runtime(name, callback)

    def _result(self, index: int, tag: str, value: object) -> Value:
        if tag in _SCALAR_CTYPE:
            return value
        dtype = _MEMREF_DTYPE[tag]
        declared = self._dtypes[index] if index < len(self._dtypes) else None
        if declared is not None and (dtype, declared) in _SAME_BITS:
            dtype = declared
        return tensor_from_array(_read(value.contents, dtype), dtype)  # type: ignore[attr-defined]

    def compile(self) -> None:
        """Generate the machine code.

        Raises Unsupported where the code calls a routine that the wheel's engine does not come with, such as compiler-rt's
        `__truncdfbf2`: the engine then drops the function, and it is no fault of the lowering.
        """
        address = self._engine.raw_lookup(f"_mlir_ciface_{self._function}")
        if not address:
            raise Unsupported("the generated code calls a routine that the wheel's execution engine does not come with")
        self._entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)

    def __call__(self, arguments: Sequence[Tensor]) -> list[Value]:
        """Run on `arguments` and return the results: a Tensor, int, float or bool each. Raises RunFailure."""
        if self._entry is None:
            self.compile()
        described = [_describe(np.ascontiguousarray(t.array()).reshape(t.shape)) for t in arguments]
        packed = (ctypes.c_void_p * max(1, len(described)))(*(d.pointer for d in described))
        self._results, self._fault = None, None
        self._entry(packed)  # type: ignore[operator]
        if self._fault is not None:
            raise self._fault
        if self._results is None:
            raise RunFailure("the compiled function returned without handing over its results")
        return self._results
