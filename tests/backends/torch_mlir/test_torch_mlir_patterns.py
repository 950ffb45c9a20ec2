from __future__ import annotations

import warnings

from harness.backends.torch_mlir.following import follow_case
from harness.backends.torch_mlir.patterns import Applied, applied, attempts, guilty_pattern
from harness.backends.torch_mlir.warmup import SILENT
from harness.model.case import Case
from harness.model.outcome import Job
from tests.backends.torch_mlir.programs import Draft, one
from tests.backends.torch_mlir.test_torch_mlir_passes import ROLL

DECOMPOSE = "func.func(torch-decompose-complex-ops)"


def looked_for(case: Case, step: int) -> str:
    options = {"route": "raw", "pipeline": "fx", "pattern": f"raw|fx|{step}"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = follow_case(case, Job(b"", "torch-mlir:fixpoint", options=options), SILENT)
    return outcome.artifacts.get("pattern", "").split("\n")[0]


def test_a_pass_may_be_stopped_after_so_many_patterns() -> None:
    names = [pattern.name for pattern in attempts(ROLL, DECOMPOSE)]
    assert "DecomposeAtenRollOp" in names
    at = names.index("DecomposeAtenRollOp")
    assert "torch.aten.roll" in applied(ROLL, DECOMPOSE, at).text
    assert "torch.aten.roll" not in applied(ROLL, DECOMPOSE, at + 1).text


def test_the_guilty_pattern_is_bisected() -> None:
    found = guilty_pattern(ROLL, DECOMPOSE, lambda made: "torch.aten.roll" not in made.text)
    assert found is not None
    assert found.name == "DecomposeAtenRollOp"
    assert "torch.aten.roll" in found.op


def test_what_is_wrong_before_the_first_pattern_or_right_after_the_last_has_none() -> None:
    assert guilty_pattern(ROLL, DECOMPOSE, lambda made: True) is None
    assert guilty_pattern(ROLL, DECOMPOSE, lambda made: False) is None
    assert guilty_pattern(ROLL, "symbol-dce", lambda made: True) is None


def test_an_answer_that_changes_from_run_to_run_names_nothing() -> None:
    asked: list[int] = []

    def sometimes(made: Applied) -> bool:
        asked.append(len(asked))
        return "torch.aten.roll" not in made.text and len(asked) < 2 + len(attempts(ROLL, DECOMPOSE)).bit_length()

    assert guilty_pattern(ROLL, DECOMPOSE, sometimes) is None


def test_a_pass_that_fails_leaves_nothing() -> None:
    assert applied("module { func.func @main() { return } }", "torch-no-such-pass", 1) == Applied(
        "", applied("module {}", "torch-no-such-pass", 1).said, failed=True
    )


def test_the_pattern_behind_a_wrong_value() -> None:
    draft = Draft()
    x = draft.tensor("float32", (2, 3))
    case = draft.case(draft.call("torch.softmax", draft.call("torch.roll", x, 7, 1), 1))
    assert looked_for(case, 5) == "DecomposeAtenRollOp"


def test_the_pattern_behind_a_silent_error() -> None:
    assert looked_for(one("torch.roll", (2, 3), args=(3,)), 5) == "DecomposeAtenRollOp"


def test_a_right_pass_has_no_guilty_pattern() -> None:
    assert looked_for(one("torch.softmax", (2, 3), args=(1,)), 5) == ""
