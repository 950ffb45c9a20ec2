from __future__ import annotations

import pytest

from harness.model.outcome import Death, Outcome, Status
from harness.model.story import Ending, FixpointStory, PassStep
from harness.model.verdict import Kind, Severity, Verdict
from harness.triage import guilt
from harness.triage.guilt import Guilt

TARGET = "torch-mlir:linalg"


def verdict(kind: Kind, *, oracle: str = "values", stage: str = "run", **guilty: object) -> Verdict:
    detail = {"guilty": guilty} if guilty else {}
    return Verdict(oracle, kind, TARGET, Severity.WRONG_VALUE, "something is wrong", stage, detail=detail)


def accused(kind: Kind, name: str, step: int = 5) -> Verdict:
    evidence = {"pass": name, "pipeline": "fx", "route": "decomposed", "iteration": 1, "step": step, "op": "torch.aten.roll"}
    return verdict(kind, oracle=guilt.ORACLE, stage=name, **evidence)


def followed(*, result: int | None = 0, ending: Ending = Ending.FIXPOINT, status: Status = Status.OK) -> Outcome:
    steps = (PassStep("import", "", 0, "a", result=0), PassStep("canonicalize", "canonicalize", 1, "b", result=result, uninterpreted="why"))
    story = FixpointStory("decomposed", "fx", (0,), steps, ending, message="error: failed to legalize")
    return Outcome(TARGET, status, "canonicalize", stories=(story,))


def test_the_pass_that_changes_the_meaning_is_guilty_of_a_wrong_value() -> None:
    verdicts = [accused(Kind.SILENT_ERROR, "canonicalize"), accused(Kind.VALUE, "torch-decompose-complex-ops")]
    found = guilt.of_followed(verdict(Kind.VALUE), followed(), verdicts, lowering="linalg")
    assert (found.place, found.op, found.address) == ("torch-decompose-complex-ops", "torch.aten.roll", "decomposed|fx|5")
    assert guilt.in_a_line(found) == "torch-decompose-complex-ops, at aten.roll"


@pytest.mark.parametrize(("lowering", "place"), [("linalg", "TorchToLinalg or later"), ("tosa", "TorchToTosa or later")])
def test_where_every_snapshot_is_right_it_is_the_lowering(lowering: str, place: str) -> None:
    found = guilt.of_followed(verdict(Kind.VALUE), followed(), [], lowering=lowering)
    assert (found.place, found.address) == (place, "")


def test_where_a_snapshot_could_not_be_run_nobody_knows() -> None:
    found = guilt.of_followed(verdict(Kind.VALUE), followed(result=None), [], lowering="linalg")
    assert (found.place, found.reason) == ("", "after canonicalize: why")
    assert guilt.in_a_line(found) == "not known: after canonicalize: why"


def test_a_death_is_the_pass_at_works() -> None:
    died = Outcome(TARGET, Status.TIMEOUT, "canonicalize", message="no end", death=Death(signal="SIGKILL"))
    assert guilt.of_followed(verdict(Kind.TIMEOUT, stage="torch-pipeline"), died, [], lowering="linalg").place == "canonicalize"


def test_what_has_nothing_to_do_with_it_is_not_blamed() -> None:
    found = guilt.of_followed(verdict(Kind.VALUE), followed(), [accused(Kind.NO_CONVERGENCE, "cse")], lowering="linalg")
    assert found.place == "TorchToLinalg or later"


def test_a_lowering_may_trip_over_what_an_earlier_pass_left() -> None:
    refused = verdict(Kind.INVALID_IR, oracle="status", stage="linalg")
    found = guilt.of_followed(refused, followed(), [accused(Kind.DECLARED_SHAPE, "torch-decompose-complex-ops")], lowering="linalg")
    assert found.place == "torch-decompose-complex-ops"
    assert guilt.of_followed(refused, followed(), [], lowering="linalg").place == "TorchToLinalg or later"


def test_the_search_for_the_pattern_asks_for_the_route_and_names_the_step() -> None:
    found = Guilt("inline", route="raw+functionalized", pipeline="fx", step=3)
    assert found.search == {"route": "raw", "pipeline": "fx", "pattern": "raw+functionalized|fx|3"}


def test_guilt_is_written_and_read_back() -> None:
    found = Guilt("inline", "why", "fx", "raw", 2, 9, "torch.aten.cat", pattern="FoldCat", pattern_op="%3 = torch.aten.cat")
    assert guilt.from_text(guilt.to_text(found)) == found
    assert guilt.of_entry(Outcome(TARGET, Status.OK, artifacts={guilt.ARTIFACT: guilt.to_text(found)})) == found
    assert guilt.in_a_line(found) == "inline, pattern FoldCat, at aten.cat, in iteration 2 of fx"
    assert guilt.of_entry(Outcome(TARGET, Status.OK)) is None
    assert guilt.data(Outcome(TARGET, Status.OK)) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "3"])
def test_what_is_no_guilt_is_none(text: str) -> None:
    assert guilt.from_text(text) is None


def test_fields_of_the_wrong_kind_are_left_out() -> None:
    assert guilt.from_text('{"place": "inline", "step": "x", "op": 3, "more": 1}') == Guilt("inline")
