# mypy: ignore-errors
"""Has torch-mlir infer types that PyTorch had said; reproducers inline this file's body."""

# --- inlined from here ---
import re

from torch_mlir import ir, passmanager


def infer(module, unknown_sizes=False):
    """Erase what PyTorch said of results, and with `unknown_sizes` of arguments' sizes; have torch-mlir find it again."""
    (main,) = (op for op in module.body if op.attributes["sym_name"].value == "main")
    block = main.regions[0].blocks[0]

    def erase(op):
        if op.name not in ("func.func", "torch.vtensor.literal"):
            for result in op.results:
                bare = re.sub(r"vtensor<(\[[^\]]*\]|\*)(,[^<>]*(<[^<>]*>)?)?>", "vtensor", str(result.type))
                result.set_type(ir.Type.parse(bare, module.context))
        return ir.WalkResult.ADVANCE

    main.operation.walk(erase)
    for argument in block.arguments if unknown_sizes else ():
        sizes = re.sub(r"(?<=vtensor<\[)[^\]]+(?=\])", lambda dims: re.sub(r"[^,]+", "?", dims[0]), str(argument.type))
        argument.set_type(ir.Type.parse(sizes, module.context))
    results = [value.type for value in list(block.operations)[-1].operands]
    with module.context:
        kind = ir.FunctionType.get([argument.type for argument in block.arguments], results)
        main.attributes["function_type"] = ir.TypeAttr.get(kind)
        passmanager.PassManager.parse("builtin.module(torch-lower-to-backend-contract)").run(module.operation)
    return module
