from __future__ import annotations

import dataclasses
import warnings

import pytest

from harness.backends.eager import EagerBackend
from harness.backends.torch_mlir.following import follow_case
from harness.backends.torch_mlir.warmup import SILENT
from harness.corpus.entry import Entry, Expectation
from harness.corpus.signature import Signature
from harness.model.case import Case
from harness.model.outcome import Death, Job, Status
from harness.model.verdict import Kind, Severity, Verdict
from harness.reproducers.render import render
from harness.reproducers.run import mlir_gives, mlir_shows
from harness.reproducers.torch_mlir_passes import mlir_of_pass
from harness.triage import guilt
from oracles import judge
from tests.backends.torch_mlir.programs import one

TARGET = "torch-mlir:fixpoint"


def entry_of(case: Case) -> Entry:
    """The finding of the one thing that is wrong with a case, as the engine would make it but for minimizing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = EagerBackend().run(case, Job(b"", "eager", want=("trace", "twin", "spread")), SILENT)
        observed = follow_case(case, Job(b"", TARGET, options={"route": "decomposed", "pipeline": "fx"}), SILENT)
    (verdict,) = judge(case, reference, observed)
    told = dataclasses.replace(guilt.of_verdict(verdict), pattern="DecomposeAtenRollOp")
    artifacts = {**observed.artifacts, guilt.ARTIFACT: guilt.to_text(told)}
    return Entry(
        case,
        Signature("torch-mlir", verdict.kind, verdict.stage, "roll"),
        TARGET,
        verdict.severity,
        "roll: wrong result",
        reference,
        dataclasses.replace(observed, artifacts=artifacts),
        verdict,
        expectation=Expectation({"torch": "2.13.0", "torch-mlir": "1", "numpy": "2"}, "linux"),
    )


@pytest.fixture(scope="module")
def roll() -> Entry:
    return entry_of(one("torch.roll", (2, 3), args=(7, 1)))


def test_the_snapshot_before_the_guilty_pass_is_the_reproducer(roll: Entry) -> None:
    made = mlir_of_pass(roll)
    assert made is not None
    text, leaves = made
    lines = text.splitlines()
    assert lines[0] == "// RUN: torch-mlir-opt -pass-pipeline='builtin.module(func.func(torch-decompose-complex-ops))' %s"
    for said in ("// Pattern: DecomposeAtenRollOp", "// Operation: torch.aten.roll", "// torch 2.13.0, torch-mlir 1"):
        assert said in lines
    assert any(line.startswith("//   expected: float32 [2, 3] [") for line in lines)
    assert any(line.startswith("//   actual:   float32 [2, 3] [") for line in lines)
    assert "torch.aten.roll" in text.partition("module {")[2]
    assert "torch.aten.roll" not in leaves


def test_torch_mlir_opt_makes_of_it_what_the_pass_made(roll: Entry) -> None:
    made = mlir_of_pass(roll)
    assert made is not None
    text, leaves = made
    assert mlir_gives(text, leaves)
    assert not mlir_gives(text, leaves.replace("aten.cat", "aten.stack"))
    assert not mlir_gives(text.replace("torch-decompose-complex-ops", "cse"), leaves)


def test_render_hands_it_over_with_what_it_must_leave(roll: Entry) -> None:
    reproducer = render(roll)
    assert (reproducer.mlir, reproducer.mlir_leaves) == mlir_of_pass(roll)


def test_an_error_that_is_reported_shows_by_itself() -> None:
    made = mlir_of_pass(entry_of(one("torch.roll", (2, 3), args=(3,))))
    assert made is not None
    text, leaves = made
    assert leaves == ""
    assert "list sizes of shifts and dims are not the same" in text
    assert mlir_shows(text)


def test_without_a_guilty_pass_or_its_snapshot_there_is_none(roll: Entry) -> None:
    bare = dataclasses.replace(roll.observed, artifacts={})
    assert mlir_of_pass(dataclasses.replace(roll, observed=bare)) is None
    lost = {name: text for name, text in roll.observed.artifacts.items() if not name.startswith(guilt.SNAPSHOT)}
    assert mlir_of_pass(dataclasses.replace(roll, observed=dataclasses.replace(roll.observed, artifacts=lost))) is None


def test_a_death_takes_the_import_and_the_whole_pipeline() -> None:
    case = one("torch.sin", (2, 3))
    early = follow_case(case, Job(b"", TARGET, options={"until": "import", "route": "decomposed"}), SILENT)
    died = dataclasses.replace(early, status=Status.TIMEOUT, stage="canonicalize", death=Death(signal="SIGKILL"))
    verdict = Verdict("status", Kind.TIMEOUT, TARGET, Severity.CRASH, "no end", "canonicalize")
    signature = Signature("torch-mlir", Kind.TIMEOUT, "canonicalize", "sin")
    made = mlir_of_pass(Entry(case, signature, TARGET, Severity.CRASH, "hangs", early, died, verdict))
    assert made is not None
    lines = made[0].splitlines()
    assert lines[0].startswith(
        "// RUN: torch-mlir-opt -pass-pipeline='builtin.module(func.func(torch-match-quantized-custom-ops),torchdynamo-"
    )
    assert "// The process ends in the pass canonicalize." in lines
    assert not mlir_shows(made[0])
