from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from torch import nn

from harness.capture import HOW, capture
from harness.errors import CaptureError, UnknownName, UsageError
from harness.model.case import Case
from harness.model.codec import from_json, to_json
from harness.model.program import TensorSpec
from harness.model.symbols import Sym
from harness.model.values import Ref, Tensor
from harness.torch_bridge.tensors import tensor_from_torch
from tests.capture import modules
from tests.capture.modules import EXAMPLES, Branching, ConvNet, Counter, DictOutput, F, InPlace, Shapes, case_result, module_result, x

PAIRS = [(name, how) for name in EXAMPLES for how in HOW if how not in EXAMPLES[name].refused]
REFUSALS = [(name, how) for name, example in EXAMPLES.items() for how in example.refused]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize(("name", "how"), PAIRS)
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
def test_the_captured_program_gives_what_the_module_gives(name: str, how: str) -> None:
    module, inputs = EXAMPLES[name].fresh()
    before = [value.clone() for value in [*module.state_dict().values()]]
    wanted = module_result(module, inputs)
    cases = capture(module, inputs, how=how)  # type: ignore[arg-type]
    assert all(torch.equal(old, new) for old, new in zip(before, module.state_dict().values(), strict=True))
    assert module_result(module, inputs) == wanted
    if name == "branching":
        assert len(cases) == 2
        return
    (case,) = cases
    again = from_json(Case, to_json(case))
    again.validate()
    assert case_result(again) == wanted


@pytest.mark.parametrize(("name", "how"), REFUSALS)
@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_captured_is_refused_with_the_reason(name: str, how: str) -> None:
    module, inputs = EXAMPLES[name].fresh()
    with pytest.raises(CaptureError, match=EXAMPLES[name].refused[how]):
        capture(module, inputs, how=how)  # type: ignore[arg-type]


def roles(case: Case) -> dict[str, tuple[str | None, str | None]]:
    return {node.name: (node.role, node.fqn) for node in case.program.placeholders}


def test_layers_stay_layers_under_symbolic_trace() -> None:
    module = ConvNet().eval()
    (case,) = capture(module, (x(1, 2, 5, 5),), how="symbolic_trace")
    assert {name: recipe.cls for name, recipe in case.program.modules.items()} == {
        "body.0": "torch.nn.Conv2d",
        "body.1": "torch.nn.BatchNorm2d",
        "body.2": "torch.nn.ReLU",
        "body.3": "torch.nn.MaxPool2d",
        "head": "torch.nn.Linear",
    }
    assert case.program.modules["body.0"].kwargs["padding"] == "same"
    assert case.program.modules["body.0"].kwargs["bias"] is False
    assert roles(case) == {"image": ("input", "image")}


def test_dynamo_lifts_parameters_and_buffers_with_their_paths() -> None:
    (case,) = capture(ConvNet().train(), (x(2, 2, 5, 5),))
    found = roles(case)
    assert found["body_0_weight"] == ("parameter", "body.0.weight")
    assert found["body_1_running_mean"] == ("buffer", "body.1.running_mean")
    assert found["image"] == ("input", "image")
    assert not case.program.modules


@pytest.mark.parametrize("how", HOW)
def test_tensors_of_the_module_have_their_roles(how: str) -> None:
    (case,) = capture(Counter(), (x(3),), how=how)  # type: ignore[arg-type]
    found = {fqn: role for role, fqn in roles(case).values()}
    assert found["count"] == found["scale"] == "buffer"
    assert found["offset"] == "constant"


@pytest.mark.parametrize("how", HOW)
def test_writes_reach_the_input(how: str) -> None:
    given = x(3)
    (case,) = capture(InPlace(), (given,), how=how)  # type: ignore[arg-type]
    assert torch.equal(given, x(3))
    names = [node.target for node in case.program.operators]
    assert any("add_" in name for name in names)


@pytest.mark.parametrize("how", HOW)
def test_the_output_keeps_its_structure(how: str) -> None:
    (case,) = capture(DictOutput(), (x(2), x(2)), how=how)  # type: ignore[arg-type]
    output = case.program.output
    assert list(output) == ["sum", "rest"]
    assert output["rest"][0] == Ref("x")
    assert output["rest"][1][1:] == [None, 3.5]


@pytest.mark.parametrize("how", ["dynamo", "export"])
def test_sizes_are_expressions_and_hold_for_other_sizes(how: str) -> None:
    (case,) = capture(Shapes(), (x(2, 4),), how=how, dynamic_shapes=({0: torch.export.Dim("rows", max=8)},))  # type: ignore[arg-type]
    spec = next(node.spec for node in case.program.placeholders if node.role == "input")
    assert isinstance(spec, TensorSpec)
    assert spec.shape == (Sym("s0"), 4)
    (symbol,) = case.symbols
    assert symbol.low <= 2 <= symbol.high
    view = next(node for node in case.program.operators if "view" in node.target)
    assert Sym("4*s0") in (view.args[1], *(view.args[1] if isinstance(view.args[1], list) else ()))
    wider = _with_rows(case, 3)
    assert case_result(case) == module_result(Shapes(), (x(2, 4),))
    assert case_result(wider) == module_result(Shapes(), (x(3, 4),))


