from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from harness.backends.protocol import TargetSpec, targets
from harness.cli import doctor as module
from harness.cli.doctor import command, doctor, doctor_command
from harness.environments.missing import Missing
from harness.environments.versions import pins
from harness.errors import UnknownName
from tests.environments import fakes


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without OneFlow, with a Python 3.10 and a compiler to build it."""
    monkeypatch.setenv("FXDIFF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FXDIFF_PYTHON310", str(fakes.python(tmp_path / "python3.10")))
    monkeypatch.setenv("CC", str(fakes.script(tmp_path / "mycc", "true")))
    return tmp_path


@pytest.fixture
def complete(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "missing", lambda zygote: None)


def as_json(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(doctor_command, ["--json", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, json.loads(result.stdout)


def text(**options: Any) -> tuple[int, str]:
    stream = io.StringIO()
    return doctor(False, console=Console(file=stream), **options), stream.getvalue()


def _without_tensorrt(report: dict[str, Any]) -> list[dict[str, str]]:
    """What is missing, but for what hardly any machine has; where TensorRT is missing, doctor says which part of it."""
    states = {item["name"]: item["missing"] for item in report["targets"]}
    lack = states["aten:tensorrt"]
    assert lack is None or any(word in lack["what"] for word in ("CUDA driver", "torch-tensorrt", "tensorrt"))
    return [problem for problem in report["missing"] if problem != lack]


def test_the_json_report_names_what_is_there_and_what_mends_what_is_not(bare: Path) -> None:
    code, report = as_json()
    assert code == 0
    assert report["format_version"] == 1
    assert report["python310"]["found"] == {"path": str(bare / "python3.10"), "version": "3.10.13", "source": "FXDIFF_PYTHON310"}
    assert report["compiler"] == [str(bare / "mycc")]
    assert report["cache"]["path"] == str(bare / "cache")
    assert report["cache"]["oneflow"] is None
    states = {item["name"]: item for item in report["targets"]}
    assert set(states) == {spec.name for spec in targets()}
    assert states["oneflow:lockstep"]["available"] is False
    assert states["oneflow:lockstep"]["missing"]["mend"] == "python -m harness.environments.build"
    assert [problem["what"] for problem in _without_tensorrt(report)] == [states["oneflow:lockstep"]["missing"]["what"]]
    packages = {(item["environment"], item["name"]): item for item in report["packages"]}
    assert packages["oneflow", "oneflow"]["note"] == "missing"
    assert packages["main", "torch"]["pinned"] is not None


def test_a_missing_python310_and_compiler_are_told_before_the_build_that_needs_them(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.refusing_shim(bare / "python3.10")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC")
    _, report = as_json()
    assert [problem["what"].split(":")[0].split(" (")[0] for problem in _without_tensorrt(report)] == [
        "no usable Python 3.10 found",
        "no C compiler",
        "OneFlow's environment is not built",
    ]
    assert report["python310"]["refused"][0]["reason"] == "exit code 127: pyenv: python3.10: command not found"


@pytest.mark.parametrize(("name", "code"), [("oneflow:lockstep", 4), ("eager", 0)])
def test_a_required_target_that_is_missing_makes_exit_code_4(bare: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int) -> None:
    gone = Missing("not here", "why", "mend")
    monkeypatch.setattr(module, "missing", lambda zygote: gone if zygote == "oneflow" else None)
    result = CliRunner().invoke(doctor_command, ["--require-target", name])
    assert result.exit_code == code
    assert ("error: required but not available: oneflow:lockstep" in result.stderr) == (code == 4)


def test_a_required_target_that_does_not_exist_is_a_usage_error_with_the_nearest(bare: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean oneflow:lockstep"):
        doctor(False, require=["oneflow:lockstop"])


def test_off_a_terminal_the_report_is_plain_lines_that_are_never_cut(bare: Path) -> None:
    code, shown = text()
    assert code == 0
    assert "\x1b" not in shown
    assert "┃" not in shown
    assert re.search(
        rf"^  Python 3.10 for OneFlow  3.10.13 +{re.escape(str(bare / 'python3.10'))} \(FXDIFF_PYTHON310\)$", shown, re.MULTILINE
    )
    assert "  Why it matters: OneFlow runs in an interpreter of its own" in shown
    assert "  To mend it:     python -m harness.environments.build" in shown


def test_on_a_terminal_there_are_tables_and_text_in_brackets_stays_text(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.sys, "executable", "/a/[red]folder/python")
    stream = io.StringIO()
    doctor(False, console=Console(file=stream, force_terminal=True, width=200, no_color=True))
    assert "┃" in stream.getvalue()
    assert "/a/[red]folder/python" in stream.getvalue()


def test_nothing_missing_is_said(complete: None) -> None:
    _, shown = text()
    assert "Missing:" not in shown
    assert shown.splitlines()[-1] == "Nothing is missing."


def test_a_package_of_another_version_than_the_pinned_one_is_noted(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "installed", lambda name: "1.13.1")
    _, shown = text()
    pinned = pins("main")["torch"]
    assert re.search(
        rf" torch +1.13.1 +{re.escape(pinned)} +not the pinned {re.escape(pinned)}: known bugs were recorded with that$",
        shown,
        re.MULTILINE,
    )


def test_a_small_case_is_run_on_each_target_that_lacks_nothing(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "missing", lambda zygote: Missing("gone", "why", "mend") if zygote == "oneflow" else None)
    asked: list[str] = []

    def smoke(spec: TargetSpec) -> str | None:
        asked.append(spec.name)
        return "died of SIGSEGV at relu" if spec.family == "torch-mlir" else None

    code, shown = text(smoke=smoke, require=["torch-mlir:linalg"])
    assert asked == [spec.name for spec in targets() if spec.zygote != "oneflow"]
    assert code == 4
    assert "Broken: torch-mlir:linalg: died of SIGSEGV at relu" in shown
    assert text(smoke=smoke, require=["eager"])[0] == 0


def test_a_command_made_with_a_smoke_case_runs_it(complete: None) -> None:
    result = CliRunner().invoke(command(lambda spec: "bad"), ["--json", "--require-target", "eager"])
    assert result.exit_code == 4
    assert {item["check"] for item in json.loads(result.stdout)["targets"]} == {"bad"}


def test_environments_of_other_pins_are_told_with_how_to_remove_them(bare: Path) -> None:
    (bare / "cache/oneflow-000000000000").mkdir(parents=True)
    assert f"rm -r {bare / 'cache/oneflow-000000000000'}" in text()[1]
