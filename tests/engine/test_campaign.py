from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from harness import events
from harness.corpus.store import Corpus
from harness.engine.campaign import INTERRUPTED, Campaign
from harness.errors import HarnessError, UsageError
from harness.model.case import Case
from harness.reporting.tally import Tally
from harness.triage.issues import KnownIssue
from harness.triage.known import KnownBug
from harness.workers.pool import WorkerPool
from tests.engine.campaigning import GUILTY, case_of, mixed_cases, run_campaign


@pytest.mark.parametrize(
    ("kind", "disagreement"),
    [
        ("value", "value"),
        ("dtype", "dtype"),
        ("mutation", "mutation"),
        ("raise", "error"),
        ("abort", "crash"),
        ("sysexit", None),
        ("harness", None),
        ("refuse", None),
        ("reject", None),
        ("nothing", None),
    ],
)
def test_a_wrong_target_is_caught_and_named(pool: WorkerPool, tmp_path: Path, kind: str, disagreement: str | None) -> None:
    ran = run_campaign(pool, [f"wrong:{kind}"], mixed_cases(4), tmp_path)
    assert [event.index for event in ran.cases] == [0, 1, 2, 3]
    assert ran.reason == "every case asked for was run"
    if disagreement is None:
        assert ran.findings == [] and ran.of(events.Disagreement) == []
    else:
        (found,) = ran.findings
        assert (found.kind, found.operator, found.nodes, found.index) == (disagreement, "sin", 1, 1)
        assert found.reproduced == "3/3" and found.trigger == ()
        assert [event.index for event in ran.of(events.KnownHit)] == [3]
        (entry,) = Corpus(tmp_path / "findings").entries()
        assert str(entry.path) == found.path and entry.found.index == 1
        assert [node.target for node in entry.case.program.operators] == [GUILTY]
    faults = ran.of(events.HarnessFault)
    assert [event.index for event in faults] == ([1, 3] if kind in ("harness", "sysexit") else [])
    assert all(event.traceback or "SystemExit" in event.message for event in faults)


@pytest.mark.parametrize("kind", ["binding", "call"])
def test_what_shows_only_later_keeps_two_calls(pool: WorkerPool, tmp_path: Path, kind: str) -> None:
    ran = run_campaign(pool, [f"wrong:{kind}"], mixed_cases(2, sizes=(3, 5, 4)), tmp_path)
    (found,) = ran.findings
    (entry,) = Corpus(tmp_path / "findings").entries()
    assert (found.operator, found.nodes, len(entry.case.calls)) == ("sin", 1, 2)
    assert found.trigger == (("dynamic",) if kind == "binding" else ("second-call",))


@pytest.mark.parametrize("kind", ["heap", "heaplater"])
def test_a_death_is_blamed_on_the_case_that_broke_the_process(pool: WorkerPool, tmp_path: Path, kind: str) -> None:
    cases = [case_of("torch.neg", "torch.cos"), case_of("torch.neg", GUILTY, "torch.abs"), *[case_of("torch.exp")] * 4]
    ran = run_campaign(pool, [f"wrong:{kind}"], cases, tmp_path)
    assert len(ran.cases) == len(cases)
    (found,) = ran.findings
    (entry,) = Corpus(tmp_path / "findings").entries()
    assert (found.kind, found.operator, found.nodes) == ("crash", "sin", 1)
    assert "kills-later-case" in found.trigger
    assert entry.victim is not None
    assert [node.target for node in entry.victim.program.operators] == ["torch.exp"]


def test_a_case_that_dies_of_its_own_second_run_is_its_own_victim(pool: WorkerPool, tmp_path: Path) -> None:
    ran = run_campaign(pool, ["wrong:heap"], [case_of("torch.neg", GUILTY)] * 2, tmp_path)
    (found,) = ran.findings
    (entry,) = Corpus(tmp_path / "findings").entries()
    assert (found.operator, found.nodes) == ("sin", 1)
    assert entry.victim == entry.case


