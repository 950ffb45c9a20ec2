from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import FormatError, HarnessError, UnknownName
from harness.model.case import Call, Case
from harness.model.fill import Data, Fill
from harness.model.program import ModuleRecipe, Node, Program, TensorSpec
from harness.model.symbols import Dim, Sym, Symbol
from harness.model.values import Ref, Tensor, Value
from harness.torch_bridge.interpret import NodeFailed, build_arguments, build_modules, run_program
from harness.torch_bridge.module import build, build_module
from harness.torch_bridge.tensors import from_torch

torch.set_num_threads(1)
EXACT = Fill("exact/1")


def placeholder(name: str, shape: tuple[Dim, ...], role: str = "input", *, fqn: str | None = None, **more: Any) -> Node:
    return Node(name, "placeholder", name, role=role, fqn=fqn or name, spec=TensorSpec("float32", shape, **more))


def call(name: str, target: str, *args: Value, **kwargs: Value) -> Node:
    op = "call_function" if "." in target else "call_method"
    return Node(name, op, target, args, kwargs)


def case_of(
    *nodes: Node,
    output: Value,
    modules: Mapping[str, ModuleRecipe] | None = None,
    bindings: tuple[Mapping[str, int], ...] = ({},),
    state: Mapping[str, Data] | None = None,
) -> Case:
    program = Program((*nodes, Node("output", "output", "output", (output,))), modules or {})
    inputs = {n.spec.storage or n.name for n in program.placeholders if n.role == "input" and isinstance(n.spec, TensorSpec)}
    kept = {n.name: EXACT for n in program.placeholders if n.role in ("parameter", "buffer", "constant")}
    calls = tuple(Call(binding, {name: Fill("exact/1", i) for i, name in enumerate(sorted(inputs))}) for binding in bindings)
    symbols = tuple(Symbol(name) for name in sorted(program.symbols()))
    case = Case(program, calls, symbols, {**kept, **(state or {})})
    case.validate()
    return case


def interpreted(case: Case, index: int) -> Value:
    with torch.no_grad():
        return from_torch(run_program(case.program, build_arguments(case, index), build_modules(case), binding=case.calls[index].binding))


def compiled(case: Case, index: int) -> Value:
    built = build(case)
    with torch.no_grad():
        return from_torch(built.module(*built.inputs(index)))


