from __future__ import annotations

import dataclasses
import threading
from dataclasses import replace

from harness.minimize.edits import neutralize
from harness.triage.known import KnownBug, KnownBugs, suspects
from tests.minimize.material import chain, made_up_traces

PLAIN = KnownBug("sin", "t", "value", "sin", frozenset())
WIDE = KnownBug("sin-int", "t", "value", "sin", frozenset({"dtype:int64"}))
NARROW = KnownBug("sin-int-empty", "t", "value", "sin", frozenset({"dtype:int64", "empty"}))


def test_a_bug_is_known_where_all_of_its_trigger_holds() -> None:
    known = KnownBugs([WIDE])
    assert known.match("t", "value", "sin", frozenset({"dtype:int64", "rank:0"})) == WIDE
    assert known.match("t", "value", "sin", frozenset({"rank:0"})) is None


def test_target_kind_and_operator_must_be_the_same() -> None:
    known = KnownBugs([PLAIN])
    assert known.match("t", "value", "sin", frozenset()) == PLAIN
    for target, kind, operator in (("u", "value", "sin"), ("t", "crash", "sin"), ("t", "value", "cos")):
        assert known.match(target, kind, operator, frozenset()) is None


def test_the_most_specific_bug_is_named() -> None:
    known = KnownBugs([WIDE, NARROW, PLAIN])
    assert known.match("t", "value", "sin", frozenset({"dtype:int64", "empty"})) == NARROW
    assert known.match("t", "value", "sin", frozenset({"dtype:int64"})) == WIDE
    assert known.match("t", "value", "sin", frozenset()) == PLAIN


def test_features_that_led_to_a_bug_lead_to_it_again() -> None:
    known = KnownBugs([NARROW])
    seen = frozenset({"rank:0"})
    assert known.match("t", "value", "sin", seen) is None
    known.remember("t", "value", "sin", seen, NARROW.signature)
    assert known.match("t", "value", "sin", seen) == NARROW
    assert known.match("t", "value", "sin", seen | {"empty"}) is None


def test_a_bug_is_added_once_even_by_many_threads() -> None:
    known = KnownBugs()
    added: list[bool] = []
    threads = [threading.Thread(target=lambda: added.append(known.add(PLAIN))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(added) == [False] * 15 + [True]
    assert known.get("sin") == PLAIN and known.get("cos") is None


def test_the_suspects_of_a_case_are_its_nodes_in_which_a_trigger_holds() -> None:
    case = chain("torch.neg", "torch.sin", "torch.Tensor.sin", "torch.cos")
    traces = made_up_traces(case)
    assert list(suspects(case, traces, KnownBugs([PLAIN]), "t", "value")) == ["n1", "n2"]
    assert suspects(case, traces, KnownBugs([WIDE]), "t", "value") == {}
    assert suspects(case, traces, KnownBugs([PLAIN]), "t", "crash") == {}


def test_the_suspects_can_be_taken_out_of_the_case() -> None:
    case = chain("torch.neg", "torch.sin", "torch.cos")
    traces = made_up_traces(case)
    rest = neutralize(case, list(suspects(case, traces, KnownBugs([PLAIN]), "t", "value")), traces)
    assert rest is not None
    assert [node.target for node in rest.program.operators] == ["torch.cos"]


def test_a_trigger_in_any_call_makes_a_suspect() -> None:
    case = chain("torch.sin")
    second = made_up_traces(case)[0]
    both = (second, {name: dataclasses.replace(step, args=()) for name, step in second.items()})
    assert list(suspects(case, both, KnownBugs([PLAIN]), "t", "value")) == ["n0"]


def test_a_bug_that_several_targets_share_is_one_and_each_of_them_knows_it() -> None:
    known = KnownBugs()
    first = KnownBug("mlir-1", "torch-mlir:linalg", "value", "roll", frozenset({"arg1=negative"}), "https://x", "corpus/mlir-1")
    assert known.add(first)
    assert known.match("torch-mlir:tosa", "value", "roll", frozenset({"arg1=negative", "rank:2"})) is None
    assert not known.add(replace(first, target="torch-mlir:tosa", link="", path=""))
    met = known.match("torch-mlir:tosa", "value", "roll", frozenset({"arg1=negative", "rank:2"}))
    assert met == replace(first, target="torch-mlir:tosa")
    assert known.get("mlir-1") == first
