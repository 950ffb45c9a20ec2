from __future__ import annotations

import builtins
from pathlib import Path

import pytest

from harness.backends.oneflow.refusals import classify, clean, judge
from harness.backends.oneflow.translate.plan import Invocation, Operand, Plan
from harness.model.outcome import Status

MESSAGES = Path(__file__).parent / "messages"
X = Operand("x", "float32", (2, 3))
FUNCTION = Plan(Invocation("oneflow.roll", (X, 1, 0)))
OPERATOR = Plan(Invocation("operator.and_", (X, 3)))
RECORDED = [(path.stem, text) for path in sorted(MESSAGES.glob("*.txt")) for text in path.read_text("utf-8").strip().split("\n\n")]


def error_of(text: str) -> Exception:
    kind, _, message = text.partition(": ")
    error: Exception = getattr(builtins, kind)(message)
    return error


@pytest.mark.parametrize(("kind", "text"), RECORDED)
def test_every_recorded_message_is_classified_as_it_was_reviewed(kind: str, text: str) -> None:
    assert classify(error_of(text), FUNCTION) == kind


def test_every_class_is_recorded() -> None:
    assert {kind for kind, _ in RECORDED} == {"adapter", "dtype", "error", "no-cpu-kernel", "refused"}


@pytest.mark.parametrize("text", [text for kind, text in RECORDED if kind == "adapter"])
def test_a_signature_that_does_not_match_is_our_fault_unless_python_passed_the_arguments(text: str) -> None:
    assert judge(error_of(text), FUNCTION)[0] is Status.HARNESS_ERROR
    assert judge(error_of(text), OPERATOR)[0] is Status.UNSUPPORTED


def test_an_adapter_fault_inside_an_operator_is_still_a_fault() -> None:
    nested = Plan(Invocation("operator.getitem", (Invocation("oneflow.roll", (X,)), 0)))
    assert judge(TypeError("roll(): missing required argument shifts"), nested)[0] is Status.HARNESS_ERROR


@pytest.mark.parametrize("error", [RuntimeError("(3 vs 1) "), IndexError("out of range"), ZeroDivisionError(), AttributeError("no x")])
def test_anything_else_is_an_error_of_the_target(error: Exception) -> None:
    assert judge(error, FUNCTION)[0] is Status.ERROR


def test_messages_lose_colours_frames_and_running_numbers() -> None:
    raw = (
        "\x1b[1m\x1b[38;2;255;000;000mError\x1b[0m: InferDataType Failed. Expected kInt64, but got kFloat\n op_name: acos17\n"
        '  File "/home/somebody/oneflow/op_interpreter.cpp", line 96, in Apply\n    internal_->Apply(op_expr, inputs)\n'
        '  File "/home/somebody/oneflow/where_op.cpp", line 216, in InferDataType\n    \nError Type: oneflow.ErrorProto.check_failed_error'
    )
    expected = "Error: InferDataType Failed. Expected kInt64, but got kFloat\nError Type: oneflow.ErrorProto.check_failed_error"
    assert clean(raw) == expected
    assert clean(expected) == expected


def test_an_error_keeps_its_place_in_the_repository() -> None:
    raw = (
        '(3 vs 2)\n  File "/home/ci/_work/oneflow/oneflow/oneflow/core/framework/op_expr.cpp", line 571, in Infer\n    infer(&ctx)\n'
        '  File "/home/ci/_work/oneflow/oneflow/oneflow/user/ops/conv_op.cpp", line 27, in Check\n    \nError Type: oneflow.CheckFailed'
    )
    said = "RuntimeError: (3 vs 2)\nError Type: oneflow.CheckFailed\nraised at oneflow/user/ops/conv_op.cpp:27"
    assert judge(RuntimeError(raw), FUNCTION) == (Status.ERROR, said)
