# mypy: ignore-errors
"""bfloat16 in and out of a compiled function; reproducers inline this file's body where they need it.

The reference backend's calling convention knows no bfloat16 memrefs, so a wrapper passes the same bits as 16-bit integers.
"""

# --- inlined from here ---
import re

from torch_mlir import ir, passmanager


def pass_bfloat16_as_bits(module):
    """The module with a `main` that takes and returns bfloat16 tensors as i16 and calls the original one."""
    (main,) = (op for op in module.body if op.attributes["sym_name"].value == "main")
    inputs, outputs = main.attributes["function_type"].value.inputs, main.attributes["function_type"].value.results
    lines = []

    def bits(kind):
        return re.sub(r"bf16>$", "i16>", str(kind))

    def cast(value, kind, new, old):
        """Reinterpret every element of a tensor and return the new value's name; other dtypes pass as they are."""
        if not str(kind).endswith("bf16>"):
            return value
        start, end = (bits(kind), str(kind)) if new == "bf16" else (str(kind), bits(kind))
        name, rank = f"%cast{len(lines)}", str(kind).count("x")
        sizes = []
        for axis, dim in enumerate(str(kind)[len("tensor<") :].split("x")[:-1]):
            if dim == "?":
                lines.append(f"{name}_c{axis} = arith.constant {axis} : index")
                lines.append(f"{name}_d{axis} = tensor.dim {value}, {name}_c{axis} : {start}")
                sizes.append(f"{name}_d{axis}")
        lines.append(f"{name}_e = tensor.empty({', '.join(sizes)}) : {end}")
        dims = ", ".join(f"d{axis}" for axis in range(rank))
        maps, loops = f"affine_map<({dims}) -> ({dims})>", ", ".join(['"parallel"'] * rank)
        body = f"^bb0(%a: {old}, %b: {new}): %c = arith.bitcast %a : {old} to {new} linalg.yield %c : {new}"
        lines.append(
            f"{name} = linalg.generic {{indexing_maps = [{maps}, {maps}], iterator_types = [{loops}]}}"
            f" ins({value} : {start}) outs({name}_e : {end}) {{ {body} }} -> {end}"
        )
        return name

    given = [cast(f"%arg{index}", kind, "bf16", "i16") for index, kind in enumerate(inputs)]
    results = ", ".join(map(str, outputs))
    lines.append(f"%results:{len(outputs)} = func.call @original({', '.join(given)}) : ({', '.join(map(str, inputs))}) -> ({results})")
    returned = [cast(f"%results#{index}", kind, "i16", "bf16") for index, kind in enumerate(outputs)]
    lines.append(f"func.return {', '.join(returned)} : {', '.join(map(bits, outputs))}")
    arguments = ", ".join(f"%arg{index}: {bits(kind)}" for index, kind in enumerate(inputs))
    wrapper = f"func.func @main({arguments}) -> ({', '.join(map(bits, outputs))}) {{\n" + "\n".join(lines) + "\n}\n"
    text = module.operation.get_asm().replace("func.func @main(", "func.func private @original(", 1)
    wrapped = ir.Module.parse(text.replace("module {\n", f"module {{\n{wrapper}", 1), module.context)
    with wrapped.context:
        passmanager.PassManager.parse("builtin.module(inline, symbol-dce)").run(wrapped.operation)
    return wrapped