CASES = {
    "sizes from an input": case_of(
        placeholder("x0", (Sym("s0"), 3)),
        call("reshape_0", "reshape", Ref("x0"), Sym("s0*3")),
        call("zeros_1", "torch.zeros", (Sym("s0*3 - 1 - (s0 // 2) % 3 + -1 + 2"),)),
        output=[Ref("reshape_0"), {"zeros": Ref("zeros_1"), "size": Sym("s0 + 1")}],
        bindings=({"s0": 2}, {"s0": 5}),
    ),
    "a symbol that no input carries": case_of(
        placeholder("x0", (Sym("s0*2"),)),
        Node("s0", "placeholder", "s0", role="symint", spec=Sym("s0")),
        call("view_0", "view", Ref("x0"), 2, Ref("s0")),
        output=(Ref("view_0"), None, 1.5),
        bindings=({"s0": 2}, {"s0": 3}),
    ),
    "lifted state under its own names": case_of(
        placeholder("x0", (2, 3)),
        placeholder("p0", (4, 3), "parameter", fqn="layers.0.weight"),
        placeholder("b0", (4,), "buffer", fqn="layers.0.running"),
        placeholder("c0", (4,), "constant", fqn="L['self'].c"),
        placeholder("c1", (4,), "constant", fqn="layers"),
        call("linear_0", "torch.nn.functional.linear", Ref("x0"), Ref("p0"), Ref("b0")),
        call("add_1", "operator.add", Ref("linear_0"), Ref("c0")),
        call("add_2", "operator.add", Ref("add_1"), Ref("c1")),
        output=Ref("add_2"),
    ),
    "modules": case_of(
        placeholder("x0", (2, 3, 4, 4)),
        Node("conv_0", "call_module", "conv", (Ref("x0"),)),
        Node("norm_1", "call_module", "inner.norm", (Ref("conv_0"),)),
        output=Ref("norm_1"),
        modules={
            "conv": ModuleRecipe(
                "torch.nn.Conv2d",
                (3, 2, 3),
                {"bias": True},
                state={"weight": TensorSpec("float32", (2, 3, 3, 3)), "bias": TensorSpec("float32", (2,))},
            ),
            "inner.norm": ModuleRecipe(
                "torch.nn.BatchNorm2d",
                (2,),
                training=True,
                state={"weight": TensorSpec("float32", (2,)), "bias": TensorSpec("float32", (2,))},
            ),
        },
        state={"conv.weight": EXACT, "conv.bias": EXACT, "inner.norm.weight": EXACT, "inner.norm.bias": EXACT},
    ),
    "aliases and mutation": case_of(
        placeholder("x0", (2, 3), storage="m"),
        placeholder("x1", (3,), storage="m", offset=3),
        call("add__0", "add_", Ref("x1"), 1),
        call("setitem_1", "operator.setitem", Ref("x0"), (0, slice(1, None)), 7.0),
        call("mul_2", "operator.mul", Ref("x0"), 2),
        output={"x": Ref("x0"), "y": [Ref("mul_2"), Ref("x1")]},
    ),
    "literals, tuples and attributes": case_of(
        placeholder("x0", (3, 4)),
        call("add_0", "operator.add", Ref("x0"), Tensor("float32", (4,), EXACT)),
        call("max_1", "torch.max", Ref("add_0"), dim=1),
        call("getitem_2", "operator.getitem", Ref("max_1"), 1),
        call("getattr_3", "builtins.getattr", Ref("max_1"), "values"),
        call("getattr_4", "builtins.getattr", Ref("x0"), "shape"),
        call("getitem_5", "operator.getitem", Ref("getattr_4"), 1),
        call("full_6", "torch.full", (Ref("getitem_5"),), float("inf")),
        call("roll_7", "aten.roll.default", Ref("x0"), [1], [0]),
        output=(Ref("getitem_2"), Ref("getattr_3"), Ref("full_6"), Ref("roll_7"), Ref("getattr_4")),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_module_and_the_interpreter_agree_on_every_binding(name: str) -> None:
    case = CASES[name]
    for index in range(len(case.calls)):
        assert compiled(case, index) == interpreted(case, index)


UNARY = ["torch.relu", "torch.nn.functional.gelu", "operator.neg", "torch.sin", "aten.abs.default", "tanh", "contiguous", "t"]
BINARY = ["operator.add", "torch.mul", "torch.maximum", "sub", "aten.mul.Tensor"]


@st.composite
def square_cases(draw: st.DrawFn) -> Case:
    nodes = [
        placeholder("x0", (Sym("s0"), Sym("s0"))),
        placeholder("p0", (Sym("s0"), Sym("s0")), draw(st.sampled_from(["input", "constant"]))),
    ]
    if nodes[1].role == "constant":
        nodes[1] = placeholder("p0", (1, 1), "constant")
    names = ["x0", "p0"]
    for index in range(draw(st.integers(1, 6))):
        one, two = draw(st.sampled_from(names)), draw(st.sampled_from(names))
        target = draw(st.sampled_from(UNARY + BINARY))
        nodes.append(call(f"n{index}", target, Ref(one), *([Ref(two)] if target in BINARY else [])))
        names.append(f"n{index}")
    output = draw(st.sampled_from([Ref(names[-1]), [Ref(names[-1]), Ref("x0")], {"a": (Ref(names[-2]),), "s": Sym("s0*s0")}]))
    return case_of(*nodes, output=output, bindings=({"s0": draw(st.integers(0, 3))}, {"s0": draw(st.integers(1, 4))}))


@settings(max_examples=60, deadline=None)
@given(square_cases())
def test_drawn_programs_run_the_same_either_way(case: Case) -> None:
    for index in (0, 1):
        assert compiled(case, index) == interpreted(case, index)


def test_the_module_is_what_users_of_fx_expect() -> None:
    module, inputs = build_module(CASES["lifted state under its own names"])
    assert dict(module.named_parameters()).keys() == {"layers.0.weight"}
    assert set(module.state_dict()) == {"layers.0.weight", "layers.0.running"}
    assert len(inputs) == 1 and not module.training
    module.graph.lint()
    trained, _ = build_module(CASES["modules"])
    assert trained.training and not trained.get_submodule("conv").training and trained.get_submodule("inner.norm").training


def test_inputs_that_share_memory_share_it_in_the_module_too() -> None:
    _, (first, second) = build_module(CASES["aliases and mutation"])
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()


def test_what_an_operator_raises_carries_its_node() -> None:
    case = case_of(placeholder("x0", (2, 3)), call("mm_0", "torch.mm", Ref("x0"), Ref("x0")), output=Ref("mm_0"))
    with pytest.raises(NodeFailed, match="mat1 and mat2 shapes cannot be multiplied") as caught:
        interpreted(case, 0)
    assert caught.value.node.name == "mm_0" and isinstance(caught.value.error, RuntimeError)


def test_our_own_failures_are_not_the_operators() -> None:
    unknown = case_of(placeholder("x0", (2,)), call("n", "torch.load", Ref("x0")), output=Ref("n"))
    with pytest.raises(UnknownName):
        interpreted(unknown, 0)
    with pytest.raises(HarnessError, match="no argument for placeholder 'x0'"):
        run_program(unknown.program, {}, {})


def recipe_case(**change: Any) -> Case:
    recipe = ModuleRecipe(
        **{"cls": "torch.nn.Linear", "args": (2, 2), "kwargs": {"bias": False}, "state": {"weight": TensorSpec("float32", (2, 2))}} | change
    )
    return case_of(placeholder("x0", (2,)), Node("n", "call_module", "m", (Ref("x0"),)), output=Ref("n"), modules={"m": recipe})


def test_state_must_fit_its_module() -> None:
    assert compiled(recipe_case(), 0) == interpreted(recipe_case(), 0)
    for change, complaint in [
        ({"state": {}}, "no data for the parameter 'weight'"),
        ({"state": {"weight": TensorSpec("float32", (2, 3))}}, r"its data torch.float32 of \(2, 3\)"),
        ({"state": {"weight": TensorSpec("float64", (2, 2))}}, "its data torch.float64"),
        ({"state": {"weight": TensorSpec("float32", (2, 2)), "nope": TensorSpec("float32", ())}}, "no parameter or buffer 'nope'"),
    ]:
        with pytest.raises(FormatError, match=complaint):
            build_modules(recipe_case(**change))
    with pytest.raises(NodeFailed, match=r"torch\.nn\.Linear"):
        build_modules(recipe_case(kwargs={"nope": 1}))
