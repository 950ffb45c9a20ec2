"""Deadlines, memory, size and age: what the supervisor decides."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

import pytest

from harness.errors import UsageError
from harness.model.outcome import Status
from harness.workers.pool import WorkerPool
from harness.workers.settings import WorkerSettings
from tests.doubles.cases import job

MakePool = Callable[..., WorkerPool]


@pytest.mark.parametrize(("kind", "spinning"), [("hang", False), ("spin", True)])
def test_a_timeout_tells_spinning_from_sleeping(make_pool: MakePool, kind: str, spinning: bool) -> None:
    outcome = make_pool(case_seconds=0.4).worker(f"plain:{kind}").run(job(f"plain:{kind}"))
    assert outcome.status is Status.TIMEOUT
    assert outcome.death is not None
    assert outcome.death.spinning is spinning
    assert (outcome.stage, outcome.node) == ("run", "second")
    assert "0.4 s" in outcome.message
    assert "in before" in outcome.death.stderr  # the Python stack


def test_a_stage_has_a_deadline_of_its_own(make_pool: MakePool) -> None:
    outcome = make_pool(stage_seconds={"run": 0.1}).worker("plain:hang").run(job("plain:hang"))
    assert outcome.status is Status.TIMEOUT
    assert "stage run took longer than 0.1 s" in outcome.message


def test_the_deadline_of_another_stage_does_not_count(make_pool: MakePool) -> None:
    outcome = make_pool(case_seconds=0.3, stage_seconds={"lower": 0.01}).worker("plain:hang").run(job("plain:hang"))
    assert "no answer within 0.3 s" in outcome.message


def test_patience_stretches_deadlines(make_pool: MakePool) -> None:
    worker = make_pool(case_seconds=0.1).worker("plain:hang")
    started = time.monotonic()
    assert worker.run(job("plain:hang"), patience=4.0).status is Status.TIMEOUT
    assert 0.4 <= time.monotonic() - started < 3


def test_a_memory_hog_is_stopped_at_the_cap(make_pool: MakePool) -> None:
    outcome = make_pool(memory_mb=150).worker("plain:hog").run(job("plain:hog"))
    assert outcome.status is Status.OOM
    assert outcome.node == "second"
    assert outcome.death is not None
    assert 150 < outcome.death.rss_mb < 1000


def test_a_leak_is_not_charged_to_the_case_that_meets_the_cap(make_pool: MakePool) -> None:
    worker = make_pool(memory_mb=300).worker("broken:Leaks")
    served = []
    for _ in range(10):
        assert worker.run(job("broken:Leaks")).status is Status.OK
        served.append(len(worker.recent_jobs()))
    assert max(served) < 6


def test_a_cap_below_what_a_worker_starts_with_is_a_harness_error(make_pool: MakePool) -> None:
    outcome = make_pool(memory_mb=2).worker("plain").run(job("plain"))
    assert outcome.status is Status.HARNESS_ERROR
    assert "MB resident before the first case; the cap is 2 MB" in outcome.message


def test_endless_output_is_trimmed_while_it_comes(make_pool: MakePool) -> None:
    outcome = make_pool(case_seconds=0.5).worker("plain:printsforever").run(job("plain:printsforever"))
    assert outcome.status is Status.TIMEOUT
    assert outcome.death is not None
    assert outcome.death.stderr.startswith("NNN")
    assert len(outcome.death.stderr) <= 16_384


def test_a_worker_is_retired_after_its_cases(make_pool: MakePool) -> None:
    worker = make_pool(retire_after=3).worker("plain")
    counts = []
    for _ in range(7):
        assert worker.run(job("plain")).status is Status.OK
        counts.append(len(worker.recent_jobs()))
    assert counts == [1, 2, 3, 1, 2, 3, 1]


def test_a_worker_that_its_backend_calls_spent_is_replaced(make_pool: MakePool) -> None:
    worker = make_pool().worker("broken:Spends")
    for _ in range(2):
        assert worker.run(job("broken:Spends")).status is Status.OK
        assert len(worker.recent_jobs()) == 1


def test_recent_jobs_are_the_last_ones_only(make_pool: MakePool) -> None:
    worker = make_pool(history=2).worker("plain")
    jobs = [job("plain", seed=seed) for seed in range(4)]
    for item in jobs:
        worker.run(item)
    assert worker.recent_jobs() == tuple(jobs[2:])


def test_oversized_messages_are_inconclusive_in_both_directions(make_pool: MakePool) -> None:
    pool = make_pool(message_mb=1)
    request = pool.worker("plain").run(dataclasses.replace(job("plain"), reference=bytes(2 << 20)))
    answer = pool.worker("broken:Huge").run(job("broken:Huge"))
    assert request.status is answer.status is Status.INCONCLUSIVE
    assert "the job takes 2.0 MB" in request.message
    assert "the outcome takes 2.0 MB" in answer.message
    assert pool.worker("plain").run(job("plain")).status is Status.OK


@pytest.mark.parametrize("setting", ["case_seconds", "memory_mb", "retire_after", "message_mb", "history", "tick_seconds"])
def test_settings_that_no_worker_could_keep_are_refused(setting: str) -> None:
    with pytest.raises(UsageError, match=setting):
        WorkerSettings(**{setting: 0})


def test_a_stage_deadline_of_zero_is_refused() -> None:
    with pytest.raises(UsageError, match="lower"):
        WorkerSettings(stage_seconds={"lower": 0.0})
