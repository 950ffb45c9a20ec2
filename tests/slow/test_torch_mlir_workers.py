"""torch-mlir's own deaths, in workers: the process that runs the case dies, and nothing else does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.backends.protocol import target
from harness.model.codec import to_wire
from harness.model.outcome import Job, Outcome, Status
from harness.workers.pool import WorkerPool
from harness.workers.settings import WorkerSettings
from tests.backends.torch_mlir.programs import F, one

TARGET = "torch-mlir:linalg"


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool([target(TARGET)], WorkerSettings(case_seconds=8.0)) as pool:
        yield pool


def outcome(pool: WorkerPool, case: object) -> Outcome:
    return pool.worker(TARGET).run(Job(to_wire(case), TARGET))


def test_a_worker_runs_case_after_case(pool: WorkerPool) -> None:
    for _ in range(3):
        assert outcome(pool, one(F + "conv2d", (1, 2, 5, 5), (3, 2, 3, 3))).status is Status.OK


def test_a_segfault_in_a_pass_is_a_crash_of_that_stage(pool: WorkerPool) -> None:
    found = outcome(pool, one("torch.mm", (2, 3), (3, 2), dtype="int8"))
    assert (found.status, found.stage) == (Status.CRASH, "linalg")
    assert found.death is not None and found.death.signal == "SIGSEGV"
    assert outcome(pool, one("torch.relu", (2, 3))).status is Status.OK


def test_an_endless_pass_is_a_timeout_of_that_stage(pool: WorkerPool) -> None:
    found = outcome(pool, one("torch.softmax", (), args=(0,)))
    assert (found.status, found.stage) == (Status.TIMEOUT, "torch-pipeline")
    assert outcome(pool, one("torch.relu", (2, 3))).status is Status.OK
