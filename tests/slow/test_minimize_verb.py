"""`fxdiff minimize` and `fxdiff replay` of bare cases, on a target that is wrong about torch.sin."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from harness.cli.exit_codes import ExitCode
from harness.corpus import Corpus, Entry
from harness.corpus.entry import read
from harness.corpus.files import pack_case
from harness.model.case import Call, Case
from harness.model.fill import Literal
from harness.model.outcome import CallResult, Outcome, Status
from harness.model.program import Node, Program, TensorSpec
from harness.model.values import Ref, tensor_from_array
from tests.cli.running import WRONG, Ran, fxdiff
from tests.doubles.entries import entry


def large() -> Entry:
    """cos(sin(x) * x) + x, which sin alone explains."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3) / 4
    nodes = (
        Node("x0", "placeholder", "x0", role="input", spec=TensorSpec("float32", (2, 3))),
        Node("sin_1", "call_function", "torch.sin", (Ref("x0"),)),
        Node("mul_1", "call_function", "torch.mul", (Ref("sin_1"), Ref("x0"))),
        Node("cos_1", "call_function", "torch.cos", (Ref("mul_1"),)),
        Node("add_1", "call_function", "torch.add", (Ref("cos_1"), Ref("x0"))),
        Node("output", "output", "output", (Ref("add_1"),)),
    )
    case = Case(Program(nodes), (Call(data={"x0": Literal(x.tobytes())}),))
    given = tensor_from_array(np.cos(np.sin(x) * x) + x, "float32")
    small = entry("sin", "wrong:value")
    return dataclasses.replace(
        small,
        case=case,
        reference=Outcome("eager", Status.OK, calls=(CallResult(given),)),
        upstream="https://example.org/issues/7",
        notes="seen by hand; minimization was cut short",
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Corpus(tmp_path / "found").add(large())


def minimize(*arguments: object, cwd: Path) -> Ran:
    return fxdiff("minimize", *map(str, arguments), *WRONG, cwd=cwd)


def test_an_entry_gets_smaller_once_and_keeps_what_people_wrote(folder: Path, tmp_path: Path) -> None:
    ran = minimize(folder, "--budget", "60s", "--json", cwd=tmp_path)
    assert ran.code == 0, ran.err
    report = json.loads(ran.out)
    assert report["state"] == "SMALLER"
    assert report["operators"] == [4, 1]
    smaller = read(tmp_path / "found" / report["entry"])
    assert [node.target for node in smaller.case.program.operators] == ["torch.sin"]
    assert smaller.upstream == "https://example.org/issues/7"
    assert smaller.notes.startswith("seen by hand")
    assert "cut short" not in smaller.notes
    assert smaller.found.nodes == 4
    assert smaller.repro is not None
    assert [path.name for path in Corpus(tmp_path / "found").paths()] == [smaller.slug]
    before = {path: path.read_bytes() for path in (tmp_path / "found").rglob("*") if path.is_file()}
    again = minimize(tmp_path / "found" / smaller.slug, "--budget", "60s", cwd=tmp_path)
    assert again.code == 0, again.err
    assert again.out.startswith("ALREADY MINIMAL: ")
    assert before == {path: path.read_bytes() for path in (tmp_path / "found").rglob("*") if path.is_file()}


def test_what_does_not_show_any_more_is_left_alone(tmp_path: Path) -> None:
    path = Corpus(tmp_path / "found").add(dataclasses.replace(large(), target="eager:copy"))
    ran = fxdiff("minimize", str(path), cwd=tmp_path)
    assert ran.code == ExitCode.NOTHING_TESTED, ran.err
    assert ran.out.startswith("NOT SEEN: ")
    assert read(path).case.program == large().case.program


def test_a_case_file_becomes_findings(tmp_path: Path) -> None:
    (tmp_path / "some.json").write_bytes(pack_case(large().case))
    ran = minimize("some.json", "--target", "wrong:value", "--budget", "30s", "-o", "out", cwd=tmp_path)
    assert ran.code == ExitCode.NEW_FINDING, ran.err
    (found,) = Corpus(tmp_path / "out" / "findings").entries()
    assert [node.target for node in found.case.program.operators] == ["torch.sin"]


def test_a_case_file_is_replayed_on_the_targets_asked_for(tmp_path: Path) -> None:
    (tmp_path / "some.json").write_bytes(pack_case(large().case))
    ran = fxdiff("replay", "some.json", "-t", "wrong:value", "-t", "eager:copy", *WRONG, cwd=tmp_path)
    assert ran.code == ExitCode.NEW_FINDING, ran.err
    lines = ran.out.splitlines()
    assert lines[0].startswith("DISAGREES    some.json on wrong:value  ")
    assert lines[1] == "AGREES       some.json on eager:copy  with eager"
    fine = fxdiff("replay", "some.json", "-t", "eager:copy", "--json", cwd=tmp_path)
    assert fine.code == 0, fine.err
    assert [each["state"] for each in json.loads(fine.out)] == ["AGREES"]
