"""The comparison's own parts; the comparison itself needs a checkout of torch-mlir, and is run by `tox run -e torch-mlir-e2e`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from harness.engine.evaluate import Evaluation
from harness.model.outcome import CallResult, Death, Outcome, Status
from harness.model.values import tensor_from_array
from harness.model.verdict import Kind, Severity, Verdict
from tests.doubles.cases import unary_case
from tests.external.torch_mlir_e2e import CONFIGS, Answer, Row, answer_of, explanation, forgiven, read_rows, report

LINALG, TOSA, STABLEHLO = CONFIGS


def outcome(values: list[float], dtype: str = "float32") -> Outcome:
    return Outcome("t", Status.OK, "run", calls=(CallResult(tensor_from_array(np.array(values, dtype), dtype)),))


def evaluation(observed: Outcome, *verdicts: Verdict) -> Evaluation:
    return Evaluation(unary_case("torch.sin"), "id", outcome([1.0]), {"t": observed}, verdicts)


def test_the_suite_forgives_what_allclose_forgives() -> None:
    assert forgiven(outcome([1.0, float("nan"), 0.0]), outcome([1.0009, float("nan"), -0.0]))
    assert not forgiven(outcome([1.0]), outcome([1.002]))
    assert forgiven(outcome([8589934591], "int64"), outcome([8589934592], "int64"))
    assert not forgiven(outcome([1], "int64"), outcome([2], "int64"))
    assert not forgiven(outcome([1], "bool"), outcome([0], "bool"))


def test_answers_of_outcomes_and_verdicts() -> None:
    wrong = Verdict("values", Kind.VALUE, "t", Severity.WRONG_VALUE, "they differ")
    assert answer_of(evaluation(outcome([1.0])), "t") == Answer("agrees")
    assert answer_of(evaluation(outcome([1.0001]), wrong), "t") == Answer("disagrees", "value: they differ", lenient=True)
    assert answer_of(evaluation(outcome([2.0]), wrong), "t") == Answer("disagrees", "value: they differ")
    refused = Outcome("t", Status.UNSUPPORTED, "tosa", message="aten.foo: no\nmore")
    assert answer_of(evaluation(refused), "t") == Answer("refuses", "tosa: aten.foo: no")
    broken = Outcome("t", Status.HARNESS_ERROR, "import", message="KeyError: 1")
    assert answer_of(evaluation(broken), "t") == Answer("internal", "import: KeyError: 1")
    declined = Outcome("t", Status.CRASH, "run", message="died by SIGABRT", death=Death("SIGABRT", stderr="a\nunimplemented: b"))
    assert answer_of(evaluation(declined), "t").says == "run: died by SIGABRT unimplemented: b"


@pytest.mark.parametrize(
    ("answer", "expected_to_fail", "why"),
    [
        (Answer("agrees"), False, None),
        (Answer("agrees"), True, "listed as failing, agrees here; the suite's own run fails here: why"),
        (Answer("refuses", "x"), True, None),
        (Answer("refuses", "x"), False, "listed as passing, refuses here: x; the suite's own run fails here: why"),
        (Answer("disagrees", "x", lenient=True), False, "fxdiff is stricter"),
    ],
)
def test_differences_are_told_with_what_was_seen(answer: Answer, expected_to_fail: bool, why: str | None) -> None:
    told = explanation(Row("a", answers={TOSA: answer}, own={TOSA: "why"}), TOSA, expected_to_fail=expected_to_fail)
    assert told is None if why is None else told is not None and why in told


def test_a_report_accounts_for_every_test(tmp_path: Path) -> None:
    agrees = {name: Answer("agrees") for name in CONFIGS}
    rows = [
        Row("a", "export", answers=agrees),
        Row("b", refused="it draws random numbers"),
        Row("c", internal="test: KeyError"),
        Row("d", "export", answers={**agrees, STABLEHLO: Answer("refuses", "no sort")}, own={STABLEHLO: ""}),
    ]
    lists = {key: ["a"] if "XFAIL" in key else [] for keys in CONFIGS.values() for key in keys}
    text = "\n".join(report(rows, lists, 9))
    assert text.startswith(
        "4 of 9 tests: 2 checked, 1 refused before any target, 1 internal errors\n  refused 1: it draws random numbers\n"
    )
    assert "INTERNAL c: test: KeyError" in text
    assert f"{STABLEHLO}: agrees 0 (+1 in the suite's lists), refuses 1 (+0" in text
    assert "  d: listed as passing, refuses here: no sort; the suite's own run passes here too" in text
    path = tmp_path / "rows"
    path.write_text("".join(json.dumps(asdict(row)) + "\n" for row in rows))
    assert list(read_rows(path).values()) == rows
