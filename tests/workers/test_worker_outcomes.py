"""What a job comes back as, for every way in which a target can misbehave."""

from __future__ import annotations

import dataclasses

import pytest

from harness.errors import HarnessError
from harness.model.outcome import Job, Outcome, Status
from harness.workers.pool import WorkerPool
from tests.doubles.broken import BURN_SECONDS, HUGE_ELEMENTS
from tests.doubles.cases import job


def run(pool: WorkerPool, target: str, **options: object) -> Outcome:
    with pool.fresh(target) as worker:
        return worker.run(dataclasses.replace(job(target), options=options))


def test_a_right_target_is_ok_with_output_versions_and_seconds(pool: WorkerPool) -> None:
    outcome = run(pool, "plain")
    assert outcome.status is Status.OK
    assert outcome.target == "plain"
    assert outcome.stage == "run"
    assert len(outcome.calls) == 1
    assert "numpy" in outcome.versions
    assert outcome.seconds["total"] >= outcome.seconds["run"] > 0


@pytest.mark.parametrize(
    ("kind", "signal", "exit_code"),
    [("abort", "SIGABRT", None), ("segfault", "SIGSEGV", None), ("fpe", "SIGFPE", None), ("exit", "", 3)],
)
def test_a_death_is_a_crash_with_its_signal_stage_and_node(pool: WorkerPool, kind: str, signal: str, exit_code: int | None) -> None:
    outcome = run(pool, f"plain:{kind}")
    assert outcome.status is Status.CRASH
    assert (outcome.stage, outcome.node) == ("run", "second")
    assert outcome.death is not None
    assert (outcome.death.signal, outcome.death.exit_code) == (signal, exit_code)
    assert outcome.death.rss_mb > 0
    assert "numpy" in outcome.versions


def test_a_crash_keeps_what_native_code_printed(pool: WorkerPool) -> None:
    death = run(pool, "plain:abort").death
    assert death is not None
    assert "Check failed: wrong on purpose" in death.stderr


@pytest.mark.parametrize(
    ("target", "status", "message"),
    [
        ("plain:harness", Status.HARNESS_ERROR, "KeyError"),
        ("plain:sysexit", Status.HARNESS_ERROR, "SystemExit"),
        ("broken:Interrupts", Status.HARNESS_ERROR, "KeyboardInterrupt"),
        ("broken:ReturnsNothing", Status.HARNESS_ERROR, "NoneType"),
        ("broken:ReturnsForeign", Status.HARNESS_ERROR, "outside the value grammar"),
        ("plain:memoryerror", Status.OOM, "MemoryError"),
        ("plain:refuse", Status.UNSUPPORTED, "no kernel"),
        ("plain:reject", Status.REJECTED, "not a case"),
        ("plain:raise", Status.ERROR, "wrong on purpose"),
    ],
)
def test_exceptions_become_statuses_and_the_process_serves_on(pool: WorkerPool, target: str, status: Status, message: str) -> None:
    with pool.fresh(target) as worker:
        outcome = worker.run(job(target))
        assert outcome.status is status
        assert message in outcome.message
        assert outcome.death is None
        if status is Status.HARNESS_ERROR:
            assert "Traceback" in outcome.artifacts["traceback"]
        worker.run(job(target))
        assert len(worker.recent_jobs()) == 2


def test_an_exception_has_the_address_where_it_arose(pool: WorkerPool) -> None:
    outcome = run(pool, "plain:harness")
    assert (outcome.stage, outcome.node) == ("run", "second")


def test_a_broken_case_is_a_harness_error_in_the_stage_that_reads_it(pool: WorkerPool) -> None:
    with pool.fresh("plain") as worker:
        outcome = worker.run(Job(b"\xc1", "plain"))
        assert outcome.status is Status.HARNESS_ERROR
        assert outcome.stage == "decode"
        assert worker.run(job("plain")).status is Status.OK


