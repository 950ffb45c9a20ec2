from __future__ import annotations

import json

from harness import events
from harness.reporting.tally import Tally
from tests.reporting.telling import RUN, STARTED, disagreement, dropped, finished, found, known


def tally_of(*told: events.Event) -> Tally:
    tally = Tally()
    for event in told:
        tally(event)
    return tally


def test_the_summary_counts_what_was_told() -> None:
    summary = tally_of(*RUN).summary()
    assert json.loads(json.dumps(summary)) == summary
    assert (summary["seed"], summary["cases"], summary["valid"], summary["executions"]) == (7, 4, 3, 9)
    assert summary["statuses"]["t:a"] == {"crash": 1, "ok": 1, "unsupported": 1}
    assert summary["statuses"]["eager"] == {"ok": 3, "rejected": 1}
    assert summary["cpu_seconds"] == {"total": 4.0, "engine": 1.0, "t:a": 3.0} and summary["seconds"] == 2.5
    assert summary["disagreements"] == {"t:a": 1, "t:b": 1} and summary["harness_faults"] == 1
    assert summary["rejected"] == {"sin_1: no kernel": 1} and summary["missing"] == {"t:c": "not there"}
    (finding,) = summary["findings"]
    assert finding["signature"] == "t-sin-value-1" and finding["severity"] == "wrong_value" and finding["case_index"] == 1
    (bug,) = summary["known"]
    assert (bug["signature"], bug["hits"], bug["targets"]) == ("t-sin-value-1", 1, ["t:a"])
    rows = {(row["target"], row["operator"]): row for row in summary["support"]}
    assert rows["t:a", "sin"]["crash"] == 1 and rows["t:a", "sin"]["unsupported"] == 1 and rows["t:b", "sin"]["ok"] == 3


def test_findings_are_listed_worst_first() -> None:
    told = [found(0, "mild", severity=2), found(1, "worst", severity=7), found(2, "bad", severity=5)]
    assert [finding["signature"] for finding in tally_of(STARTED, *told).summary()["findings"]] == ["worst", "bad", "mild"]


def test_a_target_is_tested_by_what_it_answered() -> None:
    tally = tally_of(
        STARTED, finished(0), finished(1, status="crash"), finished(2, status="unsupported"), finished(3, status="harness_error")
    )
    assert tally.tested("t:a") == 2 and tally.tested("t:b") == 4 and tally.tested("t:none") == 0


def test_a_run_that_was_cut_short_says_so() -> None:
    summary = tally_of(*RUN[:-1]).summary()
    assert (summary["reason"], summary["seconds"], summary["next_index"]) == ("cut short", None, None)


def test_a_case_is_settled_when_each_of_its_disagreements_is() -> None:
    begun = (STARTED, events.CaseStarted(0), finished(0), events.CaseStarted(1), finished(1), events.CaseStarted(2))
    for close in (found(1), known(1), dropped(1, "did not come back"), events.HarnessFault(1, "c", "t:a", "m", "", "value")):
        tally = tally_of(*begun, disagreement(1), close)
        assert tally.settled == {0, 1} and tally.in_flight == [2]
    for leave in (dropped(1, f"{events.NOT_INVESTIGATED}: interrupted"), events.HarnessFault(1, "c", "t:a", "the case itself")):
        tally = tally_of(*begun, disagreement(1), leave)
        assert tally.settled == {0} and tally.in_flight == [1, 2]
    two = tally_of(*begun, disagreement(1), disagreement(1, "t:b"), known(1))
    assert two.in_flight == [1, 2]


def test_a_case_that_is_run_again_is_counted_once() -> None:
    before = (STARTED, events.CaseStarted(0), finished(0), disagreement(0))
    again = (STARTED, events.CaseStarted(0), finished(0), disagreement(0), found(0), events.RunFinished("done", 2.0, {"engine": 1.0}, 1))
    tally = tally_of(*before, *again)
    assert (tally.cases, tally.executions, len(tally.findings)) == (1, 3, 1)
    assert tally.settled == {0} and tally.in_flight == []


def test_the_cost_of_a_resumed_run_is_that_of_its_parts() -> None:
    part = events.RunFinished("interrupted", 2.0, {"engine": 1.0, "t:a": 0.5}, 1)
    tally = tally_of(STARTED, part, STARTED, part)
    assert tally.seconds == 4.0 and tally.summary()["cpu_seconds"] == {"total": 3.0, "engine": 2.0, "t:a": 1.0}
