from __future__ import annotations

from collections.abc import Iterator

import pytest

import tests.doubles.wrong
from harness.backends.protocol import target
from harness.workers.pool import WorkerPool
from harness.workers.settings import WorkerSettings


@pytest.fixture(scope="session")
def pool() -> Iterator[WorkerPool]:
    """One warm pool over eager and every wrong target, for all tests of the engine."""
    names = ["eager", *(f"wrong:{kind}" for kind in tests.doubles.wrong.KINDS)]
    with WorkerPool([target(name) for name in names], WorkerSettings(case_seconds=10.0, memory_mb=2048)) as made:
        yield made
