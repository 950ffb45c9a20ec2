"""Votes: what several ways to the same results say of a disagreement."""

from __future__ import annotations

import dataclasses

from harness.backends.protocol import WITHOUT_OPTIONS, TargetSpec, target
from harness.engine.evaluate import Evidence
from harness.engine.investigate import Finding
from harness.engine.keeper import signature_of
from harness.model.outcome import CallResult, Death, Outcome, Status
from harness.model.verdict import Kind, Severity, Verdict
from harness.triage.vote import EVERY_WAY, OPTIONS, Answer, Ballot, ballot, blame, conclude, in_a_line, told
from tests.doubles.cases import unary_case

ACCUSED = Outcome("t", Status.OK, "run", calls=(CallResult(1),))
VERDICT = Verdict("values", Kind.VALUE, "t", Severity.WRONG_VALUE, "wrong", "run", detail={"index": (0,), "actual": 2.0})
FAILS = Verdict("status", Kind.ERROR, "t", Severity.ERROR, "fails", "tosa")


def finding(spec: TargetSpec, *, at_fault: str = "") -> Finding:
    outcome = Outcome(spec.name, Status.OK, "run")
    return Finding(Evidence(unary_case("torch.sin"), outcome, outcome, VERDICT), spec, "sin", (), (3, 3), at_fault=at_fault)


def votes(**answers: Answer) -> list[Ballot]:
    return [Ballot(voter.replace("_", " "), answer) for voter, answer in answers.items()]


def test_the_same_wrong_result_is_alike() -> None:
    assert ballot("b", ACCUSED, VERDICT, ACCUSED, [VERDICT]) == Ballot("b", Answer.ALIKE)
    rounded = dataclasses.replace(VERDICT, detail={"index": (0,), "actual": 2.0001})
    other = dataclasses.replace(ACCUSED, calls=(CallResult(3),))
    assert ballot("b", ACCUSED, VERDICT, other, [rounded]).answer is Answer.ALIKE
    far = dataclasses.replace(VERDICT, detail={"index": (0,), "actual": 5.0})
    assert ballot("b", ACCUSED, VERDICT, other, [far]) == Ballot("b", Answer.OTHERWISE, "wrong")
    assert ballot("b", ACCUSED, VERDICT, other, [FAILS]).answer is Answer.OTHERWISE


def test_a_failure_is_alike_at_the_same_stage_only() -> None:
    accused = Outcome("t", Status.ERROR, "tosa")
    assert ballot("b", accused, FAILS, accused, [FAILS]).answer is Answer.ALIKE
    assert ballot("b", accused, FAILS, accused, [dataclasses.replace(FAILS, stage="linalg")]).answer is Answer.OTHERWISE


def test_a_failure_in_the_same_words_is_alike_at_any_stage() -> None:
    later = dataclasses.replace(FAILS, stage="run")
    accused = Outcome("t", Status.ERROR, "tosa", message="RuntimeError: (5 vs 4)")
    assert ballot("b", accused, FAILS, dataclasses.replace(accused, stage="run"), [later]).answer is Answer.ALIKE
    assert ballot("b", accused, FAILS, dataclasses.replace(accused, message="other"), [later]).answer is Answer.OTHERWISE
    dead = dataclasses.replace(accused, status=Status.CRASH, message="died by SIGABRT", death=Death("SIGABRT"))
    check, elsewhere = (dataclasses.replace(FAILS, kind=Kind.CRASH, message=f"died: shape.cpp:{line}] Check failed") for line in (30, 31))
    assert ballot("b", dead, check, dead, [dataclasses.replace(check, stage="run")]).answer is Answer.ALIKE
    assert ballot("b", dead, check, dead, [dataclasses.replace(elsewhere, stage="run")]).answer is Answer.OTHERWISE


def test_no_verdict_is_right_or_no_answer() -> None:
    assert ballot("b", ACCUSED, VERDICT, ACCUSED, []) == Ballot("b", Answer.RIGHT)
    refused = Outcome("t", Status.UNSUPPORTED, message="aten.foo: no\nmore")
    assert ballot("b", ACCUSED, VERDICT, refused, []) == Ballot("b", Answer.SILENT, "aten.foo: no")


