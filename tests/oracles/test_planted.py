"""Every kind of disagreement, planted: each is found, and called what it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from harness.errors import HarnessError
from harness.model.case import Case
from harness.model.outcome import CallResult, Death, Declared, Diagnostic, NodeResult, Outcome, Status
from harness.model.values import Ref
from harness.model.verdict import Kind, Severity
from oracles import Policy, judge, judge_reference
from tests.oracles.build import TARGET, Step, build, lockstep, nudged, observed, tensor

X = tensor([[1.0, -2.0, 3.0], [0.25, 0.5, -4.0]])


def pair() -> tuple[Case, Outcome]:
    """relu and its sum: `(relu, {"sum": sum})`."""
    steps = {
        "relu_0": Step("torch.relu", lambda x: np.maximum(x, 0), (Ref("x0"),)),
        "sum_1": Step("torch.sum", lambda x, dim: x.sum(axis=dim), (Ref("relu_0"), 1)),
    }
    return build({"x0": X}, steps, (Ref("relu_0"), {"sum": Ref("sum_1")}), lane="exact")


CASE, REFERENCE = pair()
RELU, TAIL = REFERENCE.calls[0].output
SUM = TAIL["sum"]


def kinds(output: Any, **changes: Any) -> list[tuple[Kind, str]]:
    return [(verdict.kind, verdict.path) for verdict in judge(CASE, REFERENCE, observed(REFERENCE, output, **changes))]


def test_the_same_is_no_disagreement() -> None:
    assert kinds((RELU, {"sum": SUM})) == []
    assert judge(CASE, REFERENCE, REFERENCE) == ()
    assert judge(CASE, REFERENCE, lockstep(REFERENCE)) == ()


def test_a_wrong_value_is_described_in_one_sentence_with_its_evidence() -> None:
    (verdict,) = judge(CASE, REFERENCE, observed(REFERENCE, (nudged(RELU, (1, 1), 0.25), {"sum": SUM})))
    assert verdict.message == f"output [0]: 1 of 6 elements differ; worst at [1, 1]: eager 0.5, {TARGET} 0.75"
    assert (verdict.kind, verdict.severity, verdict.oracle) == (Kind.VALUE, Severity.WRONG_VALUE, "values")
    assert (verdict.call, verdict.path, verdict.node, verdict.stage, verdict.target) == (0, "[0]", None, "run", TARGET)
    assert dict(verdict.detail) == {
        "index": (1, 1),
        "expected": 0.5,
        "actual": 0.75,
        "differing": 1,
        "total": 6,
        "max_abs": 0.25,
        "tolerance": 0.0,
    }


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ((tensor(RELU.array(), "float64"), {"sum": SUM}), [(Kind.DTYPE, "[0]")]),
        ((RELU, {"sum": tensor(SUM.array()[:1])}), [(Kind.SHAPE, "[1]['sum']")]),
        ((RELU, {"sum": tensor([[3.0, 0.75]], "int64")}), [(Kind.DTYPE, "[1]['sum']"), (Kind.SHAPE, "[1]['sum']")]),
        ([RELU, {"sum": SUM}], [(Kind.STRUCTURE, "")]),
        ((RELU, {"total": SUM}), [(Kind.STRUCTURE, "")]),
        ((RELU, SUM), [(Kind.STRUCTURE, "")]),
        ((RELU, {"sum": 3.0}), [(Kind.STRUCTURE, "")]),
        (None, [(Kind.STRUCTURE, "")]),
        ((nudged(RELU, (0, 0), 2**-20), {"sum": SUM}), [(Kind.VALUE, "[0]")]),
        ((nudged(RELU, (0, 0), 1), {"sum": nudged(SUM, (0,), 1)}), [(Kind.VALUE, "[0]"), (Kind.VALUE, "[1]['sum']")]),
        ((nudged(RELU, (0, 0), np.nan), {"sum": SUM}), [(Kind.VALUE, "[0]")]),
    ],
)
def test_contracts_and_values_are_told_apart(output: Any, expected: list[tuple[Kind, str]]) -> None:
    assert kinds(output) == expected


@pytest.mark.parametrize(
    ("given", "wanted"), [(3, 3), (True, True), ("s", "s"), (2.5, 2.5), (float("nan"), float("nan")), (1j, 1j), (None, None)]
)
@pytest.mark.parametrize("other", [4, False, "t", 2.75, 0.0, 2j, [1]])
def test_scalars_in_an_output_are_compared_too(given: Any, wanted: Any, other: Any) -> None:
    case, reference = build({"x0": X}, {"relu_0": Step("torch.relu", lambda x: np.maximum(x, 0), (Ref("x0"),))}, (Ref("relu_0"), wanted))
    relu = reference.calls[0].output[0]
    assert judge(case, reference, observed(reference, (relu, given))) == ()
    (verdict,) = judge(case, reference, observed(reference, (relu, other)))
    same = type(other) is type(wanted)
    assert verdict.kind is ((Kind.SPECIAL if wanted != wanted else Kind.VALUE) if same else Kind.STRUCTURE)


def test_mutation_is_compared_by_argument() -> None:
    changed = tensor(np.zeros((2, 3)))
    reference = replace(REFERENCE, calls=(CallResult((RELU, TAIL), {"x0": changed}),))
    for mutated, count in (({"x0": changed}, 0), ({}, 1), ({"x0": nudged(changed, (0, 1), 1.0)}, 1), ({"x0": tensor([0.0])}, 1)):
        got = judge(CASE, reference, Outcome(TARGET, Status.OK, "run", (CallResult((RELU, TAIL), mutated),)))
        assert [(v.kind, v.path, v.severity) for v in got] == [(Kind.MUTATION, "x0", Severity.CONTRACT)] * count
    (unasked,) = judge(CASE, REFERENCE, Outcome(TARGET, Status.OK, "run", (CallResult((RELU, TAIL), {"x0": changed}),)))
    assert unasked.message == "argument x0: other changes it, eager does not"
    untouched = Outcome(TARGET, Status.OK, "run", (CallResult((RELU, TAIL), {"x0": X}),))
    assert judge(CASE, REFERENCE, untouched) == ()


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (Declared("linalg", "[0]", "float32", (2, 3)), []),
        (Declared("linalg", "[0]", None, (None, 3)), []),
        (Declared("linalg", "[0]", None, None), []),
        (Declared("linalg", "[1]['sum']", "float32", (2,), call=0), []),
        (Declared("linalg", "[0]", "float64", None), [Kind.DECLARED_DTYPE]),
        (Declared("linalg", "[0]", "float32", (2, 4)), [Kind.DECLARED_SHAPE]),
        (Declared("linalg", "[0]", "int64", (2, 3, 1)), [Kind.DECLARED_DTYPE, Kind.DECLARED_SHAPE]),
    ],
)
def test_declared_types_must_hold(declared: Declared, expected: list[Kind]) -> None:
    verdicts = judge(CASE, REFERENCE, observed(REFERENCE, (RELU, TAIL), declared=(declared,)))
    assert [verdict.kind for verdict in verdicts] == expected
    assert all(verdict.target == TARGET and verdict.path == "[0]" for verdict in verdicts)
    fake = replace(REFERENCE, declared=(replace(declared, source="fake"),))
    assert [(verdict.kind, verdict.target) for verdict in judge_reference(CASE, fake)] == [(kind, "eager") for kind in expected]


def test_a_claim_for_all_calls_must_hold_on_each() -> None:
    case = replace(CASE, calls=CASE.calls * 2)
    taller = CallResult((tensor(np.zeros((3, 3))), TAIL))
    reference = replace(REFERENCE, calls=(REFERENCE.calls[0], taller), witness=REFERENCE.witness * 2)
    for shape, calls in (((None, 3), []), ((2, 3), [1]), ((3, 3), [0]), ((4, 3), [0])):
        got = judge(case, reference, replace(reference, target=TARGET, declared=(Declared("linalg", "[0]", None, shape),)))
        assert [verdict.call for verdict in got] == calls
    got = judge(case, reference, replace(reference, target=TARGET, declared=(Declared("linalg", "[0]", None, (4, 3)),)))
    assert got[0].detail["calls"] == [0, 1]


def test_a_claim_about_the_own_output_is_held_against_that() -> None:
    wider = tensor(np.zeros((2, 4)))
    for claim, expected in (
        (Declared("nn.Graph", "[0]", None, (2, 3), own=True), 1),
        (Declared("nn.Graph", "[0]", None, (2, 4), own=True), 0),
    ):
        found = judge(CASE, REFERENCE, observed(REFERENCE, (wider, TAIL), declared=(claim,)))
        broken = [verdict for verdict in found if verdict.kind is Kind.DECLARED_SHAPE]
        assert [verdict.message for verdict in broken] == [
            f"output [0]: nn.Graph declares shape [2, 3], {TARGET} itself gives [2, 4]"
        ] * expected


@pytest.mark.parametrize("claim", [Declared("linalg", "[7]", "float32", None), Declared("linalg", "[0]", "float32", None, call=3)])
def test_a_claim_about_nothing_is_our_own_fault(claim: Declared) -> None:
    with pytest.raises(HarnessError):
        judge(CASE, REFERENCE, observed(REFERENCE, (RELU, TAIL), declared=(claim,)))


ENDS = {
    Status.CRASH: (Kind.CRASH, Severity.CRASH),
    Status.TIMEOUT: (Kind.TIMEOUT, Severity.CRASH),
    Status.OOM: (Kind.OOM, Severity.CRASH),
    Status.ERROR: (Kind.ERROR, Severity.ERROR),
}


@pytest.mark.parametrize("status", list(Status))
def test_how_a_run_ended(status: Status) -> None:
    calls = REFERENCE.calls if status is Status.OK else ()
    death = Death("SIGSEGV", None) if status is Status.CRASH else None
    verdicts = judge(CASE, REFERENCE, Outcome(TARGET, status, "jit", calls, message="boom\nmore", node="sum_1", call=0, death=death))
    assert [(verdict.kind, verdict.severity) for verdict in verdicts] == ([ENDS[status]] if status in ENDS else [])
    for verdict in verdicts:
        assert (verdict.stage, verdict.node, verdict.call, verdict.oracle) == ("jit", "sum_1", 0, "status")
        assert "boom" in verdict.message and "more" not in verdict.message
        assert ("SIGSEGV" in verdict.message) == (status is Status.CRASH)
    assert judge(CASE, replace(REFERENCE, status=Status.REJECTED), Outcome(TARGET, status)) == ()
    node = judge(CASE, REFERENCE, Outcome(TARGET, Status.OK, "run", nodes=(NodeResult("relu_0", 0, status, RELU, "boom"),)))
    assert [(verdict.kind, verdict.node) for verdict in node] == ([(ENDS[status][0], "relu_0")] if status in ENDS else [])


def test_a_process_that_aborts_with_the_word_unimplemented_declines() -> None:
    said = "Assertion failed: unimplemented: tensor with zero element"
    assert judge(CASE, REFERENCE, Outcome(TARGET, Status.CRASH, "run", death=Death("SIGABRT", None, said))) == ()
    (verdict,) = judge(CASE, REFERENCE, Outcome(TARGET, Status.CRASH, "run", death=Death("SIGSEGV", None, said)))
    assert verdict.kind is Kind.CRASH


def test_a_crash_repeats_the_last_words_of_the_process_and_no_signal_twice() -> None:
    death = Death("SIGABRT", None, "loading\nF20261130 22:52:45.051271 28436 kernel.cpp:7] Check failed: n > 0 (0 vs. 0)\n  at 0x1234")
    (verdict,) = judge(CASE, REFERENCE, Outcome(TARGET, Status.CRASH, "run", message="died by SIGABRT", death=death))
    assert verdict.message.endswith(": kernel.cpp:7] Check failed: n > 0 (0 vs. 0)") and verdict.message.count("SIGABRT") == 1
    bare = Death("SIGABRT", None, "module {\n}\nF20261130 22:52:45.051271 28436 support.cpp:147] UNIMPLEMENTED\nStack")
    (verdict,) = judge(CASE, REFERENCE, Outcome(TARGET, Status.CRASH, "run", message="died by SIGABRT", death=bare))
    assert verdict.message.endswith(": support.cpp:147] UNIMPLEMENTED")


def test_invalid_ir_and_ignored_errors_have_their_own_kinds() -> None:
    broken = Outcome(TARGET, Status.ERROR, "torch-pipeline", artifacts={"failure": "invalid-ir"})
    assert [(v.kind, v.severity) for v in judge(CASE, REFERENCE, broken)] == [(Kind.INVALID_IR, Severity.INVALID_IR)]
    notes = (Diagnostic("warning", "hm"), Diagnostic("error", "list sizes differ", "decompose"), Diagnostic("error", "again"))
    (silent,) = judge(CASE, REFERENCE, observed(REFERENCE, (RELU, TAIL), diagnostics=notes))
    assert (silent.kind, silent.stage) == (Kind.SILENT_ERROR, "decompose")
    assert judge(CASE, REFERENCE, observed(REFERENCE, (RELU, TAIL), diagnostics=notes[:1])) == ()


def test_the_most_severe_comes_first_and_ignored_kinds_not_at_all() -> None:
    output = (nudged(RELU, (0, 0), 1), {"sum": tensor(SUM.array(), "float64")})
    died = Outcome(TARGET, Status.CRASH, "run", (CallResult(output),), (Declared("linalg", "[0]", "int8", None),))
    found = judge(CASE, REFERENCE, died)
    assert [verdict.kind for verdict in found] == [Kind.CRASH, Kind.VALUE, Kind.DTYPE, Kind.DECLARED_DTYPE]
    assert judge(CASE, REFERENCE, died, policy=Policy(ignored=frozenset(Kind))) == ()


def test_missing_calls_are_our_own_fault() -> None:
    with pytest.raises(HarnessError, match="returned 0 calls where eager made 1"):
        judge(CASE, REFERENCE, Outcome(TARGET, Status.OK, "run"))


def test_the_wrong_node_is_named() -> None:
    (verdict,) = judge(CASE, REFERENCE, lockstep(REFERENCE, relu_0=nudged(RELU, (0, 0), 0.5)))
    assert (verdict.node, verdict.call, verdict.kind) == ("relu_0", 0, Kind.VALUE)
    assert verdict.message.startswith("relu_0: 1 of 6 elements differ")
    found = judge(CASE, REFERENCE, lockstep(REFERENCE, relu_0=tensor(RELU.array(), "float64"), sum_1=nudged(SUM, (0,), 1)))
    assert [(verdict.node, verdict.kind) for verdict in found] == [("sum_1", Kind.VALUE), ("relu_0", Kind.DTYPE)]
    with pytest.raises(HarnessError, match="no trace"):
        judge(CASE, REFERENCE, Outcome(TARGET, Status.OK, "run", nodes=(NodeResult("ghost", 0, Status.OK),)))


def test_a_whole_that_fails_while_every_node_passes_is_a_kind_of_its_own() -> None:
    whole = (CallResult((nudged(RELU, (0, 0), 1), TAIL)),)
    (verdict,) = judge(CASE, REFERENCE, replace(lockstep(REFERENCE), calls=whole))
    assert (verdict.kind, verdict.detail["kind"], verdict.severity) == (Kind.WHOLE_ONLY, "value", Severity.WRONG_VALUE)
    both = judge(CASE, REFERENCE, replace(lockstep(REFERENCE, relu_0=nudged(RELU, (0, 0), 1)), calls=whole))
    assert [(verdict.node, verdict.kind) for verdict in both] == [("relu_0", Kind.VALUE), (None, Kind.VALUE)]
