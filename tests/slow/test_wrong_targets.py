"""Targets that are wrong on purpose, hunted by the real command over drawn cases: each is caught, blamed rightly, and ends nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from harness import events
from harness.cli.exit_codes import ExitCode
from harness.corpus.store import Corpus
from harness.reporting.tally import Tally
from tests.cli.running import WRONG, fuzz, fxdiff

CASES = 12
OPS = ("--op", "sin", "--op", "cos", "--op", "neg", "--max-nodes", "5")
LIMITS = ("--case-timeout", "2s", "--memory-limit", "700M")


@dataclasses.dataclass(frozen=True)
class Expected:
    """The kind that a target's disagreements are of, and how many calls the finding needs."""

    kind: str
    calls: int = 1
    steady: bool = True  # whether every case with a sin in it shows it
    profile: str = "ordinary"


WRONG_TARGETS: dict[str, Expected] = {
    "value": Expected("value"),
    "dtype": Expected("dtype"),
    "shape": Expected("shape"),
    "structure": Expected("structure"),
    "mutation": Expected("mutation"),
    "declared": Expected("declared-shape"),
    "raise": Expected("error"),
    "exit": Expected("crash"),
    "abort": Expected("crash"),
    "segfault": Expected("crash"),
    "fpe": Expected("crash"),
    "hang": Expected("timeout"),
    "spin": Expected("timeout"),
    "printsforever": Expected("timeout"),
    "hog": Expected("oom"),
    "memoryerror": Expected("oom"),
    "heap": Expected("crash", steady=False),
    "heaplater": Expected("crash", steady=False),
    "flaky": Expected("value", steady=False),
    "binding": Expected("value", calls=2, steady=False, profile="symbolic,lanes=0+100+0"),
    "call": Expected("value", calls=2, steady=False, profile="symbolic,lanes=0+100+0"),
}


@pytest.mark.parametrize("kind", WRONG_TARGETS)
def test_what_is_wrong_is_caught_and_blamed_and_the_run_goes_on(tmp_path: Path, kind: str) -> None:
    expected = WRONG_TARGETS[kind]
    target = f"wrong:{kind}"
    options = ("--profile", expected.profile, "--seed", "11", "--max-cases", str(CASES), "--jobs", "2", *OPS, *LIMITS)
    ran = fuzz(tmp_path / "out", *WRONG, "-t", target, *options, timeout=600)
    assert ran.code == ExitCode.NEW_FINDING, ran.err
    summary = ran.summary
    assert (summary["cases"], summary["valid"], summary["harness_faults"]) == (CASES, CASES, 0)
    assert summary["reason"] == "every case asked for was run" and list(ran.case_ids) == list(range(CASES))

    tally = Tally()
    guilty = set()
    for event in ran.events:
        tally(event)
        if isinstance(event, events.CaseFinished) and "sin" in event.operators:
            guilty.add(event.index)
    blamed = {event.index for event in ran.events if isinstance(event, events.Disagreement)}
    if expected.steady and kind != "mutation":  # a case whose inputs are all empty has nothing to change
        assert blamed == guilty
    assert tally.settled == set(range(CASES))

    assert summary["findings"]
    for found in summary["findings"]:
        assert (found["kind"], found["operator"], found["target"]) == (expected.kind, "sin", target)
        assert found["nodes"] <= 2
        entry = Corpus(Path(found["path"]).parent).find(found["path"])
        assert len(entry.case.calls) == expected.calls
    if expected.steady:
        assert len(summary["findings"]) == 1
        again = fxdiff("replay", summary["findings"][0]["path"], *WRONG, *LIMITS, cwd=tmp_path)
        assert again.code == 0 and "STILL FAILS" in again.out


@pytest.mark.parametrize(
    ("kind", "status"),
    [("nothing", "ok"), ("prints", "ok"), ("refuse", "unsupported"), ("reject", "rejected"), ("harness", "harness_error")],
)
def test_what_is_not_wrong_is_no_finding(tmp_path: Path, kind: str, status: str) -> None:
    options = ("--seed", "11", "--max-cases", str(CASES), *OPS, *LIMITS)
    ran = fuzz(tmp_path / "out", *WRONG, "-t", f"wrong:{kind}", *options)
    assert ran.code == ExitCode.NOTHING_NEW, ran.err
    summary = ran.summary
    assert summary["findings"] == [] and summary["disagreements"] == {} and summary["cases"] == CASES
    guilty = sum(isinstance(event, events.CaseFinished) and "sin" in event.operators for event in ran.events)
    assert summary["statuses"][f"wrong:{kind}"].get(status, 0) >= guilty > 0
    assert summary["harness_faults"] == (guilty if kind == "harness" else 0)
    assert ("faults in fxdiff itself" in ran.out) == (kind == "harness")


def test_three_wrong_targets_in_one_run_are_told_apart(tmp_path: Path) -> None:
    targets = ("-t", "wrong:value", "-t", "wrong:abort", "-t", "wrong:dtype")
    ran = fuzz(tmp_path / "out", *WRONG, *targets, "--seed", "11", "--max-cases", str(CASES), "--profile", "ordinary", *OPS, *LIMITS)
    assert ran.code == ExitCode.NEW_FINDING
    found = [(each["target"], each["kind"]) for each in ran.summary["findings"]]
    assert found == [("wrong:abort", "crash"), ("wrong:value", "value"), ("wrong:dtype", "dtype")]  # worst first
