"""Execution by itself: what crosses the boundary of a compiled function."""

from __future__ import annotations

import numpy as np
import pytest

from harness.backends.torch_mlir.backend import toolchain
from harness.backends.torch_mlir.boundary import WRAPPER_PASSES, carries_bfloat16, wrap_bfloat16
from harness.backends.torch_mlir.jit import Executable
from harness.backends.torch_mlir.pipelines import REFERENCE_LLVM_PASSES, StageFailure, short_llvm_passes
from harness.model.dtypes import DTYPES
from harness.model.values import tensor_from_array

TYPES = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "int8": "i8",
    "uint8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "bool": "i1",
    "complex64": "complex<f32>",
}


def passing_through(element: str, *shapes: str) -> str:
    """A module that returns its arguments, each of a shape such as `2x3x`."""
    kinds = [f"tensor<{shape}{element}>" for shape in shapes]
    formal = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(kinds))
    actual = ", ".join(f"%a{i}" for i in range(len(kinds)))
    return f"module {{\n  func.func @main({formal}) -> ({', '.join(kinds)}) {{\n    return {actual} : {', '.join(kinds)}\n  }}\n}}\n"


def compiled(text: str, dtypes: list[str | None], *, reference: bool = False) -> Executable:
    module = toolchain().parse(text)
    passes = REFERENCE_LLVM_PASSES if reference else short_llvm_passes(text)
    wrapping: tuple[str, ...] = ()
    if carries_bfloat16(module):
        wrapping, module = WRAPPER_PASSES, toolchain().parse(wrap_bfloat16(module, text))
    toolchain().run(module, (*wrapping, *passes), stage="llvm")
    return Executable(module, dtypes)


@pytest.mark.parametrize("dtype", [*TYPES, "bfloat16"])
def test_every_dtype_comes_back_as_it_went_in(dtype: str) -> None:
    rng = np.random.default_rng(1)
    carrier = np.dtype(DTYPES[dtype].carrier)
    bits = rng.integers(0, 2 if dtype == "bool" else 256, 6 * carrier.itemsize, dtype=np.uint8)
    value = tensor_from_array(bits.view(carrier).reshape(2, 3), dtype)
    assert compiled(passing_through(TYPES.get(dtype, "bf16"), "2x3x"), [dtype])([value]) == [value]


def test_int64_keeps_its_high_bits() -> None:
    value = tensor_from_array(np.array([2**40 + 1, -(2**62)]), "int64")
    assert compiled(passing_through("i64", "2x"), ["int64"])([value]) == [value]


@pytest.mark.parametrize("reference", [False, True])
def test_several_results_empty_ones_and_ones_without_dims(reference: bool) -> None:
    values = [tensor_from_array(np.ones(shape), "float32") for shape in ((), (0, 3), (2, 2))]
    executable = compiled(passing_through("f32", "", "0x3x", "2x2x"), [None] * 3, reference=reference)
    assert executable(values) == values


def test_one_function_serves_many_shapes() -> None:
    executable = compiled(passing_through("bf16", "?x2x"), ["bfloat16"])
    for rows in (1, 4, 0):
        value = tensor_from_array(np.arange(rows * 2).reshape(rows, 2), "bfloat16")
        assert executable([value]) == [value]


def test_scalars_come_back_as_python_numbers() -> None:
    text = """module {
  func.func @main(%a: tensor<3x4xf32>) -> (i64, f64, i1) {
    %i = arith.constant 1099511627776 : i64
    %f = arith.constant 2.5 : f64
    %b = arith.constant true
    return %i, %f, %b : i64, f64, i1
  }
}
"""
    assert compiled(text, [None] * 3)([tensor_from_array(np.ones((3, 4)), "float32")]) == [2**40, 2.5, True]


def test_results_do_not_change_with_the_next_call() -> None:
    executable = compiled(passing_through("f32", "2x"), ["float32"])
    first, second = (tensor_from_array(np.full(2, k), "float32") for k in (1.0, 2.0))
    kept = executable([first])
    executable([second])
    assert kept == [first]


def test_a_stage_that_fails_says_where() -> None:
    module = toolchain().parse(passing_through("bf16", "2x"))
    with pytest.raises(StageFailure, match="argument must be a memref") as caught:
        toolchain().run(module, REFERENCE_LLVM_PASSES, stage="llvm")
    assert caught.value.stage == "llvm" and not caught.value.invalid_ir