def test_who_is_at_fault() -> None:
    right, alike, silent, otherwise = Answer.RIGHT, Answer.ALIKE, Answer.SILENT, Answer.OTHERWISE
    assert blame(votes(linalg=right, tosa=alike, stablehlo=right), "tosa") == "tosa"
    assert blame(votes(linalg=right, tosa=alike, stablehlo=silent), "tosa") == "tosa"
    assert blame(votes(linalg=alike, tosa=alike, stablehlo=silent), "tosa") == EVERY_WAY
    assert blame(votes(linalg=alike, tosa=alike, stablehlo=right), "tosa") == "tosa"
    assert blame(votes(linalg=silent, tosa=alike, stablehlo=silent), "tosa") == ""
    assert blame(votes(linalg=otherwise, tosa=alike, stablehlo=silent), "tosa") == ""
    assert blame([Ballot(WITHOUT_OPTIONS, right), *votes(linalg=alike, tosa=alike)], "tosa") == OPTIONS
    assert blame([Ballot(WITHOUT_OPTIONS, alike), *votes(linalg=right, tosa=alike)], "tosa") == "tosa"


def test_a_vote_is_told_in_words() -> None:
    text = told([Ballot("linalg", Answer.RIGHT), Ballot("tosa", Answer.ALIKE), Ballot("stablehlo", Answer.SILENT, "no sort")], "tosa")
    assert text == "linalg: right\ntosa: wrong\nstablehlo: refuses: no sort\nso: only tosa is wrong"
    assert in_a_line(text) == "linalg: right; tosa: wrong; stablehlo: refuses: no sort; so: only tosa is wrong"
    assert conclude(votes(a=Answer.ALIKE, b=Answer.ALIKE, c=Answer.RIGHT), "a") == "a and b are wrong, each by itself"
    assert conclude(votes(a=Answer.ALIKE, b=Answer.SILENT), "a") == ""
    assert conclude(votes(a=Answer.ALIKE, b=Answer.ALIKE), "a") == "all are wrong alike, so it is wrong before they part"


def test_every_lowering_votes_and_so_does_the_target_without_its_options() -> None:
    plain, configured = target("torch-mlir:tosa"), target("torch-mlir:tosa?extra=cse")
    assert plain.voter in plain.voters
    assert list(plain.voters) == ["linalg", "tosa", "stablehlo"]
    assert configured.voters[WITHOUT_OPTIONS] == {"extra": ""}


def test_a_bug_of_one_lowering_is_not_that_of_another() -> None:
    names = ("torch-mlir:linalg", "torch-mlir:tosa", "torch-mlir:stablehlo")
    shared = {signature_of(finding(target(name), at_fault=EVERY_WAY)).digest for name in names}
    own = {signature_of(finding(target(name), at_fault=target(name).voter)).digest for name in names}
    assert len(shared) == 1
    assert len(own) == 3
    assert signature_of(finding(target("torch-mlir:linalg"), at_fault="linalg")) == signature_of(finding(target("torch-mlir:linalg")))


def test_of_layers_the_first_that_is_wrong_is_at_fault() -> None:
    ballots = votes(Dynamo=Answer.RIGHT, AOTAutograd=Answer.OTHERWISE, Inductor=Answer.ALIKE)
    assert blame(ballots, "Inductor", layered=True) == "AOTAutograd"
    assert conclude(ballots, "Inductor", layered=True) == "the layer at fault is AOTAutograd"
    assert told(ballots, "Inductor", layered=True).endswith("Inductor: wrong\nso: the layer at fault is AOTAutograd")
    assert blame(votes(Dynamo=Answer.SILENT, Inductor=Answer.ALIKE), "Inductor", layered=True) == "Inductor"
    assert blame(votes(Dynamo=Answer.ALIKE, Inductor=Answer.ALIKE), "Inductor", layered=True) == "Dynamo"


def test_the_layer_at_fault_is_the_stage_of_a_wrong_result() -> None:
    spec = target("compile:inductor")
    assert list(spec.voters) == ["Dynamo", "AOTAutograd", "decompositions", "Inductor"]
    assert list(target("compile:aot_eager").voters) == ["Dynamo", "AOTAutograd"]
    assert list(target("compile:mine:backend").voters) == ["Dynamo", "AOTAutograd", "decompositions", "mine:backend"]
    for layer in ("Dynamo", "Inductor"):
        assert signature_of(finding(spec, at_fault=layer)).stage == layer
