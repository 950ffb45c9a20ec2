from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

import tests.doubles.broken
import tests.doubles.plain
import tests.doubles.wrong  # noqa: F401
from harness.backends.protocol import targets
from harness.workers.pool import WorkerPool
from harness.workers.settings import WorkerSettings

PLAIN = [spec for spec in targets() if spec.zygote.startswith("plain")]


@pytest.fixture(scope="session")
def pool() -> Iterator[WorkerPool]:
    """One pool for all tests that neither kill its zygote nor need limits of their own."""
    with WorkerPool(PLAIN, WorkerSettings(case_seconds=20.0, memory_mb=400)) as pool:
        yield pool


@pytest.fixture
def make_pool() -> Iterator[Callable[..., WorkerPool]]:
    """Makes pools with settings of their own, and closes them."""
    made: list[WorkerPool] = []

    def make(**settings: object) -> WorkerPool:
        made.append(WorkerPool(PLAIN, WorkerSettings(**{"case_seconds": 20.0, "memory_mb": 400, **settings})))
        return made[-1]

    yield make
    for pool in made:
        pool.close()


@pytest.fixture
def open_descriptors() -> Callable[[], int]:
    return lambda: len(os.listdir("/proc/self/fd"))
