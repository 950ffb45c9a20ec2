"""Types that torch-mlir infers by itself, held against what eager gives; one case at a time and many in a module."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable

import numpy as np
import pytest

from harness.backends.torch_mlir.warmup import SILENT
from harness.errors import UsageError
from harness.model.case import Case
from harness.model.fill import Literal
from harness.model.outcome import Job, Outcome, Status
from harness.model.verdict import Kind
from oracles import judge
from tests.backends.torch_mlir.programs import S0, F, one, symbolic

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch and torch-mlir warn of their own innards while they are imported
    from harness.backends.torch_mlir.inference import SOURCE, InferenceBackend

JOB = Job(b"", "torch-mlir:inference")
UNKNOWN = f"{SOURCE} for unknown sizes"


@pytest.fixture(scope="module")
def backend() -> InferenceBackend:
    backend = InferenceBackend()
    backend.warm()
    return backend


def inferred(outcome: Outcome) -> list[tuple[str, str | None, tuple[int | None, ...] | None]]:
    return [(claim.source, claim.dtype, claim.shape) for claim in outcome.declared]


def test_types_are_found_with_and_without_sizes(backend: InferenceBackend, eager: Callable[[Case], Outcome]) -> None:
    case = one(F + "conv2d", (1, 2, 4, 4), (3, 2, 3, 3))
    outcome = backend.run(case, JOB, SILENT)
    assert (outcome.status, outcome.calls) == (Status.OK, ())
    assert inferred(outcome) == [(SOURCE, "float32", (1, 3, 2, 2)), (UNKNOWN, "float32", (None,) * 4)]
    assert judge(case, eager(case), outcome) == ()


def test_symbolic_sizes_hold_for_every_binding(backend: InferenceBackend, eager: Callable[[Case], Outcome]) -> None:
    case = symbolic("view", (S0, 2, 3), args=(S0, 6))
    outcome = backend.run(case, JOB, SILENT)
    assert inferred(outcome) == [(SOURCE, "float32", (None, 6)), (UNKNOWN, "float32", (None, 6))]
    assert all(claim.call is None for claim in outcome.declared)
    assert judge(case, eager(case), outcome) == ()


def test_a_wrong_shape_function_is_a_disagreement(backend: InferenceBackend, eager: Callable[[Case], Outcome]) -> None:
    case = one("operator.getitem", (1, 1, 2), (1, 1), dtype="bool")
    flipped = dataclasses.replace(case.calls[0], data={"i0": Literal(b"\1\1"), "i1": Literal(np.array([True]).tobytes())})
    case = dataclasses.replace(case, calls=(flipped,))
    verdicts = judge(case, eager(case), backend.run(case, JOB, SILENT))
    assert [verdict.kind for verdict in verdicts] == [Kind.DECLARED_SHAPE] * len(verdicts) != []
    assert verdicts[0].stage == SOURCE


def test_invalid_ir_is_an_error_with_its_input(backend: InferenceBackend) -> None:
    outcome = backend.run(one("torch.squeeze", (2,)), JOB, SILENT)
    assert (outcome.status, outcome.stage, outcome.artifacts["failure"]) == (Status.ERROR, "inference", "invalid-ir")
    assert "%arg0 : !torch.vtensor<[2],f32> -> !torch.vtensor\n" in outcome.artifacts["input.mlir"]
    assert outcome.artifacts["pipeline"].startswith("builtin.module(torch-lower-to-backend-contract")


def test_many_cases_in_one_module_are_as_each_alone(backend: InferenceBackend) -> None:
    cases = [
        one("torch.mm", (2, 3), (3, 2)),
        one("torch.erfc", (2,)),  # no operator of the dialect
        one("torch.squeeze", (2,)),  # fails its module
        symbolic("torch.add", (S0, 3), args=(1,)),
        one("size", (2,)),
    ]
    together = backend.run_many(cases, JOB, SILENT)
    alone = [backend.run(case, JOB, SILENT) for case in cases]
    assert [outcome.status.value for outcome in together] == ["ok", "unsupported", "error", "ok", "unsupported"]
    assert together == alone
    assert together[1].message == "torch.aten.erfc: no operator of the torch dialect"


def test_it_stops_before_the_pass_where_asked(backend: InferenceBackend) -> None:
    stopped = backend.run(one("torch.relu", (2,)), dataclasses.replace(JOB, options={"until": "import"}), SILENT)
    assert stopped.status is Status.INCONCLUSIVE
    assert stopped.artifacts["input.mlir"].count("func.func") == 2
    with pytest.raises(UsageError, match="route 'by air' is none of"):
        backend.run(one("torch.relu", (2,)), dataclasses.replace(JOB, options={"route": "by air"}), SILENT)
