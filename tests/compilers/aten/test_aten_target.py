from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from harness.backends.eager import EagerBackend, Silent
from harness.backends.protocol import load_backend, target
from harness.compilers.aten import engines
from harness.compilers.aten.settings import AtenSettings
from harness.compilers.aten.target import settings_from
from harness.errors import UnknownName, UsageError
from harness.model.case import Call, Case
from harness.model.fill import Fill
from harness.model.outcome import Diagnostic, Job, Outcome, Status
from harness.model.program import Node, Program, TensorSpec
from harness.model.values import Ref
from harness.model.verdict import Kind
from oracles import judge


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch._dynamo.reset()


@pytest.fixture
def _planted() -> Iterator[None]:
    for name in ("WrongEngine", "CannotBuild", "LeavesAModeOn", "RaisingPredicate"):
        engines.register(name, f"tests.doubles.aten:{name}")
    known = dict(engines._ENTRIES)
    yield
    for name in known:
        if name in ("WrongEngine", "CannotBuild", "LeavesAModeOn", "RaisingPredicate"):
            del engines._ENTRIES[name]


def case(mode: str = "fwd") -> Case:
    spec = TensorSpec("float32", (3, 4), requires_grad=mode != "fwd")
    weight = TensorSpec("float32", (4, 4), requires_grad=mode != "fwd")
    nodes = (
        Node("x0", "placeholder", "x0", role="input", spec=spec),
        Node("p0", "placeholder", "p0", role="parameter", spec=weight),
        Node("matmul_0", "call_function", "torch.matmul", (Ref("x0"), Ref("p0"))),
        Node("sigmoid_1", "call_function", "torch.sigmoid", (Ref("matmul_0"),)),
        Node("cos_2", "call_function", "torch.cos", (Ref("sigmoid_1"),)),
        Node("output", "output", "output", ((Ref("cos_2"), {"k": 1}),)),
    )
    calls = tuple(Call(data={"x0": Fill("exact/1", number)}) for number in range(2))
    return Case(Program(nodes), calls, state={"p0": Fill("exact/1", 7)}, mode=mode)


def run(name: str, made: Case, **options: str) -> Outcome:
    spec = target(name)
    return load_backend(spec.entry).run(made, Job(b"", name, options={**spec.options, **options}), Silent())


def verdicts(name: str, made: Case, **options: str) -> dict[Kind, str]:
    reference = EagerBackend().run(made, Job(b"", "eager", ("trace",)), Silent())
    return {verdict.kind: verdict.message for verdict in judge(made, reference, run(name, made, **options))}


@pytest.mark.parametrize("route", ["twin", "dynamo"])
@pytest.mark.parametrize("mode", ["fwd", "grad", "train"])
@pytest.mark.parametrize("name", ["aten:eager", "aten:numpy-constants"])
def test_both_routes_are_right_in_every_mode(name: str, mode: str, route: str) -> None:
    outcome = run(name, case(mode), route=route)
    assert outcome.status is Status.OK
    assert outcome.counts["graphs"] == (1 if mode == "fwd" else 2)
    assert outcome.counts["passed-through"] == 0
    assert verdicts(name, case(mode), route=route) == {}


def test_the_full_audit_finds_nothing_here() -> None:
    assert verdicts("aten:eager?audit=full", case()) == {}


@pytest.mark.usefixtures("_planted")
def test_a_wrong_engine_is_found_by_value_and_named_by_the_audit() -> None:
    assert Kind.VALUE in verdicts("aten:WrongEngine", case())
    found = verdicts("aten:WrongEngine?audit=full", case())
    assert "its own check fails: equal to eager: block_0: sigmoid" in found[Kind.SELF_CHECK]


@pytest.mark.usefixtures("_planted")
def test_a_build_that_fails_is_an_error_or_counted() -> None:
    outcome = run("aten:CannotBuild", case())
    assert outcome.status is Status.ERROR
    assert outcome.message == "EngineBuildError: block_0: engine CannotBuild cannot be built: RuntimeError: no builder on purpose".replace(
        "engine CannotBuild", "engine cannot-build"
    )
    outcome = run("aten:CannotBuild?pass_through_build_failures=true", case())
    assert (outcome.status, outcome.counts["passed-through"]) == (Status.OK, 1)


@pytest.mark.usefixtures("_planted")
def test_a_mode_left_on_is_an_error_and_a_predicate_that_raises_a_finding() -> None:
    assert run("aten:LeavesAModeOn", case()).message.endswith("left FakeTensorMode on")
    assert "predicate" in verdicts("aten:RaisingPredicate", case())[Kind.SELF_CHECK]


def test_settings_are_read_from_text() -> None:
    given = {"min_block_size": "3", "kept_in_torch": "aten.add,aten.mm", "lowering": "false", "precision": "float64", "route": "twin"}
    wanted = AtenSettings(min_block_size=3, kept_in_torch=frozenset({"aten.add", "aten.mm"}), lowering=False, precision="float64")
    assert settings_from("eager", given) == wanted
    for options in ({"min_block_size": "many"}, {"lowering": "perhaps"}):
        with pytest.raises(UsageError):
            settings_from("eager", options)
    for options in ({"route": "by air"}, {"audit": "deep"}):
        with pytest.raises(UsageError):
            run("aten:eager", case(), **options)


def test_an_engine_or_an_option_that_does_not_exist_is_told_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean numpy-constants"):
        engines.engine("numpy-constant")
    with pytest.raises(UnknownName, match="did you mean min_block_size"):
        target("aten:eager?min_blok_size=2")


def test_what_an_audit_said_is_judged_from_the_evidence_alone() -> None:
    reference = EagerBackend().run(case(), Job(b"", "eager", ("trace",)), Silent())
    told: tuple[Any, ...] = (Diagnostic("note", "aliasing: eager shares memory", "audit"),)
    (verdict,) = judge(case(), reference, dataclasses.replace(reference, target="aten:x", witness=(), diagnostics=told))
    assert (verdict.kind, verdict.path) == (Kind.SELF_CHECK, "aliasing")
