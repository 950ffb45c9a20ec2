from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from harness.backends.torch_mlir.warmup import SILENT
from harness.model.case import Case
from harness.model.outcome import Job, Outcome


@pytest.fixture(scope="session")
def run() -> Callable[..., Outcome]:
    """Runs a case on torch-mlir:linalg in this process; programs known to crash or hang belong in workers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch and torch-mlir warn of their own innards while they are imported
        from harness.backends.torch_mlir.backend import LinalgBackend

        backend = LinalgBackend()
        backend.warm()

    def run(case: Case, *, want: tuple[str, ...] = (), **options: Any) -> Outcome:
        return backend.run(case, Job(b"", "torch-mlir:linalg", want=want, options=options), SILENT)

    return run


@pytest.fixture(scope="session")
def eager() -> Callable[[Case], Outcome]:
    from harness.backends.eager import EagerBackend

    backend = EagerBackend()
    return lambda case: backend.run(case, Job(b"", "eager"), SILENT)
