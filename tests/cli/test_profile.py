from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.backends.protocol import TargetSpec
from harness.cli import session
from harness.cli.exit_codes import ExitCode
from harness.cli.profile import profile_command
from harness.corpus.files import pack_case
from harness.errors import UsageError
from harness.model.case import Case
from harness.model.outcome import Outcome, Status
from tests.doubles.cases import GUILTY, unary_case

NODES = [
    {"name": "cos", "op": "call_function", "target": "oneflow.cos", "seconds": 0.003, "share": 0.75},
    {"name": "sin", "op": "call_function", "target": "oneflow.sin", "seconds": 0.001, "share": 0.25},
]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(profile_command, list(map(str, arguments)), standalone_mode=False, catch_exceptions=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "case.json"
    path.write_bytes(pack_case(dataclasses.replace(unary_case(GUILTY, sizes=(3, 5)), mode="grad")))
    return path


def answering(monkeypatch: pytest.MonkeyPatch, outcome: Outcome) -> list[tuple[Case, TargetSpec]]:
    asked: list[tuple[Case, TargetSpec]] = []

    def run_once(case: Case, spec: TargetSpec, *, case_seconds: float) -> Outcome:
        asked.append((case, spec))
        return outcome

    monkeypatch.setattr(session, "run_once", run_once)
    return asked


MEASURED = Outcome("oneflow:fx", Status.OK, artifacts={"profile.json": json.dumps({"seconds": 0.005, "nodes": NODES})})


def test_the_table_has_a_line_for_each_node_and_the_sum(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, MEASURED)
    assert run(file, "--runs", 7).output == (
        "node  opcode         target       mean ms  share\n"
        "cos   call_function  oneflow.cos    3.000  75.0%\n"
        "sin   call_function  oneflow.sin    1.000  25.0%\n"
        "all nodes: 4.000 ms; a whole run: 5.000 ms\n"
    )
    ((case, spec),) = asked
    assert (len(case.calls), case.mode) == (1, "fwd")
    assert dict(spec.options) == {"way": "profile", "runs": "7"}


def test_json_holds_the_seconds(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, MEASURED)
    told = json.loads(run(file, "--json").output)
    assert told == {"format_version": 1, "target": "oneflow", "runs": 20, "graphs": [{"seconds": 0.005, "nodes": NODES}]}


def test_what_cannot_run_has_a_reason_and_a_code(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, Outcome("oneflow:fx", Status.UNSUPPORTED, node="a", message="missing: no frac"))
    ran = run(file)
    assert ran.return_value == ExitCode.NOTHING_TESTED
    assert "cannot be measured: oneflow:fx at a: missing: no frac" in ran.output


def test_a_name_that_nobody_knows_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a file nor a folder"):
        run("nothing", "--corpus", tmp_path)
