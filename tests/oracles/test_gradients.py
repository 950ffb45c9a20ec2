from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from harness.backends.eager import EagerBackend, Silent
from harness.model.case import Call, Case
from harness.model.fill import Fill
from harness.model.outcome import CallResult, Job, Outcome, Status
from harness.model.program import Node, Program, TensorSpec
from harness.model.values import Ref, Tensor, tensor_from_array
from harness.model.verdict import Kind, Verdict
from oracles import judge


def case(mode: str) -> Case:
    nodes = (
        Node("x0", "placeholder", "x0", role="input", spec=TensorSpec("float32", (2, 3), requires_grad=True)),
        Node("p0", "placeholder", "p0", role="parameter", spec=TensorSpec("float32", (3,), requires_grad=True)),
        Node("mul_0", "call_function", "torch.mul", (Ref("x0"), Ref("p0"))),
        Node("exp_1", "call_function", "torch.exp", (Ref("mul_0"),)),
        Node("output", "output", "output", (Ref("exp_1"),)),
    )
    return Case(Program(nodes), (Call(data={"x0": Fill("exact/1", 1)}),), state={"p0": Fill("exact/1", 2)}, mode=mode)


def reference(mode: str, *want: str) -> Outcome:
    outcome = EagerBackend().run(case(mode), Job(b"", "eager", ("trace", *want)), Silent())
    assert outcome.status is Status.OK
    return outcome


def judged(mode: str, change: Any, *want: str) -> tuple[Verdict, ...]:
    right = reference(mode, *want)
    (call,) = right.calls
    wrong = CallResult(change({key: dict(value) if isinstance(value, dict) else value for key, value in call.output.items()}))
    return judge(case(mode), right, dataclasses.replace(right, target="t", calls=(wrong,), witness=(), declared=()))


def scaled(value: Tensor, factor: float) -> Tensor:
    return tensor_from_array((value.array() * np.float32(factor)).astype(np.float32), "float32")


@pytest.mark.parametrize("mode", ["grad", "train"])
@pytest.mark.parametrize("name", ["x0", "p0"])
def test_a_wrong_gradient_is_named(mode: str, name: str) -> None:
    def change(output: Any) -> Any:
        output["grads"][name] = scaled(output["grads"][name], 1.01)
        return output

    (verdict,) = judged(mode, change)
    assert (verdict.oracle, verdict.kind, verdict.path) == ("gradients", Kind.VALUE, f"['grads'][{name!r}]")
    assert verdict.message.startswith(f"the gradient of {name}: ")


def test_a_gradient_that_does_not_arrive_is_named() -> None:
    def change(output: Any) -> Any:
        output["grads"]["p0"] = None
        return output

    (verdict,) = judged("grad", change)
    assert (verdict.oracle, verdict.kind, verdict.path) == ("gradients", Kind.STRUCTURE, "['grads']['p0']")
    assert "the gradient of p0" in verdict.message


def test_a_wrong_step_and_a_wrong_output_are_told_apart() -> None:
    def step(output: Any) -> Any:
        output["params_after"]["p0"] = scaled(output["params_after"]["p0"], 1.01)
        return output

    (verdict,) = judged("train", step)
    assert verdict.message.startswith("after one step, parameter p0: ")

    def forward(output: Any) -> Any:
        output["output"] = scaled(output["output"], 1.01)
        return output

    (verdict,) = judged("train", forward)
    assert (verdict.oracle, verdict.path) == ("values", "['output']")


def test_rounding_is_forgiven_with_and_without_the_arbiters() -> None:
    def change(output: Any) -> Any:
        output["grads"]["x0"] = scaled(output["grads"]["x0"], 1 + 2.0**-23)
        return output

    assert judged("grad", change) == ()
    assert judged("grad", change, "twin", "spread") == ()


@pytest.mark.parametrize("mode", ["grad", "train"])
def test_the_arbiters_cover_gradients(mode: str) -> None:
    (witness,) = reference(mode, "twin", "spread").witness
    for value in (witness.twin, witness.spread):
        assert {name: tensor.dtype for name, tensor in value["grads"].items()} == {"x0": "float64", "p0": "float64"}
    assert witness.spread["grads"]["p0"].array().max() > 0
