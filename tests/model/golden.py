"""Prints the ids and fills that must never change, as JSON; run by interpreters of every supported version."""

from __future__ import annotations

import hashlib
import json
import struct

import numpy as np

from harness.model.case import Call, Case
from harness.model.codec import case_id, from_json, from_wire, to_json, to_wire, value_to_data
from harness.model.fill import Fill, Literal, storage_elements
from harness.model.program import ModuleRecipe, Node, Program, TensorSpec
from harness.model.symbols import Sym, Symbol
from harness.model.values import Device, DType, Layout, MemoryFormat, Ref, Tensor

RECIPES = ("exact/1", "ordinary/1", "special/1", "integers/1", "permutation/1", "constant/1")
DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int8", "uint8", "bool", "complex64")
NAN = struct.unpack(">d", bytes.fromhex("fff0000000000001"))[0]


def case() -> Case:
    """A case that uses the whole value grammar, symbols, shared storage and a module."""
    grammar = (
        (None, True, -1, 2**70, 0.1, -0.0, NAN, float("inf"), complex(1.5, NAN), "é\u2028", ..., slice(None, 3)),
        [DType("float32"), Device("cpu"), Layout("strided"), MemoryFormat("channels_last"), Sym("s0*2"), {1: "a", None: ()}],
        Tensor("int64", (2,), Literal(bytes(range(16))), (1,), 0, "shared"),
        Fill("exact/1", 9, -4, 4),
    )
    spec = TensorSpec("float32", (Sym("s0"), 4), (1, 0), (), None, 1, "x", True)
    program = Program(
        (
            Node("x0", "placeholder", "x0", role="input", spec=spec),
            Node("s", "placeholder", "s", role="symint", spec=Sym("s0 + 1")),
            Node("linear_0", "call_module", "linear", (Ref("x0"),)),
            Node("odd_1", "call_function", "torch.odd", grammar, {"b": Ref("x0"), "a": 1}),
            Node("output", "output", "output", ({"out": [Ref("odd_1"), Ref("linear_0")]},)),
        ),
        {"linear": ModuleRecipe("torch.nn.Linear", (4, 2), {"bias": False}, state={"weight": TensorSpec("float32", (2, 4))})},
    )
    calls = (Call({"s0": 3}, {"x": Fill("exact/1", 1)}), Call({"s0": 5}, {"x": Fill("ordinary/1", 2)}))
    return Case(program, calls, (Symbol("s0", 2, 16),), {"linear.weight": Fill("exact/1", 3)}, "fwd", "exact")


def golden() -> dict[str, str]:
    """Every golden value by name."""
    item = case()
    found = {
        "case": case_id(item),
        "reread": case_id(from_json(Case, to_json(item, indent=2))),
        "wire": case_id(from_wire(Case, to_wire(item))),
        "empty": case_id(Case(Program((Node("output", "output", "output", (None,)),)))),
        "value": hashlib.sha256(json.dumps(value_to_data(item.program.nodes[3].args)).encode()).hexdigest()[:16],
    }
    for recipe in RECIPES:
        for dtype in DTYPES:
            elements = storage_elements(Fill(recipe, 12345, -7, 100), dtype, 37)
            found[f"{recipe} {dtype}"] = hashlib.sha256(np.ascontiguousarray(elements).tobytes()).hexdigest()[:16]
    return found


if __name__ == "__main__":
    print(json.dumps(golden()))
