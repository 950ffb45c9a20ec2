from __future__ import annotations

import dataclasses

from harness.localize import locate, traces_of, units
from harness.minimize.passes import Traces
from harness.model.case import Case
from harness.model.outcome import Outcome, Status, Witness
from harness.model.program import Node
from harness.model.values import Ref
from tests.minimize.material import chain, made_up_traces

CASE = chain("torch.neg", "torch.sin", "torch.abs", "torch.cos")


def shows_at(*targets: str) -> tuple[list[Case], object]:
    asked: list[Case] = []

    def shows(case: Case) -> Traces | None:
        asked.append(case)
        return made_up_traces(case) if any(node.target in targets for node in case.program.operators) else None

    return asked, shows


def test_the_first_node_that_disagrees_alone_is_guilty() -> None:
    asked, shows = shows_at("torch.sin", "torch.cos")
    found = locate(CASE, made_up_traces(CASE), shows)  # type: ignore[arg-type]
    assert found is not None and found.node == "n1"
    assert [node.target for node in found.case.program.operators] == ["torch.sin"]
    assert len(asked) == 2 and found.traces == made_up_traces(found.case)


def test_a_suspect_is_asked_first() -> None:
    asked, shows = shows_at("torch.sin", "torch.cos")
    found = locate(CASE, made_up_traces(CASE), shows, suspects=["n3"])  # type: ignore[arg-type]
    assert found is not None and found.node == "n3" and len(asked) == 1


def test_where_no_node_alone_is_guilty_none_is_named() -> None:
    asked, shows = shows_at("torch.exp")
    assert locate(CASE, made_up_traces(CASE), shows) is None  # type: ignore[arg-type]
    assert len(asked) == 4


def test_taking_a_result_apart_is_never_guilty() -> None:
    nodes = (
        *CASE.program.nodes[:-1],
        Node("get", "call_function", "operator.getitem", (Ref("n3"), 0)),
        Node("output", "output", "output", (Ref("get"),)),
    )
    case = dataclasses.replace(CASE, program=dataclasses.replace(CASE.program, nodes=nodes))
    asked, shows = shows_at("operator.getitem")
    assert locate(case, made_up_traces(case), shows) is None  # type: ignore[arg-type]
    assert all(node.target != "operator.getitem" for each in asked for node in each.program.operators)


def test_nodes_that_share_storage_with_a_mutation_are_tried_together() -> None:
    traces = made_up_traces(CASE)
    joined = tuple(
        {name: dataclasses.replace(step, unit="n1") if name in ("n1", "n2") else step for name, step in trace.items()} for trace in traces
    )
    assert units(CASE, joined) == (("n0",), ("n1", "n2"), ("n3",))
    assert units(CASE, ()) == (("n0",), ("n1",), ("n2",), ("n3",))
    _, shows = shows_at("torch.sin")
    found = locate(CASE, joined, shows)  # type: ignore[arg-type]
    assert found is not None and found.node == "n2"
    assert [node.target for node in found.case.program.operators] == ["torch.sin", "torch.abs"]


def test_traces_are_by_call_and_name() -> None:
    trace = made_up_traces(CASE)[0]
    outcome = Outcome("eager", Status.OK, witness=(Witness(tuple(trace.values())), Witness()))
    assert traces_of(outcome) == (trace, {})
    assert traces_of(Outcome("eager", Status.OK)) == ()
