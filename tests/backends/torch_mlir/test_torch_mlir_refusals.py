"""The classification of failures, held against messages recorded from torch-mlir 20261001, and against torch-mlir itself."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.backends.torch_mlir.pipelines import Emitted, StageFailure
from harness.backends.torch_mlir.refusals import Failure, classify, is_refusal
from harness.model.outcome import Outcome, Status
from tests.backends.torch_mlir.programs import F, one

RECORDED = sorted((Path(__file__).parent / "messages").glob("*.txt"))


def read(path: Path) -> tuple[dict[str, str], list[str]]:
    head, _, body = path.read_text().partition("messages:\n")
    return dict(line.split(": ", 1) if ": " in line else (line.rstrip(":"), "") for line in head.splitlines()), body.rstrip("\n").split(
        "\n---\n"
    )


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded_messages_are_understood(path: Path) -> None:
    fields, messages = read(path)
    failure = StageFailure(
        fields["stage"],
        tuple(Emitted("error", message) for message in messages),
        invalid_ir=fields["invalid_ir"] == "True",
        remaining=tuple(fields["remaining"].split()),
    )
    kind, operator = classify(failure, ast.literal_eval(fields["earlier"]))
    assert kind is Failure(fields["expect"])
    assert str(operator) == fields["operator"]


def test_there_are_recordings_of_every_kind() -> None:
    assert {read(path)[0]["expect"] for path in RECORDED} >= {"refusal", "invalid-ir", "silent-error"}


@pytest.mark.parametrize(
    "message",
    [
        "'tensor.cast' op operand type 'tensor<3xf32>' and result type 'tensor<0xf32>' are cast incompatible",
        "list sizes of shifts and dims are not the same",
        "failed to legalize operation 'arith.addi'",
        "expected the type of operand #2 to be a non-empty list",
    ],
)
def test_what_torch_mlir_claims_to_do_is_no_refusal(message: str) -> None:
    assert not is_refusal(message)


def test_a_failure_below_linalg_is_never_a_refusal() -> None:
    failure = StageFailure("llvm", (Emitted("error", "failed to legalize operation 'torch.aten.foo'"),))
    assert classify(failure, [])[0] is Failure.PASS_FAILURE


def test_an_operator_outside_the_dialect_is_unsupported_by_name(run: Callable[..., Outcome]) -> None:
    outcome = run(one("torch.erfc", (2, 3)))
    assert (outcome.status, outcome.stage, outcome.node) == (Status.UNSUPPORTED, "torch-pipeline", "erfc_1")
    assert outcome.message.startswith("torch.aten.erfc: ")


def test_a_leftover_constant_is_blamed_on_its_operator(run: Callable[..., Outcome]) -> None:
    outcome = run(one("torch.logsumexp", (2, 3), args=(1,)), route="raw")
    assert outcome.status is Status.UNSUPPORTED
    assert outcome.message.startswith("torch.aten.logsumexp: ")


def test_a_silent_error_is_an_error_of_the_stage_that_hid_it(run: Callable[..., Outcome]) -> None:
    outcome = run(one("torch.roll", (2, 3), args=(3,)))
    assert (outcome.status, outcome.artifacts["failure"]) == (Status.ERROR, "silent-error")
    hidden = [d for d in outcome.diagnostics if d.stage == "torch-pipeline" and d.severity == "error"]
    assert [d.message.splitlines()[0] for d in hidden] == ["list sizes of shifts and dims are not the same"]
    assert outcome.node == "roll_1"


def test_invalid_ir_is_told_from_a_failed_pass(run: Callable[..., Outcome]) -> None:
    outcome = run(one(F + "avg_pool1d", (1, 3), args=(2,)))
    assert (outcome.status, outcome.stage, outcome.artifacts["failure"]) == (Status.ERROR, "linalg", "invalid-ir")
    assert outcome.artifacts["input.mlir"].startswith("module {")
    assert outcome.artifacts["pipeline"].startswith("builtin.module(")


def test_a_program_that_makes_no_tensor_is_an_import_problem(run: Callable[..., Outcome]) -> None:
    outcome = run(one("size", (2, 3)))
    assert (outcome.status, outcome.stage) == (Status.UNSUPPORTED, "import")
    assert outcome.message == "import: the program returns no tensor"
