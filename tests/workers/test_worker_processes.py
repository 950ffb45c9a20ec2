"""Who lives and who dies: workers, zygotes and the supervisor killed from outside, and nothing left behind."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import TargetUnavailable
from harness.model.outcome import Outcome, Status
from harness.workers import pool as pool_module
from harness.workers.kernel import children_of
from harness.workers.pool import WorkerPool
from tests.doubles.cases import job
from tests.workers.alive import all_gone, is_alive, used_cpu, wait_until

MakePool = Callable[..., WorkerPool]
ROOT = Path(__file__).resolve().parents[2]


def in_thread(pool: WorkerPool, target: str, folder: Path) -> tuple[threading.Thread, list[Outcome]]:
    """A job of a wrong target in a thread, once its harm has begun."""
    outcomes: list[Outcome] = []
    begun = folder / "begun"
    request = dataclasses.replace(job(target), options={"touch": str(begun)})
    thread = threading.Thread(target=lambda: outcomes.append(pool.worker(target).run(request)))
    thread.start()
    assert wait_until(begun.exists)
    return thread, outcomes


def test_a_killed_worker_is_a_crash_of_its_case_and_no_other(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool()
    thread, outcomes = in_thread(pool, "plain:hang", tmp_path)
    (worker,) = children_of(pool.processes()["plain"])
    os.kill(worker, signal.SIGKILL)
    thread.join(5)
    assert outcomes[0].status is Status.CRASH
    assert outcomes[0].death is not None
    assert outcomes[0].death.signal == "SIGKILL"
    assert pool.worker("plain:hang").run(job("plain:hang", guilty=False)).status is Status.OK


def test_an_idle_worker_that_somebody_kills_is_replaced_in_silence(make_pool: MakePool) -> None:
    pool = make_pool()
    assert pool.worker("plain").run(job("plain")).status is Status.OK
    (worker,) = children_of(pool.processes()["plain"])
    os.kill(worker, signal.SIGKILL)
    assert all_gone([worker])
    assert pool.worker("plain").run(job("plain")).status is Status.OK


def test_a_death_between_two_cases_is_reported_with_the_history_that_led_to_it(make_pool: MakePool) -> None:
    pool = make_pool()
    first, second = job("plain:idle", seed=1), job("plain:idle", guilty=False, seed=2)
    worker = pool.worker("plain:idle")
    assert worker.run(first).status is Status.OK
    (process,) = children_of(pool.processes()["plain"])
    assert all_gone([process])
    outcome = worker.run(second)
    assert outcome.status is Status.CRASH
    assert outcome.death is not None
    assert outcome.death.signal == "SIGALRM"
    assert "never ran" in outcome.message
    assert worker.recent_jobs() == (first, second)
    assert worker.run(second).status is Status.OK


def test_a_killed_zygote_is_restarted_and_its_job_tried_again(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(case_seconds=1.0)
    thread, outcomes = in_thread(pool, "plain:hang", tmp_path)
    zygote = pool.processes()["plain"]
    workers = children_of(zygote)
    os.kill(zygote, signal.SIGKILL)
    assert all_gone([zygote, *workers])
    thread.join(10)
    assert outcomes[0].status is Status.TIMEOUT
    assert pool.processes()["plain"] != zygote


def test_a_zygote_killed_between_jobs_is_restarted(make_pool: MakePool) -> None:
    pool = make_pool()
    for _ in range(3):
        assert pool.worker("plain").run(job("plain")).status is Status.OK
        os.kill(pool.processes()["plain"], signal.SIGKILL)


def test_a_zygote_that_is_killed_again_and_again_is_a_harness_error(make_pool: MakePool) -> None:
    pool = make_pool()
    stop = threading.Event()

    def kill() -> None:
        while not stop.is_set():
            for pid in pool.processes().values():
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        outcome = pool.worker("plain:hang").run(job("plain:hang"))
    finally:
        stop.set()
        killer.join()
    assert outcome.status is Status.HARNESS_ERROR
    assert "zygote plain" in outcome.message


def test_ctrl_c_does_not_reach_zygotes_and_workers(make_pool: MakePool) -> None:
    pool = make_pool()
    pool.worker("plain").run(job("plain"))
    zygote = pool.processes()["plain"]
    (worker,) = children_of(zygote)
    assert os.getsid(zygote) != os.getsid(0)
    for pid in (zygote, worker):
        os.kill(pid, signal.SIGINT)
    assert pool.worker("plain").run(job("plain")).status is Status.OK
    assert pool.processes()["plain"] == zygote
    assert children_of(zygote) == [worker]


def test_a_zygote_can_be_forked_from_another(make_pool: MakePool) -> None:
    pool = make_pool()
    assert pool.worker("broken:InChildZygote").run(job("broken:InChildZygote")).status is Status.OK
    pids = pool.processes()
    assert pids["plain-child"] in children_of(pids["plain"])
    (worker,) = children_of(pids["plain-child"])
    os.kill(pids["plain"], signal.SIGKILL)
    assert all_gone([*pids.values(), worker])
    assert pool.worker("broken:InChildZygote").run(job("broken:InChildZygote")).status is Status.OK
    pids = pool.processes()
    pool.close()
    assert all_gone(pids.values())
    assert pool.cpu_seconds()["broken:InChildZygote"] > 0


def test_a_zygote_whose_parent_is_not_in_use_starts_by_itself() -> None:
    from harness.backends.protocol import target

    with WorkerPool([target("broken:InChildZygote")]) as pool:
        assert pool.worker("broken:InChildZygote").run(job("broken:InChildZygote")).status is Status.OK
        assert set(pool.processes()) == {"plain-child"}


def test_what_a_target_leaves_running_dies_with_its_pool(make_pool: MakePool) -> None:
    pool = make_pool()
    with pool.fresh("broken:Spawns") as worker:
        in_group, own_session = map(int, worker.run(job("broken:Spawns")).message.split())
    assert all_gone([in_group])
    assert is_alive(own_session)
    pool.close()
    assert all_gone([own_session])


def test_a_child_of_a_dead_worker_does_not_hide_its_death(make_pool: MakePool) -> None:
    started = time.monotonic()
    outcome = make_pool().worker("broken:ForksHolder").run(job("broken:ForksHolder"))
    assert outcome.status is Status.CRASH
    assert time.monotonic() - started < 5


def test_close_ends_jobs_in_flight_and_everything_else(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool()
    thread, outcomes = in_thread(pool, "plain:hang", tmp_path)
    pids = [pool.processes()["plain"], *children_of(pool.processes()["plain"])]
    pool.close()
    thread.join(5)
    assert outcomes[0].status is Status.INCONCLUSIVE
    assert all_gone(pids)
    assert pool.worker("plain").run(job("plain")).status is Status.INCONCLUSIVE
    pool.close()


SCRIPT = """
import sys, threading, time
import tests.doubles.broken, tests.doubles.wrong
from harness.backends.protocol import target
from harness.workers.pool import WorkerPool
from tests.doubles.cases import job