def test_a_flaky_target_is_found_and_its_odds_are_told(pool: WorkerPool, tmp_path: Path) -> None:
    ran = run_campaign(pool, ["wrong:flaky"], [case_of("torch.neg", GUILTY)] * 4, tmp_path)
    (found,) = ran.findings
    hits, runs = map(int, found.reproduced.split("/"))
    assert 0 < hits < runs
    assert "flaky" in found.note
    assert (found.operator, found.nodes) == ("sin", 1)


def test_a_known_bug_is_not_investigated_again(pool: WorkerPool, tmp_path: Path) -> None:
    known = KnownBug("known-sin", "wrong:value", "value", "sin", frozenset(), "https://example.org/1")
    ran = run_campaign(pool, ["wrong:value"], mixed_cases(4), tmp_path, known=[known])
    assert ran.findings == [] and ran.of(events.Investigating) == []
    assert [(event.signature, event.link) for event in ran.of(events.KnownHit)] == [("known-sin", "https://example.org/1")] * 2


def test_a_known_bug_hides_no_other_one(pool: WorkerPool, tmp_path: Path) -> None:
    """cos is wrong too: once sin's values are put right, the whole still disagrees."""
    known = KnownBug("known-sin", "wrong:value", "value", "sin", frozenset())
    options = {"wrong:value": {"trigger": ["torch.cos"]}}
    ran = run_campaign(pool, ["wrong:value"], [case_of(GUILTY, "torch.cos", "torch.neg")], tmp_path, known=[known], options=options)
    assert [found.operator for found in ran.findings] == ["cos"]


def test_what_is_accepted_is_not_what_another_bug_becomes_when_it_gets_smaller(pool: WorkerPool, tmp_path: Path) -> None:
    """A vector is the smallest input; where that one is accepted, the bug must be shown with another."""
    cases = [case_of("torch.neg", GUILTY)]
    (free,) = run_campaign(pool, ["wrong:value"], cases, tmp_path / "a").findings
    assert "x = torch.tensor([1.0])" in free.source
    accepted = KnownIssue("vectors", "https://example.org/1", ("wrong:*",), ("value",), "sin", frozenset({"rank:1"}))
    ran = run_campaign(pool, ["wrong:value"], cases, tmp_path / "b", issues=[accepted])
    (found,) = ran.findings
    assert (found.operator, found.nodes) == ("sin", 1) and "x = torch.tensor([[" in found.source


def test_one_in_so_many_hits_is_looked_at_all_the_same(pool: WorkerPool, tmp_path: Path) -> None:
    """A trigger that was noted too wide explains everything; minimizing anyway shows what is really wrong."""
    wide = KnownBug("too-wide", "wrong:value", "value", "cos", frozenset())
    options = {"wrong:value": {"trigger": ["torch.cos"]}}
    guilty = case_of("torch.cos")
    never = run_campaign(pool, ["wrong:value"], [guilty] * 3, tmp_path / "a", known=[wide], options=options, recheck_every=10)
    assert never.findings == [] and never.of(events.Investigating) == []
    again = run_campaign(pool, ["wrong:value"], [guilty] * 3, tmp_path / "b", known=[wide], options=options, recheck_every=3)
    assert [event.index for event in again.of(events.Investigating)] == [2]
    assert [found.index for found in again.findings] == [2]


def test_the_jobs_run_the_same_cases(pool: WorkerPool, tmp_path: Path) -> None:
    cases = mixed_cases(8)
    seen = []
    for jobs in (1, 3):
        ran = run_campaign(pool, ["wrong:value"], cases, tmp_path / str(jobs), jobs=jobs)
        seen.append([(event.index, event.case) for event in ran.cases])
        assert len(ran.findings) == 1
        closed = [*ran.of(events.KnownHit), *ran.findings]
        assert sorted(event.index for event in closed) == [1, 3, 5, 7]
    assert seen[0] == seen[1]


def test_a_campaign_stops_at_its_limits(pool: WorkerPool, tmp_path: Path) -> None:
    ran = run_campaign(pool, ["wrong:value"], mixed_cases(50), tmp_path / "a", max_findings=1)
    assert ran.reason == "as many findings as asked for" and len(ran.cases) < 50
    ran = run_campaign(pool, ["wrong:nothing"], lambda index: case_of("torch.neg", seed=index), tmp_path / "b", time_budget=0.5)
    assert ran.reason == "the time budget is spent"
    indices = [event.index for event in ran.cases]
    assert indices == list(range(len(indices))) and ran.campaign.next_index == len(indices)
    ran = run_campaign(pool, ["wrong:nothing"], mixed_cases(6), tmp_path / "c", first_index=2, max_cases=4, skip=frozenset({3}))
    assert [event.index for event in ran.cases] == [2, 4, 5]


