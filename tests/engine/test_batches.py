"""Targets that take many cases at once."""

from __future__ import annotations

from harness.backends.protocol import TargetSpec
from harness.engine.evaluate import REFERENCE, Evaluator
from harness.model.codec import to_wire
from harness.model.outcome import CallResult, Death, Job, Outcome, Status
from tests.doubles.cases import unary_case

MANY = TargetSpec("many", "", "", batch=3)
ONE = TargetSpec("one", "", "")
RIGHT = Outcome("eager", Status.OK, "run", calls=(CallResult(1),))


class Recorded:
    """Answers each case by a running number; jobs of several cases as `whole` says."""

    def __init__(self, whole: str) -> None:
        self.whole = whole
        self.jobs: list[Job] = []

    def run(self, job: Job, *, fresh: bool = False, patience: float = 1.0) -> Outcome:
        self.jobs.append(job)
        if job.target == REFERENCE:
            return RIGHT
        answer = Outcome(job.target, Status.OK, "run", calls=(CallResult(1),), seconds={"total": 3.0}, versions={"many": "1"})
        if not job.more:
            return answer
        if self.whole == "dies":
            return Outcome(job.target, Status.CRASH, death=Death("SIGSEGV"))
        more = tuple(to_wire(Outcome(job.target, Status.UNSUPPORTED, message=str(index))) for index in range(len(job.more)))
        return Outcome(job.target, Status.OK, "run", (CallResult((1, 2)),), seconds={"total": 3.0}, versions={"many": "1"}, more=more)


def evaluated(whole: str, count: int) -> tuple[list[Outcome], list[int], Recorded]:
    runner = Recorded(whole)
    cases = [unary_case("torch.sin", seed=seed) for seed in range(count)]
    found = Evaluator(runner).evaluate_many(cases, [ONE, MANY])
    assert [each.case for each in found] == cases
    assert all(each.observed["one"].status is Status.OK for each in found)
    return [each.observed["many"] for each in found], [1 + len(job.more) for job in runner.jobs if job.target == "many"], runner


def test_cases_are_given_in_batches_and_outcomes_come_back_in_order() -> None:
    outcomes, sizes, _ = evaluated("comes back", 5)
    assert sizes == [3, 2]
    assert [outcome.status.value for outcome in outcomes] == ["ok", "unsupported", "unsupported", "ok", "unsupported"]
    assert [outcome.message for outcome in outcomes] == ["", "0", "1", "", "0"]
    assert all(outcome.more == () and outcome.versions == {"many": "1"} for outcome in outcomes)
    assert outcomes[0].seconds == {"total": 1.0}


def test_a_batch_that_dies_is_halved_until_each_case_is_alone() -> None:
    outcomes, sizes, _ = evaluated("dies", 3)
    assert sizes == [3, 1, 2, 1, 1]
    assert [outcome.status for outcome in outcomes] == [Status.OK] * 3


def test_a_verdict_belongs_to_its_own_case() -> None:
    runner = Recorded("comes back")
    found = Evaluator(runner).evaluate_many([unary_case("torch.sin", seed=seed) for seed in range(3)], [MANY])
    assert [len(each.of("many")) for each in found] == [1, 0, 0]