pool = WorkerPool([target(name) for name in sys.argv[1:]])
pool.start()
for name in sys.argv[1:]:
    threading.Thread(target=lambda name=name: pool.worker(name).run(job(name)), daemon=True).start()
time.sleep(3600)
"""


def family(pid: int) -> list[int]:
    """All descendants of a process."""
    found = children_of(pid)
    return found + [other for child in found for other in family(child)]


@pytest.mark.parametrize(
    ("targets", "processes"),
    [(("plain:hang", "plain:spin"), 3), (("plain", "broken:InChildZygote"), 4), (("broken:WarmHangs",), 1), (("broken:StartHangs",), 2)],
)
def test_a_killed_supervisor_leaves_nothing_behind(targets: tuple[str, ...], processes: int) -> None:
    supervisor = subprocess.Popen([sys.executable, "-c", SCRIPT, *targets], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        assert wait_until(lambda: len(family(supervisor.pid)) == processes, 10)
        pids = family(supervisor.pid)
    finally:
        supervisor.kill()
        supervisor.wait()
    assert all_gone(pids)


def test_deaths_leak_neither_descriptors_nor_processes_and_do_not_slow_down(
    make_pool: MakePool, open_descriptors: Callable[[], int]
) -> None:
    pool = make_pool()
    kinds = ("plain:abort", "plain:segfault", "plain:exit")
    for kind in kinds:
        pool.worker(kind).run(job(kind))
    descriptors = open_descriptors()
    zygote_descriptors = len(os.listdir(f"/proc/{pool.processes()['plain']}/fd"))
    cpu = [used_cpu(pool)]
    for count in range(1, 301):
        kind = kinds[count % len(kinds)]
        assert pool.worker(kind).run(job(kind)).status is Status.CRASH
        if count % 100 == 0:
            cpu.append(used_cpu(pool))
    assert open_descriptors() == descriptors
    assert len(os.listdir(f"/proc/{pool.processes()['plain']}/fd")) == zygote_descriptors
    assert children_of(pool.processes()["plain"]) == []
    assert cpu[3] - cpu[2] < 2 * (cpu[1] - cpu[0])


def test_a_pool_gives_back_every_descriptor(make_pool: MakePool, open_descriptors: Callable[[], int]) -> None:
    before = open_descriptors()
    pool = make_pool()
    for target in ("plain", "plain:abort", "plain:harness"):
        pool.worker(target).run(job(target))
    pool.close()
    assert open_descriptors() == before


def test_threads_with_slots_of_their_own_run_at_once(make_pool: MakePool) -> None:
    pool = make_pool()
    failures: list[object] = []

    def work(slot: int) -> None:
        for count in range(25):
            kind = "plain:abort" if count % 5 == slot else "plain"
            status = pool.worker(kind, slot).run(job(kind)).status
            if status is not (Status.CRASH if kind != "plain" else Status.OK):
                failures.append(status)

    threads = [threading.Thread(target=work, args=(slot,)) for slot in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(children_of(pool.processes()["plain"])) == 4


def test_a_target_that_cannot_be_warmed_is_unavailable_and_its_siblings_are_not(make_pool: MakePool) -> None:
    pool = make_pool()
    with pytest.raises(TargetUnavailable, match=r"cannot be loaded: ImportError: no library on purpose \(.*broken.py:\d+\)$"):
        pool.check("broken:WarmFails")
    outcome = pool.worker("broken:WarmFails").run(job("broken:WarmFails"))
    assert outcome.status is Status.HARNESS_ERROR
    assert "no library on purpose" in outcome.message
    assert pool.worker("plain").run(job("plain")).status is Status.OK


def test_a_library_that_dies_or_hangs_in_its_import_is_unavailable(make_pool: MakePool) -> None:
    with pytest.raises(TargetUnavailable, match="cannot be imported on purpose"):
        make_pool().check("broken:WarmDies")
    with pytest.raises(TargetUnavailable, match=r"not warm after 0\.5 s"):
        make_pool(warm_seconds=0.5).check("broken:WarmHangs")


@pytest.mark.parametrize(
    ("target", "text"), [("StartFails", "no device"), ("StartDies", "SIGABRT"), ("StartHangs", "no answer within 0.5 s")]
)
def test_a_worker_that_cannot_start_is_a_harness_error(make_pool: MakePool, target: str, text: str) -> None:
    outcome = make_pool(start_seconds=0.5).worker(f"broken:{target}").run(job(f"broken:{target}"))
    assert outcome.status is Status.HARNESS_ERROR
    assert outcome.stage == "start"
    assert text in outcome.message


def test_an_interpreter_that_is_deleted_is_named(make_pool: MakePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(pool_module, "interpreter_for", lambda environment, threads: (str(python), dict(os.environ)))
    pool = make_pool()
    assert pool.worker("plain").run(job("plain")).status is Status.OK
    python.unlink()
    assert pool.worker("plain:value").run(job("plain:value")).status is Status.OK  # its zygote lives on
    zygote = pool.processes()["plain"]
    workers = children_of(zygote)
    os.kill(zygote, signal.SIGKILL)
    assert all_gone([zygote, *workers])
    outcome = pool.worker("plain").run(job("plain"))
    assert outcome.status is Status.HARNESS_ERROR
    assert str(python) in outcome.message
    with pytest.raises(TargetUnavailable, match="cannot start"):
        pool.check("plain")


def test_cpu_seconds_are_charged_to_the_target_that_used_them(make_pool: MakePool) -> None:
    pool = make_pool(retire_after=1)
    for _ in range(2):
        pool.worker("broken:Burns").run(job("broken:Burns"))
    pool.worker("plain", 1).run(job("plain"))
    assert pool.cpu_seconds()["broken:Burns"] >= 0.25
    pool.close()
    used = pool.cpu_seconds()
    assert 0.29 <= used["broken:Burns"] < 0.6
    assert 0 < used["plain"] < 0.1
    assert 0 < used["zygote:plain"] < 1


@pytest.mark.parametrize("target", ["broken:WarmHangs", "broken:ChildOfHanging"])
def test_close_does_not_wait_for_a_library_that_hangs_in_its_import(make_pool: MakePool, target: str) -> None:
    pool = make_pool()
    pool.start()
    thread = threading.Thread(target=lambda: pool.worker(target).run(job(target)))
    thread.start()
    assert wait_until(lambda: "plain-hangs" in pool.processes())
    pids = list(pool.processes().values())
    started = time.monotonic()
    pool.close()
    assert time.monotonic() - started < 3
    thread.join(5)
    assert not thread.is_alive()
    assert all_gone(pids)


def test_versions_come_from_a_worker(make_pool: MakePool) -> None:
    assert "numpy" in make_pool().versions("plain")
