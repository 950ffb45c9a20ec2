"""bfloat16 across the boundary of a compiled function.

The reference backend's calling convention knows no bfloat16 memrefs. A wrapper takes and returns the same bits as
16-bit integers; the program inside stays as torch-mlir made it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from torch_mlir import ir

_ENTRY = "func.func @main("
_BFLOAT16 = re.compile(r"^tensor<((?:[0-9?]+x)*)bf16>$")

WRAPPER_PASSES = ("inline", "symbol-dce")


def carries_bfloat16(module: ir.Module) -> bool:
    """Whether `main` takes or returns a bfloat16 tensor."""
    arguments, results = _signature(module)
    return any(_BFLOAT16.match(kind) for kind in (*arguments, *results))


def wrap_bfloat16(module: ir.Module, linalg: str) -> str:
    """`linalg`, the text of `module`, with a `main` that passes bfloat16 as i16; run WRAPPER_PASSES over it first."""
    arguments, results = _signature(module)
    lines: list[str] = []
    passed = [_bitcast(lines, f"%arg{i}", f"%in{i}", kind, incoming=True) for i, kind in enumerate(arguments)]
    made = [f"%program#{i}" for i in range(len(results))] if len(results) > 1 else ["%program"]
    binding = f"%program:{len(results)}" if len(results) > 1 else "%program"
    lines.append(f"{binding} = call @program({', '.join(passed)}) : ({', '.join(arguments)}) -> ({', '.join(results)})")
    returned = [_bitcast(lines, name, f"%out{i}", kind, incoming=False) for i, (name, kind) in enumerate(zip(made, results, strict=True))]
    outer = [_integer(kind) for kind in results]
    lines.append(f"return {', '.join(returned)} : {', '.join(outer)}")
    formal = ", ".join(f"%arg{i}: {_integer(kind)}" for i, kind in enumerate(arguments))
    wrapper = f"func.func @main({formal}) -> ({', '.join(outer)}) {{\n" + "\n".join(lines) + "\n}\n"
    inner = linalg.replace(_ENTRY, "func.func private @program(", 1)
    head, brace, tail = inner.partition("module {\n")
    return head + brace + wrapper + tail


def _signature(module: ir.Module) -> tuple[list[str], list[str]]:
    for op in module.body.operations:
        if op.operation.name == "func.func" and ir.StringAttr(op.attributes["sym_name"]).value == "main":
            kind = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
            return [str(item) for item in kind.inputs], [str(item) for item in kind.results]
    return [], []


def _integer(kind: str) -> str:
    return _BFLOAT16.sub(r"tensor<\1i16>", kind)


def _bitcast(lines: list[str], source: str, target: str, kind: str, *, incoming: bool) -> str:
    """Append the elementwise bitcast of a bfloat16 tensor from or to i16; other kinds pass as they are."""
    match = _BFLOAT16.match(kind)
    if match is None:
        return source
    dims: Sequence[str] = match[1].split("x")[:-1]
    old, new = (_integer(kind), kind) if incoming else (kind, _integer(kind))
    old_element, new_element = ("i16", "bf16") if incoming else ("bf16", "i16")
    sizes: list[str] = []
    for index, dim in enumerate(dims):
        if dim == "?":
            lines.append(f"{target}_c{index} = arith.constant {index} : index")
            lines.append(f"{target}_d{index} = tensor.dim {source}, {target}_c{index} : {old}")
            sizes.append(f"{target}_d{index}")
    lines.append(f"{target}_e = tensor.empty({', '.join(sizes)}) : {new}")
    names = ", ".join(f"d{index}" for index in range(len(dims)))
    identity = f"affine_map<({names}) -> ({names})>"
    loops = ", ".join('"parallel"' for _ in dims)
    lines.append(
        f"{target} = linalg.generic {{indexing_maps = [{identity}, {identity}], iterator_types = [{loops}]}} "
        f"ins({source} : {old}) outs({target}_e : {new}) {{\n"
        f"^bb0(%a: {old_element}, %b: {new_element}):\n"
        f"  %c = arith.bitcast %a : {old_element} to {new_element}\n"
        f"  linalg.yield %c : {new_element}\n}} -> {new}"
    )
    return target
