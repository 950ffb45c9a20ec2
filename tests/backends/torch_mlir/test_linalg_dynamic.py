"""Symbolic sizes: one compiled function for all bindings, and separate ones where that cannot be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.model.case import Case
from harness.model.outcome import Outcome, Status
from harness.model.symbols import Sym
from tests.backends.torch_mlir.programs import S0, Draft, F, symbolic

CASES = {
    "pointwise": symbolic("torch.add", (S0, 3), (3,)),
    "view_computes_sizes": symbolic("torch.reshape", (S0, 6), args=((Sym("s0*2"), 3),)),
    "view_of_a_linear_size": symbolic("torch.reshape", (Sym("s0*2"), 3), args=((S0, 6),)),
    "flatten_two_symbols": symbolic("torch.flatten", (S0, S0)),
    "matmul": symbolic("torch.matmul", (S0, 3), (3, S0)),
    "conv": symbolic(F + "conv1d", (1, 2, Sym("s0+3")), (3, 2, 2)),
    "cat": symbolic("torch.sum", (S0, 4), args=(0,)),
    "arange": symbolic("torch.narrow", (Sym("s0+1"), 2), args=(0, 1, S0)),
    "three_bindings": symbolic("torch.relu", (S0, 2), sizes=(2, 5, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_every_binding_runs_on_one_function(name: str, run: Callable[..., Outcome], eager: Callable[[Case], Outcome]) -> None:
    outcome = run(CASES[name], want=("ir",))
    assert outcome.status is Status.OK, outcome.message
    assert outcome.artifacts["route"] == "decomposed+dynamic"
    assert "?" in outcome.artifacts["input.mlir"]
    assert outcome.calls == eager(CASES[name]).calls
    assert all(claim.call is None for claim in outcome.declared)


def test_without_dynamic_each_binding_is_compiled_by_itself(run: Callable[..., Outcome], eager: Callable[[Case], Outcome]) -> None:
    case = CASES["view_computes_sizes"]
    outcome = run(case, dynamic=False)
    assert outcome.artifacts["route"] == "decomposed"
    assert outcome.calls == eager(case).calls
    assert [(claim.call, claim.shape) for claim in outcome.declared] == [(0, (4, 3)), (1, (6, 3))]


def test_a_size_that_follows_no_dim_falls_back_to_static(run: Callable[..., Outcome], eager: Callable[[Case], Outcome]) -> None:
    draft = Draft()
    x = draft.tensor("float32", (S0, 4))
    case = draft.case(draft.call("torch.narrow", x, 1, 0, Sym("s0//2")), bindings=[{"s0": 2}, {"s0": 3}, {"s0": 6}])
    outcome = run(case)
    assert outcome.status is Status.OK, outcome.message
    assert outcome.artifacts["route"] == "decomposed"
    assert outcome.calls == eager(case).calls


def test_a_size_in_the_output_is_the_calls_own(run: Callable[..., Outcome], eager: Callable[[Case], Outcome]) -> None:
    draft = Draft()
    x = draft.tensor("float32", (S0, 4))
    case = draft.case((draft.call("torch.relu", x), draft.call("size", x, 0)), bindings=[{"s0": 2}, {"s0": 5}])
    assert run(case).calls == eager(case).calls


def test_the_users_route_keeps_sizes_dynamic_too(run: Callable[..., Outcome], eager: Callable[[Case], Outcome]) -> None:
    outcome = run(CASES["view_computes_sizes"], route="export")
    assert outcome.artifacts["route"] == "export+dynamic"
    assert outcome.calls == eager(CASES["view_computes_sizes"]).calls