def test_a_case_that_cannot_be_drawn_costs_that_case(pool: WorkerPool, tmp_path: Path) -> None:
    def draw(index: int) -> Case:
        if index == 1:
            raise ValueError("no case on purpose")
        return case_of("torch.neg")

    ran = run_campaign(pool, ["wrong:nothing"], draw, tmp_path, max_cases=3)
    assert [event.index for event in ran.cases] == [0, 2]
    (fault,) = ran.of(events.HarnessFault)
    assert fault.index == 1 and "no case on purpose" in fault.message and "Traceback" in fault.traceback


def test_a_case_that_cannot_be_judged_costs_that_case(pool: WorkerPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import harness.engine.evaluate as evaluate

    real = evaluate.judge

    def judge(case: Case, *rest: object, **options: object) -> object:
        if case.program.operators[0].target == "torch.exp":
            raise HarnessError("these outcomes do not belong together")
        return real(case, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(evaluate, "judge", judge)
    ran = run_campaign(pool, ["wrong:nothing"], [case_of("torch.neg"), case_of("torch.exp"), case_of("torch.neg")], tmp_path)
    assert [event.index for event in ran.cases] == [0, 2]
    (fault,) = ran.of(events.HarnessFault)
    assert "do not belong together" in fault.message and ran.of(events.CaseStarted)[1].index == 1


def test_a_full_disk_ends_the_run_with_its_reason(pool: WorkerPool, tmp_path: Path) -> None:
    def full(campaign: Campaign, event: events.Event) -> None:
        if isinstance(event, events.CaseFinished):
            raise UsageError("cannot write the event log: No space left on device")

    with pytest.raises(UsageError, match="No space left"):
        run_campaign(pool, ["wrong:nothing"], mixed_cases(5), tmp_path, listener=full)


def test_an_interrupt_leaves_nothing_unsaid(pool: WorkerPool, tmp_path: Path) -> None:
    """Stopped as soon as the first investigation begins: what was not looked into is told, for a resumed run."""

    def stop(campaign: Campaign, event: events.Event) -> None:
        tally(event)
        if isinstance(event, events.Investigating):
            campaign.stop(INTERRUPTED)

    tally = Tally()
    ran = run_campaign(pool, ["wrong:value"], mixed_cases(10), tmp_path, listener=stop)
    assert ran.reason == INTERRUPTED and ran.findings == []
    assert [event.reason for event in ran.of(events.Discarded)] == ["not investigated: interrupted"]
    assert tally.settled == {0} and tally.in_flight == [1]


def test_what_was_put_aside_is_taken_up_when_its_like_is_settled(pool: WorkerPool, tmp_path: Path) -> None:
    """Two jobs meet the same bug: one investigates, the other goes on, and afterwards the bug is known."""
    cases = [case_of("torch.neg", GUILTY, seed=index) for index in range(12)]
    ran = run_campaign(pool, ["wrong:value"], cases, tmp_path, jobs=2)
    assert len(ran.findings) == 1
    assert len(ran.of(events.KnownHit)) == 11 and ran.of(events.Discarded) == []
    assert len(ran.of(events.Investigating)) <= 2  # the last one of all is not waited for


def test_without_minimizing_a_finding_is_only_localized(pool: WorkerPool, tmp_path: Path) -> None:
    from harness.engine.investigate import Effort

    ran = run_campaign(pool, ["wrong:value"], mixed_cases(2), tmp_path, effort=Effort(minimize=False))
    (found,) = ran.findings
    (entry,) = Corpus(tmp_path / "findings").entries()
    assert (found.operator, found.nodes) == ("sin", 1)
    (placeholder,) = entry.case.program.placeholders
    assert dataclasses.is_dataclass(placeholder.spec) and placeholder.spec.shape == (3, 2)  # type: ignore[union-attr]
