"""A job of several cases, on the worker's side."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from harness.backends.protocol import Progress
from harness.model.case import Case
from harness.model.codec import from_wire, to_wire
from harness.model.outcome import Job, Outcome, Status
from harness.workers.progress import PageProgress, map_page, new_page
from harness.workers.worker import answer
from tests.doubles.cases import job, unary_case


class Counting:
    """Answers with how many nodes each case has; forgets the last one where told to."""

    def __init__(self, *, forgets: bool = False) -> None:
        self.forgets = forgets

    def warm(self) -> None: ...

    def start(self) -> None: ...

    def versions(self) -> Mapping[str, str]:
        return {}

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        return Outcome(job.target, Status.OK, "run", message=str(len(case.program.nodes)))

    def run_many(self, cases: Sequence[Case], job: Job, progress: Progress) -> Sequence[Outcome]:
        return [self.run(case, job, progress) for case in (cases[:-1] if self.forgets else cases)]


def asked(backend: Counting, further: int) -> Outcome:
    more = tuple(to_wire(unary_case("torch.sin", seed=seed)) for seed in range(further))
    message = to_wire(dataclasses.replace(job("many"), more=more))
    return answer(backend, "many", message, PageProgress(map_page(new_page())), {})


def test_the_first_outcome_brings_the_others() -> None:
    outcome = asked(Counting(), 2)
    assert (outcome.status, outcome.message, len(outcome.more)) == (Status.OK, "4", 2)
    assert [from_wire(Outcome, each).message for each in outcome.more] == ["4", "4"]
    assert outcome.seconds["total"] > 0


def test_one_case_is_run_alone() -> None:
    outcome = asked(Counting(), 0)
    assert (outcome.status, outcome.more) == (Status.OK, ())


def test_a_backend_that_forgets_a_case_is_at_fault() -> None:
    outcome = asked(Counting(forgets=True), 2)
    assert outcome.status is Status.HARNESS_ERROR
    assert "run_many returned 2 outcomes for 3 cases" in outcome.message
