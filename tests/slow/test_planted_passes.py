"""Passes made wrong on purpose, and torch-mlir's own faults, by the real commands: found, minimized, the pass named, saved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli.exit_codes import ExitCode
from harness.corpus.entry import Entry
from harness.corpus.store import Corpus
from harness.reproducers.run import mlir_gives
from harness.reproducers.torch_mlir_passes import mlir_of_pass
from harness.triage import guilt
from tests.cli.running import ROOT, fuzz, fxdiff
from tests.doubles.planted import VICTIM

PLANTED = ("--import", "tests.doubles.planted")
FEW = ("--seed", "3", "--max-cases", "12", "--max-findings", "1", "--jobs", "1", "--dtype", "float32", "--max-nodes", "3")


def found_in(folder: Path) -> Entry:
    (entry,) = Corpus(folder / "findings").entries()
    return entry


@pytest.mark.parametrize(
    ("damage", "kind"),
    [("wrong-operator", "value"), ("invalid-ir", "invalid-ir"), ("silent-error", "silent-error"), ("cycle", "no-convergence")],
)
def test_a_planted_fault_becomes_a_finding_that_names_the_pass(damage: str, kind: str, tmp_path: Path) -> None:
    ran = fuzz(tmp_path / "run", *PLANTED, "--target", f"planted:{damage}", "--op", "sin", *FEW)
    assert ran.code == ExitCode.NEW_FINDING, ran.out + ran.err
    entry = found_in(ran.folder)
    assert (entry.signature.kind.value, entry.signature.stage, entry.signature.operator) == (kind, VICTIM, "sin")
    told = guilt.of_entry(entry.observed)
    assert told is not None
    assert told.place == VICTIM
    assert len(entry.case.program.operators) == 1
    # torch-mlir-opt has no such fault, so a reproducer for it would show nothing.
    assert entry.repro_mlir is None


def test_torch_mlirs_own_fault_is_saved_as_the_snapshot_before_the_guilty_pass(tmp_path: Path) -> None:
    options = ("--target", "torch-mlir:fixpoint?pipeline=fx", "--op", "copysign", "--op", "roll", "--profile", "static")
    ran = fuzz(tmp_path / "run", *options, "--seed", "1", "--max-cases", "40", "--max-findings", "1", "--jobs", "1", "--max-nodes", "2")
    assert ran.code == ExitCode.NEW_FINDING, ran.out + ran.err
    entry = found_in(ran.folder)
    told = guilt.of_entry(entry.observed)
    assert told is not None
    assert (told.place, told.pattern[:9]) == ("torch-decompose-complex-ops", "Decompose")
    assert entry.repro_mlir is not None
    made = mlir_of_pass(entry)
    assert made is not None
    assert made[0] == entry.repro_mlir
    assert made[1] == "" or mlir_gives(*made)


def test_the_story_of_an_entry_names_the_guilty_pass_and_pattern(tmp_path: Path) -> None:
    entry = next(path for path in sorted((ROOT / "corpus").iterdir()) if path.name.startswith("torch-mlir-roll-value-"))
    told = fxdiff("pipeline", str(entry), "--route", "decomposed", "--pipeline", "fx", "--json", cwd=tmp_path)
    assert told.code == ExitCode.NEW_FINDING, told.err
    data = json.loads(told.out)
    assert (data["guilty"]["place"], data["guilty"]["pattern"]) == ("torch-decompose-complex-ops", "DecomposeAtenRollOp")
    assert [story["pipeline"] for story in data["stories"]] == ["fx"]


def test_the_story_of_a_result_that_the_lowering_spoils_says_so(tmp_path: Path) -> None:
    entry = next(path for path in sorted((ROOT / "corpus").iterdir()) if path.name.startswith("torch-mlir-pad-value-"))
    told = fxdiff("pipeline", str(entry), "--pipeline", "fx", "--no-color", cwd=tmp_path)
    assert told.code == ExitCode.NOTHING_NEW, told.out + told.err
    assert told.out.rstrip().endswith("guilty: TorchToLinalg or later")
