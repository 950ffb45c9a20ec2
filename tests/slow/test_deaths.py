"""Many deaths in a row, and the deaths that take long to tell."""

from __future__ import annotations

import os

import tests.doubles.broken
import tests.doubles.wrong  # noqa: F401
from harness.backends.protocol import target
from harness.model.outcome import Status
from harness.workers.kernel import children_of
from harness.workers.pool import WorkerPool
from harness.workers.settings import WorkerSettings
from tests.doubles.cases import job
from tests.workers.alive import used_cpu

DEATHS = 2000
KINDS = {
    "plain:abort": Status.CRASH,
    "plain:segfault": Status.CRASH,
    "plain:fpe": Status.CRASH,
    "plain:exit": Status.CRASH,
}


def open_descriptors(pid: str) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_two_thousand_deaths_neither_slow_nor_end_a_run() -> None:
    names = ["plain", *KINDS]
    with WorkerPool([target(name) for name in names], WorkerSettings(memory_mb=400)) as pool:
        for name in names:
            pool.worker(name).run(job(name))
        zygote = pool.processes()["plain"]
        before = open_descriptors("self"), open_descriptors(str(zygote))
        cpu = [used_cpu(pool)]
        for count in range(DEATHS):
            name = list(KINDS)[count % len(KINDS)]
            outcome = pool.worker(name).run(job(name, seed=count))
            assert outcome.status is KINDS[name]
            assert outcome.node == "second"
            if (count + 1) % (DEATHS // 4) == 0:
                cpu.append(used_cpu(pool))
            if count % 100 == 0:
                assert pool.worker("plain").run(job("plain")).status is Status.OK
        assert pool.processes()["plain"] == zygote
        assert (open_descriptors("self"), open_descriptors(str(zygote))) == before
        assert len(children_of(zygote)) == 1
        assert cpu[4] - cpu[3] < 1.5 * (cpu[1] - cpu[0])


def test_a_hundred_hogs_and_hangs_leave_the_machine_as_it_was() -> None:
    settings = WorkerSettings(case_seconds=0.1, memory_mb=120)
    names = ["plain:hang", "plain:spin", "plain:hog"]
    with WorkerPool([target(name) for name in names], settings) as pool:
        for count in range(100):
            name = names[count % 3]
            outcome = pool.worker(name).run(job(name), patience=20.0 if name == "plain:hog" else 1.0)
            assert outcome.status is (Status.OOM if name == "plain:hog" else Status.TIMEOUT)
        assert children_of(pool.processes()["plain"]) == []


def test_a_worker_that_closes_every_descriptor_is_a_harness_error() -> None:
    with WorkerPool([target("broken:ClosesEverything")]) as pool:
        outcome = pool.worker("broken:ClosesEverything").run(job("broken:ClosesEverything"))
        assert outcome.status is Status.HARNESS_ERROR
        assert "closed its socket and lives on" in outcome.message


WRONG_OVER_EAGER = {
    "value": Status.OK,
    "raise": Status.ERROR,
    "harness": Status.HARNESS_ERROR,
    "exit": Status.CRASH,
    "abort": Status.CRASH,
    "segfault": Status.CRASH,
    "hang": Status.TIMEOUT,
    "spin": Status.TIMEOUT,
    "hog": Status.OOM,
    "prints": Status.OK,
}


def test_deaths_over_eager_have_the_address_that_they_have_over_numpy() -> None:
    names = [f"wrong:{kind}" for kind in WRONG_OVER_EAGER]
    with WorkerPool([target(name) for name in names], WorkerSettings(case_seconds=3.0, memory_mb=1500)) as pool:
        for name, status in zip(names, WRONG_OVER_EAGER.values(), strict=True):
            assert pool.worker(name).run(job(name, guilty=False)).status is Status.OK, name
            outcome = pool.worker(name).run(job(name), patience=20.0 if status is Status.OOM else 1.0)
            assert outcome.status is status, name
            if status is not Status.OK:
                assert (outcome.stage, outcome.node) == ("run", "second"), name
        assert list(pool.processes()) == ["torch"]
