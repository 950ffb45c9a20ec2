from __future__ import annotations

import torch

from harness.model.case import Call, Case
from harness.model.fill import Fill
from harness.model.program import Node, Program, TensorSpec
from harness.model.symbols import Sym, Symbol
from harness.model.values import Ref
from harness.torch_bridge.module import build


def test_a_module_with_computed_sizes_exports_with_dynamic_dims() -> None:
    program = Program(
        (
            Node("x0", "placeholder", "x0", role="input", spec=TensorSpec("float32", (Sym("s0"), 3))),
            Node("reshape_0", "call_method", "reshape", (Ref("x0"), Sym("s0*3"))),
            Node("output", "output", "output", ([Ref("reshape_0")],)),
        )
    )
    calls = tuple(Call({"s0": size}, {"x0": Fill("exact/1", size)}) for size in (2, 5))
    built = build(Case(program, calls, (Symbol("s0", 2, 8),)))
    exported = torch.export.export(built.module, built.inputs(0), dynamic_shapes=({0: torch.export.Dim("s0", min=2, max=8)},)).module()
    for index in (0, 1):
        assert torch.equal(exported(*built.inputs(index))[0], built.module(*built.inputs(index))[0])
