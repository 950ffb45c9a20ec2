from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from harness.compilers.oneflow import forget_placements, stop_worker


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    forget_placements()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture(autouse=True, scope="session")
def no_worker_left() -> Iterator[None]:
    yield
    stop_worker()
