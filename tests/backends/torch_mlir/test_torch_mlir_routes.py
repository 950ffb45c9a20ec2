from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from harness.errors import UsageError
from harness.model.case import Case
from harness.model.outcome import Outcome, Status
from tests.backends.torch_mlir.programs import Draft, F, one

SAME = {
    "conv": one(F + "conv2d", (1, 2, 5, 5), (3, 2, 3, 3)),
    "cosine_similarity": one(F + "cosine_similarity", (2, 3), (2, 3)),
    "pad_circular": one(F + "pad", (1, 2, 3), args=((1, 1),), mode="circular"),
    "cross_entropy": one(F + "cross_entropy", (2, 3), (2, 3)),
}


def operators(outcome: Outcome) -> list[str]:
    return sorted(re.findall(r'= (torch\.(?:aten|prims|operator)[\w.]*(?: "[\w.]+")?)', outcome.artifacts["input.mlir"]))


@pytest.mark.parametrize("name", SAME)
def test_our_import_hands_over_what_the_users_route_does(name: str, run: Callable[..., Outcome]) -> None:
    ours, users = (run(SAME[name], route=route, until="import") for route in ("decomposed", "export"))
    assert operators(ours) == operators(users) != []


@pytest.mark.parametrize("route", ["raw", "decomposed", "export"])
def test_every_route_runs(route: str, run: Callable[..., Outcome], eager: Callable[[Case], Outcome]) -> None:
    draft = Draft()
    x, w = draft.tensor("float32", (2, 3)), draft.tensor("float32", (4, 3), role="parameter")
    case = draft.case({"out": draft.call("torch.relu", draft.call(F + "linear", x, w)), "size": 3, "none": None})
    outcome = run(case, route=route)
    assert outcome.artifacts["route"] == route
    assert outcome.calls == eager(case).calls


def test_locations_name_the_programs_nodes(run: Callable[..., Outcome]) -> None:
    draft = Draft()
    first = draft.call("torch.relu", draft.tensor("float32", (2, 3)))
    outcome = run(draft.case(draft.call("torch.erfc", first)))
    assert outcome.node == "erfc_2"


@pytest.mark.parametrize("until", ["import", "torch-pipeline", "linalg"])
def test_a_job_may_stop_after_a_stage_and_take_its_ir(until: str, run: Callable[..., Outcome]) -> None:
    outcome = run(one("torch.relu", (2, 3)), until=until)
    assert (outcome.status, outcome.stage, outcome.calls) == (Status.INCONCLUSIVE, until, ())
    wanted = {"import": "input.mlir", "torch-pipeline": "torch.mlir", "linalg": "linalg.mlir"}[until]
    assert "func.func @main" in outcome.artifacts[wanted]


def test_what_a_route_cannot_be_asked_for_is_a_usage_error(run: Callable[..., Outcome]) -> None:
    with pytest.raises(UsageError, match="route 'fast' is none of"):
        run(one("torch.relu", (2, 3)), route="fast")
    with pytest.raises(UsageError, match="until 'llvm' is none of"):
        run(one("torch.relu", (2, 3)), until="llvm")


def test_the_declared_types_are_torch_mlirs(run: Callable[..., Outcome]) -> None:
    draft = Draft()
    x = draft.tensor("uint8", (2, 3))
    outcome = run(draft.case((draft.call("torch.lt", x, 3), {"sum": draft.call("torch.sum", x, 1)})))
    assert [(d.source, d.path, d.dtype, d.shape) for d in outcome.declared] == [
        ("torch-mlir", "[0]", "bool", (2, 3)),
        ("torch-mlir", "[1]['sum']", "int64", (2,)),
    ]


def test_ir_is_carried_only_for_what_asks_or_fails(run: Callable[..., Outcome]) -> None:
    assert set(run(one("torch.relu", (2, 3))).artifacts) == {"route"}
    assert set(run(one("torch.relu", (2, 3)), want=("ir",)).artifacts) == {"route", "input.mlir", "pipeline", "torch.mlir", "linalg.mlir"}
    assert {"route", "input.mlir", "pipeline"} <= set(run(one("torch.erfc", (2, 3))).artifacts)