def test_a_job_for_another_target_is_refused(pool: WorkerPool) -> None:
    with pytest.raises(HarnessError, match="worker of 'plain'"):
        pool.worker("plain").run(job("plain:value"))


def test_printing_does_no_harm(pool: WorkerPool, capfd: pytest.CaptureFixture[str]) -> None:
    with pool.fresh("plain:prints") as worker:
        for _ in range(3):
            assert worker.run(job("plain:prints")).status is Status.OK
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("kind", "text"), [("garbage", "begins with"), ("length", "claims"), ("payload", "broken"), ("record", "color")])
def test_bytes_that_are_no_message_end_the_worker_and_nothing_else(pool: WorkerPool, kind: str, text: str) -> None:
    with pool.fresh("broken:Scribbles") as worker:
        for _ in range(2):
            outcome = worker.run(dataclasses.replace(job("broken:Scribbles"), options={"scribble": kind}))
            assert outcome.status is Status.HARNESS_ERROR
            assert text in outcome.message


def test_messages_larger_than_a_socket_buffer_pass(pool: WorkerPool) -> None:
    with pool.fresh("broken:Huge") as worker:
        outcome = worker.run(dataclasses.replace(job("broken:Huge"), reference=bytes(5_000_000)))
    assert outcome.status is Status.OK
    assert outcome.calls[0].output.shape == (HUGE_ELEMENTS,)


def test_seconds_are_counted_by_stage(pool: WorkerPool) -> None:
    seconds = run(pool, "broken:Burns").seconds
    assert seconds["first"] == pytest.approx(BURN_SECONDS * 2 / 3, rel=0.3)
    assert seconds["second"] == pytest.approx(BURN_SECONDS / 3, rel=0.3)
    assert seconds["total"] == pytest.approx(BURN_SECONDS, rel=0.3)


@pytest.mark.parametrize(("target", "innocents"), [("plain:heap", 1), ("plain:heaplater", 3)])
def test_a_corrupted_heap_kills_a_later_case_and_replay_finds_it_again(pool: WorkerPool, target: str, innocents: int) -> None:
    jobs = [job(target, seed=1), *(job(target, guilty=False, seed=2 + count) for count in range(innocents))]
    with pool.fresh(target) as worker:
        assert [worker.run(item).status for item in jobs] == [Status.OK] * innocents + [Status.CRASH]
        assert worker.recent_jobs() == tuple(jobs)
    assert pool.replay(target, jobs)[-1].status is Status.CRASH
    assert {outcome.status for outcome in pool.replay(target, jobs[1:])} == {Status.OK}


def test_replay_ends_at_the_first_death(pool: WorkerPool) -> None:
    outcomes = pool.replay("plain:abort", [job("plain:abort", guilty=False), job("plain:abort"), job("plain:abort", guilty=False)])
    assert [outcome.status for outcome in outcomes] == [Status.OK, Status.CRASH]


def test_a_flaky_target_is_flaky_over_fresh_workers(pool: WorkerPool) -> None:
    outputs = [run(pool, "plain:flaky").calls for _ in range(4)]
    assert outputs[0] != outputs[1]
    assert outputs[0] == outputs[2]
    assert outputs[1] == outputs[3]


@pytest.mark.parametrize(("kind", "sizes", "wrong"), [("binding", (3, 3, 4), (2,)), ("call", (3, 3), (1,)), ("value", (3, 4), (0, 1))])
def test_the_doubles_are_wrong_where_they_say(pool: WorkerPool, kind: str, sizes: tuple[int, ...], wrong: tuple[int, ...]) -> None:
    right = pool.worker("plain").run(job("plain", sizes=sizes)).calls
    spoilt = pool.worker(f"plain:{kind}").run(job(f"plain:{kind}", sizes=sizes)).calls
    assert tuple(index for index, pair in enumerate(zip(right, spoilt, strict=True)) if pair[0] != pair[1]) == wrong
    innocent = job(f"plain:{kind}", sizes=sizes, guilty=False)
    assert pool.worker(f"plain:{kind}").run(innocent).calls == right
