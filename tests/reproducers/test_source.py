from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from harness.model.case import Call, Case
from harness.model.fill import Fill
from harness.model.program import ModuleRecipe, Node, TensorSpec
from harness.model.symbols import Sym, Symbol
from harness.model.values import DType, Ref, Tensor, leaves
from harness.reproducers.source import case_source, module_source
from harness.torch_bridge.tensors import from_torch
from tests.reproducers.builders import data, eager, make_case, placeholder, roll_case


def actual(case: Case, call: int = 0) -> Any:
    source = case_source(case, call=call)
    scope: dict[str, Any] = {}
    with torch.no_grad():
        exec(compile(source, "case", "exec"), scope)
    return from_torch(scope["actual"])


def bits(value: Any) -> list[Any]:
    return [
        (path, leaf.dtype, leaf.shape, leaf.array().tobytes()) if isinstance(leaf, Tensor) else (path, leaf) for path, leaf in leaves(value)
    ]


def call(name: str, target: str, *args: Any, **kwargs: Any) -> Node:
    return Node(name, "call_function", target, args, kwargs)


def cases() -> dict[str, Case]:
    x = placeholder("x0", "float32", (2, 3))
    fill = {"x0": Fill("ordinary/1", 3)}
    linear = ModuleRecipe(
        "torch.nn.Linear", (3, 4), {}, False, {"weight": TensorSpec("float32", (4, 3)), "bias": TensorSpec("float32", (4,))}
    )
    norm = ModuleRecipe(
        "torch.nn.BatchNorm1d",
        (4,),
        {"affine": False},
        True,
        {"running_mean": TensorSpec("float32", (4,)), "running_var": TensorSpec("float32", (4,))},
    )
    state = {"linear.weight": Fill("ordinary/1", 1), "linear.bias": Fill("exact/1", 2)}
    two = {"norm.running_mean": Fill("exact/1", 5), "norm.running_var": Fill("exact/1", 6, 1, 9)}
    size = Node("n", "placeholder", "n", role="symint", spec=Sym("s0"))
    dynamic = placeholder("x0", "float32", (Sym("s0"), 3))
    return {
        "one": roll_case(7),
        "operators": make_case(
            [
                x,
                placeholder("y", "int64", (3,)),
                call("add", "operator.add", Ref("x0"), Ref("y")),
                call("neg", "operator.neg", Ref("add")),
                call("pow", "operator.pow", Ref("neg"), -2),
                call("ge", "operator.ge", Ref("pow"), 0.5),
                call("get", "operator.getitem", Ref("ge"), (slice(None), slice(1, None))),
                call("set", "operator.setitem", Ref("neg"), (0, slice(None)), 1.5),
                call("iadd", "operator.iadd", Ref("neg"), 1),
                Node("t", "call_method", "to", (Ref("neg"), DType("bfloat16"))),
            ],
            {"a": (Ref("get"), Ref("t")), "b": [Ref("pow"), None, 3]},
            {**fill, "y": data([1, -2, 3], "int64")},
        ),
        "names that clash": make_case(
            [
                placeholder("lambda_", "float32", (2,)),
                placeholder("expected", "float32", (2,)),
                call("F", "torch.nn.functional.relu", Ref("expected")),
                call("self", "torch.add", Ref("F"), Ref("lambda_"), alpha=2),
                call("inf", "torch.clamp", Ref("self"), max=float("inf")),
            ],
            (Ref("inf"), Ref("self")),
            {"lambda_": data([1, 2]), "expected": data([-1, 2])},
        ),
        "module": make_case(
            [x, Node("linear_1", "call_module", "linear", (Ref("x0"),)), call("relu_1", "torch.nn.functional.relu", Ref("linear_1"))],
            Ref("relu_1"),
            fill,
            state=state,
            modules={"linear": linear},
        ),
        "modules of both modes": make_case(
            [x, Node("l", "call_module", "linear", (Ref("x0"),)), Node("n", "call_module", "norm", (Ref("l"),))],
            Ref("n"),
            fill,
            state=state | two,
            modules={"linear": linear, "norm": norm},
        ),
        "state": make_case(
            [
                x,
                placeholder("p0", "float32", (3, 3), "parameter", order=(1, 0)),
                placeholder("b0", "int64", (3,), "buffer", expanded=(0,)),
                placeholder("c0", "float32", (2, 2), "constant", storage="s"),
                placeholder("c1", "float32", (2, 2), "constant", storage="s", offset=1),
                call("mm", "torch.matmul", Ref("x0"), Ref("p0")),
                call("mul", "torch.mul", Ref("mm"), Ref("b0")),
                call("add", "torch.add", Ref("c0"), Ref("c1")),
            ],
            (Ref("mul"), Ref("add")),
            fill,
            state={"p0": Fill("ordinary/1", 8), "b0": data([3], "int64"), "s": data([1, 2, 3, 4, 5])},
        ),
        "shared inputs": make_case(
            [
                placeholder("x0", "float32", (3,), storage="s"),
                placeholder("x1", "float32", (2,), storage="s", offset=1),
                Node("add_", "call_method", "add_", (Ref("x0"), 1.0)),
                call("mul", "torch.mul", Ref("x1"), 2.0),
            ],
            (Ref("mul"), Ref("add_")),
            {"s": data([1, 2, 3])},
        ),
        "sizes": make_case(
            [
                dynamic,
                size,
                call("zeros", "torch.zeros", Ref("n"), 3),
                Node("view", "call_method", "view", (Ref("x0"), Sym("s0*3"))),
            ],
            (Ref("zeros"), Ref("view")),
            [Call({"s0": 2}, {"x0": Fill("ordinary/1")}), Call({"s0": 5}, {"x0": Fill("ordinary/1", 2)})],
            symbols=(Symbol("s0", 1, 8),),
        ),
        "no tensor shows the size": make_case(
            [size, call("ones", "torch.ones", Ref("n"))], Ref("ones"), [Call({"s0": 4})], symbols=(Symbol("s0", 1, 8),)
        ),
        "getattr": make_case([x, call("t", "builtins.getattr", Ref("x0"), "T"), call("s", "torch.sum", Ref("t"), 0)], Ref("s"), fill),
        "aten": make_case([x, call("r", "aten.roll.default", Ref("x0"), [7], [1])], (Ref("r"), Ref("r")), fill),
        "an input returned": make_case([x], [Ref("x0")], fill),
    }


