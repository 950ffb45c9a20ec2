"""The comparison's own parts; the comparison itself needs the reports, and is run by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engine.check import Dispute, TargetResult
from harness.model.verdict import Kind, Severity, Verdict
from tests.external.public_reports import EXCEPTIONS, TARGETS, Row, exceptions, recorded, report_on, settings_of, source_of, verdict_of

REPORT = {
    "id": "x-1",
    "module": "def build():\n    pass\n\ndef inputs():\n    return ()\n",
    "mode": "grad",
    "dynamic": {"1": {"0": "n", "2": "m"}},
    "checks": {"signed_zero": True, "strides": False, "mutated_args": False},
    "today": {
        "oneflow": {"status": "pass", "detail": ""},
        "torch_mlir": {
            "status": "fail",
            "detail": "tosa",
            "per_output_type": {"linalg-on-tensors": {"status": "lowered", "detail": "why"}},
        },
    },
}


def test_a_report_becomes_a_file_of_ours() -> None:
    source = source_of(REPORT)
    namespace: dict[str, object] = {}
    exec(compile(source, "report", "exec"), namespace)
    assert namespace["MODE"] == "grad"
    first, second = namespace["DYNAMIC_SHAPES"]  # type: ignore[misc]
    assert first == {}
    assert {axis: dim.__name__ for axis, dim in second.items()} == {0: "n", 2: "m"}
    assert "signed-zero" in settings_of(REPORT).judge


def test_the_recorded_verdict_is_that_of_linalg_on_tensors() -> None:
    assert recorded(REPORT, "oneflow") == ("pass", "")
    assert recorded(REPORT, "torch_mlir") == ("lowered", "why")


@pytest.mark.parametrize(
    ("result", "word"),
    [
        (TargetResult("t", ran=2), "pass"),
        (TargetResult("t", refused={"topk": 1}), "unsupported"),
        (TargetResult("t", faults=("f",)), "undecided"),
        (TargetResult("t", (Dispute(Verdict("values", Kind.VALUE, "t", Severity.WRONG_VALUE, "m"), 0),)), "fail"),
        (TargetResult("t", (Dispute(Verdict("status", Kind.CRASH, "t", Severity.CRASH, "m"), 0),)), "crash"),
        (TargetResult("t", (Dispute(Verdict("values", Kind.VALUE, "t", Severity.WRONG_VALUE, "m"), 0, dropped="flaky"),)), "undecided"),
    ],
)
def test_our_answers_in_the_words_of_the_reports(result: TargetResult, word: str) -> None:
    assert verdict_of(result)[0] == word


def test_every_exception_names_its_verdict_and_its_reason() -> None:
    found = exceptions()
    assert EXCEPTIONS.is_file()
    assert found
    for (module, target), (ours, why) in found.items():
        assert module
        assert target in TARGETS
        assert ours in ("pass", "fail", "crash", "unsupported", "not captured")
        assert why.endswith(".")


def test_only_what_agrees_or_is_excepted_ends_well(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    good = Row("a", "oneflow:eager", "pass", "pass", "", "")
    lowered = Row("a", "torch-mlir:linalg", "pass", "lowered", "", "")
    excepted = Row("b", "oneflow:eager", "fail", "pass", "", "", "a reason")
    assert report_on([good, lowered, excepted], []) == 0
    assert report_on([Row("b", "oneflow:eager", "fail", "pass", "ours", "theirs")], []) == 1
    assert "b oneflow:eager: ours fail: ours | recorded pass: theirs" in capsys.readouterr().out
    assert report_on([Row("b", "oneflow:eager", "pass", "pass", "", "", "a reason")], []) == 1, "an exception that is not needed"
    assert report_on([good], ["x: fxdiff failed"]) == 3
