from __future__ import annotations

import dataclasses
import os
import sys
import time
from pathlib import Path

import pytest

from harness.corpus import Entry, Expectation, Signature
from harness.errors import FormatError
from harness.model.outcome import CallResult, Outcome, Status
from harness.model.program import Node
from harness.model.values import Ref, tensor_from_array
from harness.model.verdict import Kind, Severity, Verdict
from harness.reproducers.render import render
from harness.reproducers.run import MAX_OUTPUT, mlir_shows, run_mlir, run_script, run_source
from tests.reproducers.builders import data, make_case, placeholder, roll_case


def test_exit_codes_and_output() -> None:
    ran = run_source("print('BUG: it is')\nraise SystemExit(1)")
    assert (ran.exit_code, ran.output) == (1, "BUG: it is\n")
    assert ran.shows_the_bug
    assert run_source("").exit_code == 0
    assert run_source("raise SystemExit(2)").exit_code == 2


def test_a_broken_script_shows_nothing() -> None:
    ran = run_source("import no_such_module")
    assert ran.exit_code == 1
    assert not ran.shows_the_bug


def test_a_death_by_signal_and_a_hang() -> None:
    assert run_source("import os; os.abort()").exit_code == -6
    begin = time.monotonic()
    assert run_source("import time; time.sleep(60)", timeout=0.5).exit_code is None
    assert time.monotonic() - begin < 20


def test_nothing_leads_back_to_the_harness(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os, sys\nprint(os.getcwd())\nprint(sys.path)\nimport harness")
    env = dict(os.environ, PYTHONPATH=os.getcwd())
    ran = run_script(script, env=env, python=sys.executable)
    assert os.getcwd() not in ran.output.splitlines()[0]
    found = run_script(script, env=env, path=[os.getcwd()])
    assert found.exit_code == 0


def test_children_left_behind_are_ended(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    child = f"import subprocess, sys; open({str(note)!r}, 'w').write(str(subprocess.Popen(['sleep', '60']).pid))"
    assert run_source(child).exit_code == 0
    pid = int(note.read_text())
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split(")")[1]:
            return
        time.sleep(0.05)
    pytest.fail("it lives on")


def test_mlir_without_a_run_line() -> None:
    with pytest.raises(FormatError, match="RUN line"):
        run_mlir("module {}")


def test_mlir_that_fails_and_mlir_that_passes() -> None:
    run = "// RUN: torch-mlir-opt -pass-pipeline='builtin.module(torch-backend-to-linalg-on-tensors-backend-pipeline)' %s\n"
    assert not mlir_shows(run + "module {}\n")
    assert mlir_shows(run + "module { nonsense }\n")


def entry(target: str, family: str, **more: object) -> Entry:
    case = roll_case(7)
    result = Outcome("eager", Status.OK, calls=(CallResult(tensor_from_array(case.arguments(0)["x0"].array(), "float32")),))
    made = Entry(
        case=case,
        signature=Signature(family, Kind.VALUE, "run", "roll"),
        target=target,
        severity=Severity.WRONG_VALUE,
        title="roll",
        reference=result,
        observed=dataclasses.replace(result, target=target),
        verdict=Verdict("values", Kind.VALUE, target, Severity.WRONG_VALUE, "6 of 6 differ"),
        expectation=Expectation({"torch": "2.13.0"}, "linux-x86_64"),
    )
    return dataclasses.replace(made, **more)  # type: ignore[arg-type]


def test_each_family_has_its_own_script_and_a_replay_behind_it() -> None:
    lowered, replayed = render(entry("torch-mlir:linalg", "torch-mlir")).scripts
    assert (lowered.environment, lowered.bare, replayed.bare) == ("main", True, False)
    assert "fx.export_and_import(M(), *inputs" in lowered.text
    assert "Seen with torch 2.13.0 on linux-x86_64." in lowered.text
    flow, replayed = render(entry("oneflow:lockstep", "oneflow")).scripts
    assert (flow.environment, replayed.environment) == ("oneflow", "main")
    assert "oneflow.roll(x0, " in flow.text


def test_what_no_bare_script_shows_is_replayed() -> None:
    other = render(entry("eager:copy", "eager"))
    assert other.bare is None
    assert other.reason == "nothing but fxdiff runs eager:copy"
    compile(other.scripts[0].text, "repro.py", "exec")
    later = render(entry("oneflow:lockstep", "oneflow", victim=roll_case(1)))
    assert later.bare is None
    assert "VICTIM = rb" in later.scripts[0].text
    assert render(entry("torch-mlir:linalg", "torch-mlir", route="raw")).bare is None


def test_a_node_without_translation_says_so() -> None:
    node = Node("n", "call_function", "torch.frac", (Ref("x0"),))
    case = make_case([placeholder("x0", "float32", (2,)), node], Ref("n"), {"x0": data([1, 2])})
    found = render(entry("oneflow:lockstep", "oneflow", case=case))
    assert found.bare is None
    assert "no translation" in found.reason


def test_a_fixed_entry_has_none() -> None:
    assert render(entry("torch-mlir:linalg", "torch-mlir", verdict=None, status="fixed")).scripts == ()


def test_of_a_script_that_prints_without_end_only_the_end_is_kept() -> None:
    flood = "import os, sys\nfor _ in range(400):\n    os.write(2, b'error: again ' * 5000)\nprint('\\nBUG: still running')\nsys.exit(1)\n"
    ran = run_source(flood, timeout=30)
    assert ran.shows_the_bug and len(ran.output) <= MAX_OUTPUT
    ran = run_source("import os\nwhile True:\n    os.write(2, b'error: again ' * 5000)\n", timeout=1)
    assert ran.exit_code is None and not ran.shows_the_bug and 0 < len(ran.output) <= MAX_OUTPUT