CASES = cases()


@pytest.mark.parametrize("name", CASES)
def test_the_source_computes_what_the_program_does(name: str) -> None:
    case = CASES[name]
    for index, result in enumerate(eager(case).calls):
        assert bits(actual(case, index)) == bits(result.output), case_source(case, call=index)


def test_it_reads_as_a_person_would_write_it() -> None:
    assert (
        case_source(CASES["module"])
        == """\
import torch
import torch.nn.functional as F


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)
        self.linear.load_state_dict({
            "weight": torch.tensor([[1.9895273, -1.9159172, -2.8222094],
                                    [-1.4914857, -7.2069974, 4.4486],
                                    [3.5504792, 3.5666635, -6.891852],
                                    [-3.5075786, -3.311109, 3.3185964]]),
            "bias": torch.tensor([-2.0, 1.5, -0.5, -0.5]),
        }, strict=False, assign=True)

    def forward(self, x):
        linear_1 = self.linear(x)
        return F.relu(linear_1)


x = torch.tensor([[5.56154, -2.1263533, -5.7112575], [6.1058517, 0.15732864, 4.5387087]])
actual = M().eval()(x)
"""
    )


def test_a_small_case_is_short() -> None:
    for name in ("one", "aten", "getattr", "module"):
        assert len(case_source(CASES[name]).splitlines()) <= 40


def test_flat_passes_the_state_as_arguments() -> None:
    module = module_source(CASES["state"], flat=True)
    assert list(module.arguments) == ["x0", "p0", "b0", "c0", "c1"]
    assert "self." not in module.text


def test_a_shape_of_the_inputs_is_read_from_them() -> None:
    assert "s0 = x.shape[0]" in case_source(CASES["sizes"])
    assert np.shape(actual(CASES["no tensor shows the size"]).array()) == (4,)
