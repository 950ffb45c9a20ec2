"""The programs that a public report ran the simplification pipeline over again and again, which once uncovered bugs.

They are entries of the corpus, and go to the fixpoint today: pass by pass, by both routes, through both pipelines.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from harness.backends.torch_mlir.following import follow_case
from harness.backends.torch_mlir.precision import result_claims, worse
from harness.backends.torch_mlir.warmup import SILENT
from harness.corpus.entry import Entry, read
from harness.model.outcome import Job, Status
from harness.model.story import Ending
from oracles import judge
from tests.backends.torch_mlir.programs import S0, one, symbolic

ROOT = Path(__file__).resolve().parents[3]
SAYS = "running TorchSimplificationPipeline until it converges"
REPORTED = [entry for path in sorted((ROOT / "corpus").glob("torch-mlir-*")) if SAYS in (entry := read(path)).notes]
UNDEFINED = ("rand_like", "empty_like")


def test_every_reported_program_is_there() -> None:
    operators = sorted(entry.signature.operator for entry in REPORTED)
    assert operators == ["full", "full_like", "full_like", "rand_like", "roll"]
    assert any(entry.case.symbols for entry in REPORTED)


@pytest.mark.parametrize("entry", REPORTED, ids=[entry.slug for entry in REPORTED])
def test_a_reported_program_goes_to_the_fixpoint(entry: Entry) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = follow_case(entry.case, Job(b"", "torch-mlir:fixpoint"), SILENT)
    assert outcome.status is Status.OK
    assert len(outcome.stories) == 4
    for story in outcome.stories:
        assert (story.ending, story.contract) == (Ending.FIXPOINT, "")
        assert 1 <= story.iterations <= 3
        assert not any(step.faults for step in story.steps)
        first, last = (result_claims(step.types) for step in (story.steps[0], story.steps[-1]))
        assert all(worse(first[place], last[place]) is None for place in first)
        compared = [step.result is not None for step in story.steps]
        assert all(compared) == (entry.signature.operator not in UNDEFINED)
    assert judge(entry.case, entry.reference, outcome) == ()


@pytest.mark.parametrize(
    "case",
    [one("torch.empty_like", (2, 3)), symbolic("torch.empty_like", (S0, 3)), symbolic("torch.rand_like", (S0, 3))],
    ids=["empty_like", "empty_like-dynamic", "rand_like-dynamic"],
)
def test_values_that_are_not_determined_leave_types_to_compare(case: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = follow_case(case, Job(b"", "torch-mlir:fixpoint", options={"route": "raw"}), SILENT)  # type: ignore[arg-type]
    for story in outcome.stories:
        assert story.ending is Ending.FIXPOINT
        assert not any(step.faults for step in story.steps)
        assert "not determined" in story.steps[0].uninterpreted
