# mypy: ignore-errors
"""Executes linalg-on-tensors with what the torch-mlir wheel holds; reproducers inline this file's body.

It is written for readers of an upstream issue, hence without annotations.
torch-mlir's own reference backend is not in the wheel, only its passes and MLIR's ExecutionEngine.
"""

# --- inlined from here ---
import ctypes

import numpy as np
import torch
from torch_mlir import passmanager, runtime
from torch_mlir.execution_engine import ExecutionEngine

LINALG_TO_LLVM = """builtin.module(
  func.func(linalg-generalize-named-ops, linalg-fuse-elementwise-ops), convert-shape-to-std,
  func.func(expand-realloc, refback-generalize-tensor-pad, refback-generalize-tensor-concat, tm-tensor-bufferize),
  one-shot-bufferize{copy-before-write bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map},
  refback-mlprogram-bufferize, inline, refback-munge-calling-conventions,
  func.func(tm-tensor-to-loops, refback-munge-memref-copy, convert-linalg-to-loops, lower-affine), convert-scf-to-cf,
  func.func(refback-expand-ops-for-llvm, arith-expand, convert-math-to-llvm), convert-math-to-libm,
  expand-strided-metadata, finalize-memref-to-llvm, lower-affine, convert-scf-to-cf, convert-bufferization-to-memref,
  finalize-memref-to-llvm, func.func(convert-arith-to-llvm), convert-vector-to-llvm, convert-func-to-llvm,
  convert-cf-to-llvm, convert-complex-to-llvm, reconcile-unrealized-casts)"""
ELEMENTS = {
    "mrf64": torch.float64, "mrf32": torch.float32, "mrf16": torch.float16,
    "mri64": torch.int64, "mri32": torch.int32, "mri16": torch.int16, "mri8": torch.int8, "mri1": torch.bool,
    "mrc32": torch.complex64, "mrc64": torch.complex128,
}  # fmt: skip
SCALARS = {
    "i64": ctypes.c_int64,
    "i32": ctypes.c_int32,
    "i8": ctypes.c_int8,
    "i1": ctypes.c_bool,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}
CONSUME = "refbackend_consume_func_return_"


def execute(module, *inputs):
    """Compile a linalg-on-tensors module to LLVM, run its `main` in this process, and return its results."""
    with module.context:
        passmanager.PassManager.parse(LINALG_TO_LLVM).run(module.operation)
    names = [op.attributes["sym_name"].value for op in module.body if "sym_name" in op.attributes]
    engine = ExecutionEngine(module, opt_level=0)
    results, keep = [], []

    def register(name):
        kinds = name.removeprefix(CONSUME).split("_")

        def consume(*values):
            for kind, value in zip(kinds, values, strict=True):
                if kind in SCALARS:
                    results.append(value)
                    continue
                element = torch.zeros(0, dtype=ELEMENTS[kind]).numpy().dtype.type
                results.append(torch.from_numpy(np.array(runtime.unranked_memref_to_numpy(value, element))))

        memref = ctypes.POINTER(runtime.UnrankedMemRefDescriptor)
        callback = ctypes.CFUNCTYPE(None, *[SCALARS.get(kind, memref) for kind in kinds])(consume)
        keep.append(callback)
        engine.register_runtime(name, callback)

    for name in names:
        if name.startswith(CONSUME):
            register(name)
    tensors = [tensor.detach().contiguous() for tensor in inputs if isinstance(tensor, torch.Tensor)]
    arrays = [(tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy() for tensor in tensors]
    pointers = [ctypes.pointer(ctypes.pointer(runtime.get_unranked_memref_descriptor(array))) for array in arrays]
    engine.invoke("main", *pointers)
    return results