def _with_rows(case: Case, rows: int) -> Case:
    call = dataclasses.replace(case.calls[0], binding={"s0": rows}, data={"x": tensor_from_torch(x(rows, 4)).data})
    return dataclasses.replace(case, calls=(call,))


def test_symbolic_trace_marks_the_inputs_dims() -> None:
    shapes = {"x": {0: torch.export.Dim.AUTO}}
    (case,) = capture(Relu(), (x(2, 4),), how="symbolic_trace", dynamic_shapes=shapes)
    assert case.calls[0].binding == {"s0": 2}
    with pytest.raises(UsageError, match="no_such"):
        capture(Relu(), (x(2, 4),), how="symbolic_trace", dynamic_shapes={"no_such": None})
    with pytest.raises(UsageError, match="axes"):
        capture(Relu(), (x(2, 4),), how="symbolic_trace", dynamic_shapes={"x": {5: torch.export.Dim.AUTO}})


class Relu(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


def test_integer_inputs_hold_for_their_value() -> None:
    class Times(nn.Module):
        def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
            return x * n + n

    for how in HOW:
        (case,) = capture(Times(), (x(3), 4), how=how)  # type: ignore[arg-type]
        assert [node.role for node in case.program.placeholders] == ["input"]
        assert case_result(case) == module_result(Times(), (x(3), 4))


def test_a_graph_break_gives_the_graphs_in_order_with_what_flowed() -> None:
    torch.manual_seed(0)
    module = Branching().eval()
    first, second = capture(module, (x(2, 3),))
    assert first.program.operators[0].target == "torch.nn.functional.linear"
    assert "torch.relu" in [node.target for node in second.program.operators]
    between = case_result(first)
    tensors = [value for value in second.arguments(0).values() if isinstance(value, Tensor)]
    assert any((t.dtype, t.shape, t.array().tobytes()) in [entry for _, entry in between] for t in tensors)
    assert case_result(second)[0][1] == module_result(module, (x(2, 3),))[0][1]


@pytest.mark.filterwarnings("ignore")
def test_control_flow_operators_are_refused_by_name() -> None:
    module = F(lambda self, x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)))
    for how in ("dynamo", "export"):
        with pytest.raises(CaptureError, match="cond"):
            capture(module, (x(3),), how=how)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore")
def test_foreign_functions_and_tensors_are_refused_by_name() -> None:
    with pytest.raises(CaptureError, match="helper"):
        capture(F(lambda self, x: modules.helper(x)), (x(3),), how="symbolic_trace")
    with pytest.raises(CaptureError, match="sparse"):
        capture(F(lambda self, x: x * 2), (x(3, 3).to_sparse(),), how="symbolic_trace")


def test_hooks_and_odd_classes_are_inlined() -> None:
    (hooked,) = capture(*EXAMPLES["hooks"].fresh(), how="symbolic_trace")
    assert not hooked.program.modules

    class Mine(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return super().forward(input) + 1

    module = F(lambda self, x: self.inner(x), inner=Mine(3, 3)).eval()
    (mine,) = capture(module, (x(2, 3),), how="symbolic_trace")
    assert not mine.program.modules
    assert case_result(mine) == module_result(module, (x(2, 3),))


def test_gradients_are_remembered() -> None:
    given = x(3).requires_grad_()
    (case,) = capture(Relu(), (given,))
    assert case.mode == "grad"
    (node,) = case.program.placeholders
    assert isinstance(node.spec, TensorSpec)
    assert node.spec.requires_grad
    (plain,) = capture(Relu(), (x(3),))
    assert plain.mode == "fwd"


def test_bad_requests() -> None:
    with pytest.raises(UnknownName, match="dynamo"):
        capture(Relu(), (x(2),), how="dinamo")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="tuple"):
        capture(Relu(), x(2))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="mode"):
        capture(Relu(), (x(2),), mode="backwards")
    with pytest.raises(UsageError, match="2 inputs"):
        capture(Relu(), (x(2), x(2)), how="symbolic_trace")


def test_two_captures_are_the_same() -> None:
    module, inputs = EXAMPLES["LSTMCell"].fresh()
    for how in HOW:
        one, two = (capture(copy.deepcopy(module), inputs, how=how)[0] for _ in range(2))  # type: ignore[arg-type]
        assert to_json(one) == to_json(two)
