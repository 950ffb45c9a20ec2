"""The public Python face, and the pytest fixture that shares its work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import fxdiff
import tests.doubles.wrong  # noqa: F401
from harness.corpus.files import pack_case
from harness.errors import CaptureError, UnknownName, UsageError
from harness.pytest_plugin import Disagrees


class Relu(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + 1


class Sin(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * 2


X = torch.tensor([[1.0, -2.0], [0.5, 3.0]])


def test_a_module_of_this_process_is_checked_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = X.clone()
    checked = fxdiff.check(Sin(), (X,), targets=["eager:copy", "wrong:value"], output=tmp_path / "found")
    assert torch.equal(X, before)
    assert not checked.agrees
    assert {result.target: result.answer for result in checked.targets} == {
        "eager:copy": fxdiff.Answer.AGREES,
        "wrong:value": fxdiff.Answer.DISAGREES,
    }
    [dispute] = checked.targets[1].disputes
    assert dispute.operator == "sin"
    text = str(checked)
    assert text.startswith("Sin: 1 graph, captured by dynamo")
    assert "torch.sin(x)" in text


def test_what_cannot_be_done_as_asked_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownName, match="unknown target 'eager:cpoy': did you mean eager:copy"):
        fxdiff.check(Relu(), (X,), targets=["eager:cpoy"])
    with pytest.raises(UsageError, match="inputs must be a tuple"):
        fxdiff.check(Relu(), X, targets=["eager:copy"])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="mode 'gard' is none of"):
        fxdiff.check(Relu(), (X,), targets=["eager:copy"], mode="gard")
    with pytest.raises(CaptureError, match="cannot be captured"):
        fxdiff.check(Relu(), (object(),), targets=["eager:copy"])


def test_a_stored_case_is_loaded_and_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.capture import capture

    monkeypatch.chdir(tmp_path)
    [case] = capture(Relu(), (X,))
    path = tmp_path / "case.json"
    path.write_bytes(pack_case(case))
    assert fxdiff.load(path) == case
    outcome = fxdiff.run(case)
    assert outcome.status is fxdiff.Status.OK
    assert outcome.calls[0].output.array().tolist() == (torch.relu(X) + 1).tolist()
    assert fxdiff.run(case, "eager:copy").status is fxdiff.Status.OK
    with pytest.raises(UnknownName):
        fxdiff.run(case, "eager:cpoy")
    path.write_text("{}")
    with pytest.raises(UsageError, match=r"case\.json"):
        fxdiff.load(path)


def test_the_fixture_passes_what_agrees_and_raises_the_report_of_what_does_not(
    fxdiff_check: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert fxdiff_check(Relu(), (X,), targets=["wrong:value"]).agrees
    with pytest.raises(Disagrees, match="wrong:value  disagrees"):
        fxdiff_check(Sin(), (X,), targets=["wrong:value"])
    assert issubclass(Disagrees, AssertionError)
