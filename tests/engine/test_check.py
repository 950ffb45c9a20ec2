"""The account of a check: answers from outcomes and verdicts, without any process."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from harness.backends.protocol import TargetSpec
from harness.engine.check import Answer, Checked, Checker, Dispute, TargetResult, disputes
from harness.engine.check_report import data, lines
from harness.engine.evaluate import Evaluation
from harness.engine.investigate import Dropped, Explained
from harness.errors import HarnessError
from harness.model.case import Call, Case
from harness.model.fill import Fill
from harness.model.outcome import Death, Outcome, Status
from harness.model.program import Node, Program, TensorSpec
from harness.model.values import Ref
from harness.model.verdict import Kind, Severity, Verdict
from harness.triage.known import KnownBug, KnownBugs

CASE = Case(
    Program(
        (
            Node("x", "placeholder", "x", role="input", spec=TensorSpec("float32", (2,))),
            Node("sin", "call_function", "torch.sin", (Ref("x"),)),
            Node("output", "output", "output", (Ref("sin"),)),
        )
    ),
    (Call(data={"x": Fill("exact/1")}),),
)
SPEC = TargetSpec("t", "nowhere:Nothing", "a target")
GRADS = dataclasses.replace(SPEC, name="g", modes=("fwd", "grad"))
WRONG = Verdict("values", Kind.VALUE, "t", Severity.WRONG_VALUE, "output: 1 of 2 elements differ")
BUG = KnownBug("slug", "t", "value", "sin", frozenset(), "https://example.org/1")


class Evaluator:
    """Answers with one prepared outcome and its verdicts, and keeps the cases that it was asked about."""

    def __init__(self, outcome: Outcome, verdicts: tuple[Verdict, ...] = (), reference: Outcome | None = None) -> None:
        self.outcome, self.verdicts = outcome, verdicts
        self.reference = reference or Outcome("eager", Status.OK)
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def evaluate(self, case: Case, targets: Sequence[TargetSpec], *, fresh: bool) -> Evaluation:
        assert fresh, "a module must not pay for what an earlier one broke"
        self.asked.append((case.mode, tuple(spec.name for spec in targets)))
        observed = {spec.name: dataclasses.replace(self.outcome, target=spec.name) for spec in targets}
        return Evaluation(case, "id", self.reference, observed if self.reference.status is Status.OK else {}, self.verdicts)


class Investigator:
    """Says of every disagreement what it was told to."""

    def __init__(self, explained: object = None, result: object = None) -> None:
        self.explained, self.result = explained, result

    def explain(self, *_: object) -> object:
        return self.explained

    def investigate(self, *_: object) -> object:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def check(
    evaluator: object, investigator: object = None, *, case: Case = CASE, specs: Sequence[TargetSpec] = (SPEC,)
) -> list[TargetResult]:
    def keeper() -> object:
        raise AssertionError("nothing is to be saved")

    checker = Checker(specs, evaluator, investigator or Investigator(), KnownBugs(), keeper)  # type: ignore[arg-type]
    return list(checker.check("m", [case]).targets)


def test_a_target_agrees_only_on_what_it_ran() -> None:
    [result] = check(Evaluator(Outcome("t", Status.OK)))
    assert (result.answer, result.ran) == (Answer.AGREES, 1)


@pytest.mark.parametrize(
    ("outcome", "answer", "said"),
    [
        (Outcome("t", Status.UNSUPPORTED, node="sin", message="no kernel"), Answer.REFUSES, "sin: no kernel"),
        (Outcome("t", Status.INCONCLUSIVE, message="too large"), Answer.UNDECIDED, "too large"),
        (Outcome("t", Status.HARNESS_ERROR, "run", message="our fault"), Answer.UNDECIDED, "a fault of fxdiff: run: our fault"),
        (
            Outcome("t", Status.CRASH, message="died by SIGABRT", death=Death("SIGABRT", stderr="x\nunimplemented: zero\n")),
            Answer.REFUSES,
            "died by SIGABRT: unimplemented: zero",
        ),
    ],
)
def test_what_no_oracle_speaks_of_is_never_agreement(outcome: Outcome, answer: Answer, said: str) -> None:
    [result] = check(Evaluator(outcome))
    assert result.answer is answer
    assert said in (*result.refusals, *result.faults)
    assert result.internal == (outcome.status is Status.HARNESS_ERROR)
    assert not result.ran


def test_a_module_that_eager_refuses_is_undecided() -> None:
    [result] = check(Evaluator(Outcome("t", Status.OK), reference=Outcome("eager", Status.REJECTED, message="no")))
    assert result.answer is Answer.UNDECIDED
    assert not result.internal


def test_a_fault_of_ours_costs_that_graph_and_is_said() -> None:
    class Broken:
        def evaluate(self, *_: object, **__: object) -> Evaluation:
            raise HarnessError("does not fit")

    [result] = check(Broken())
    assert result.internal
    assert result.faults == ("a fault of fxdiff in graph 1: HarnessError: does not fit",)


@pytest.mark.parametrize(
    ("investigator", "answer", "new"),
    [
        (Investigator(explained=Explained(BUG)), Answer.DISAGREES, False),
        (Investigator(result=Explained(BUG)), Answer.DISAGREES, False),
        (Investigator(result=Dropped("did not come back")), Answer.UNDECIDED, False),
        (Investigator(result=HarnessError("stuck")), Answer.DISAGREES, True),
    ],
)
def test_what_becomes_of_a_disagreement(investigator: Investigator, answer: Answer, new: bool) -> None:
    [result] = check(Evaluator(Outcome("t", Status.OK), (WRONG,)), investigator)
    assert (result.answer, result.is_new) == (answer, new)


def test_a_target_without_gradients_gets_the_forward_pass() -> None:
    evaluator = Evaluator(Outcome("t", Status.OK))
    results = check(evaluator, case=dataclasses.replace(CASE, mode="grad"), specs=(SPEC, GRADS))
    assert evaluator.asked == [("grad", ("g",)), ("fwd", ("t",))]
    assert {result.target: result.forward_only for result in results} == {"t": True, "g": False}


def test_one_dispute_for_each_node_or_kind_worst_first() -> None:
    by_node = [dataclasses.replace(WRONG, node=name) for name in ("a", "b", "a")]
    shape = dataclasses.replace(WRONG, kind=Kind.SHAPE, severity=Severity.CONTRACT)
    evaluation = Evaluation(CASE, "id", Outcome("eager", Status.OK), {}, (shape, WRONG, *by_node))
    assert [(each.kind, each.node) for each in disputes(evaluation)] == [
        (Kind.VALUE, None),
        (Kind.VALUE, "a"),
        (Kind.VALUE, "b"),
        (Kind.SHAPE, None),
    ]


def test_the_report_tells_what_the_data_hold() -> None:
    checker = Checker(
        [SPEC], Evaluator(Outcome("t", Status.OK), (WRONG,)), Investigator(explained=Explained(BUG)), KnownBugs(), lambda: None
    )  # type: ignore[arg-type, return-value]
    checked = checker.check("m.py", [CASE], how="dynamo")
    text = "\n".join(lines(checked))
    assert text == str(checked)
    for said in ("m.py: 1 graph, captured by dynamo", "t  disagrees", "1 of 2 elements differ", "known: slug https://example.org/1"):
        assert said in text
    [target] = data(checked)["targets"]  # type: ignore[misc]
    assert target["answer"] == "disagrees"
    assert target["disagreements"][0]["link"] == "https://example.org/1"


def test_a_dropped_disagreement_is_shown_and_not_counted() -> None:
    result = TargetResult("t", (Dispute(WRONG, 0, dropped="did not come back"),))
    assert result.answer is Answer.UNDECIDED
    assert not result.is_new


@pytest.mark.parametrize(
    ("refusals", "said"),
    [
        (("import: fxdiff does not hand torch-mlir a program that writes to its buffers",), "was not tried on sin: that is fxdiff's limit"),
        (("sin: untranslated: no adapter",), "was not tried on sin: that is fxdiff's limit"),
        (("sin: untranslated: no adapter", "failed to legalize"), "refuses sin, in part for a limit of fxdiff's"),
        (("failed to legalize",), "refuses sin"),
    ],
)
def test_a_limit_of_ours_is_not_called_a_refusal_of_the_system(refusals: tuple[str, ...], said: str) -> None:
    checked = Checked("m", "", 1, (TargetResult("t", refused={"sin": 1}, refusals=refusals),))
    assert f"  t  {said}" in list(lines(checked))


def test_that_no_gradients_were_compared_is_said_once() -> None:
    both = (TargetResult("t", ran=1, forward_only=True), TargetResult("u", ran=1, forward_only=True))
    told = list(lines(Checked("m", "", 1, both)))
    assert "  t  agrees with eager on 1 operator, in the forward pass" in told
    assert sum("no gradients were compared" in line for line in told) == 1
    told = list(lines(Checked("m", "", 1, (both[0], TargetResult("v", ran=1)))))
    assert not any("no gradients were compared" in line for line in told)
