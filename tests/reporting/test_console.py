from __future__ import annotations

import dataclasses
import io

from harness import events
from harness.reporting.console import ConsoleReporter
from harness.reporting.escaping import EscapingConsole
from harness.reporting.tally import Tally
from tests.reporting.telling import RUN, STARTED, disagreement, dropped, finished, found


def shown(*told: events.Event, verbosity: int = 0, terminal: bool = False, width: int = 100) -> tuple[str, str]:
    """What went to stdout and to stderr."""
    out, err = io.StringIO(), io.StringIO()
    consoles = [EscapingConsole(file=file, force_terminal=terminal, width=width) for file in (out, err)]
    tally = Tally()
    reporter = ConsoleReporter(tally, out=consoles[0], err=consoles[1], verbosity=verbosity)
    for event in told:
        tally(event)
        reporter(event)
    reporter.close()
    reporter.summary(next_commands=["repeat: fxdiff fuzz --seed 7"])
    return out.getvalue(), err.getvalue()


def test_findings_go_to_stdout_and_progress_to_stderr() -> None:
    out, err = shown(*RUN)
    assert "NEW t-sin-value-1" in out and "actual = M()(x)" in out and "needs: dtype:int64" in out
    assert "seed 7" in err and "left out t:c: not there" in err and "KeyError" in err
    assert "seed 7," not in out and "NEW" not in err


def test_a_finding_tells_the_command_that_runs_it() -> None:
    assert "fxdiff replay --import some.module out/findings/t-sin-value-1" in shown(*RUN)[0]
    unsaved = shown(STARTED, finished(1), disagreement(1), found(1, path=""))[0]
    assert "fxdiff replay" not in unsaved and "not saved" in unsaved


def test_the_summary_accounts_for_everything() -> None:
    out = shown(*RUN)[0]
    for said in ("4 cases", "3 valid", "9 executions", "ended because every case asked for was run", "1 new finding:", "t-sin-value-1"):
        assert said in out
    assert "1 more disagreement, explained by bugs that are known or stand above" in out and "https://example.org/1" in out
    assert "1 fault in fxdiff itself" in out and "rejected by eager 1: sin_1: no kernel" in out
    assert "CPU seconds: 4 (t:a 3, engine 1)" in out and "repeat: fxdiff fuzz --seed 7" in out


def test_what_was_dropped_is_told_with_its_case_and_a_command() -> None:
    out = shown(STARTED, finished(4), disagreement(4), dropped(4, "did not come back"), finished(5), dropped(5, "did not come back"))[0]
    assert "2 disagreements dropped: did not come back\n  value on t:a: fxdiff fuzz --seed 7 --cases 4 -v\n" in out


def test_square_brackets_in_messages_are_no_markup() -> None:
    assert "[differs]" in shown(STARTED, found(1))[0]
    odd = dataclasses.replace(found(1), message="output [0] ['a'] [/red]", note="[bold]")
    out = shown(STARTED, odd)[0]
    assert "output [0] ['a'] [/red]" in out and "note: [bold]" in out


def test_quiet_says_the_summary_only() -> None:
    out, err = shown(*RUN, verbosity=-1)
    assert err == "" and "NEW" not in out and "4 cases" in out


def test_verbose_says_every_disagreement_and_its_traceback() -> None:
    err = shown(*RUN, verbosity=1)[1]
    assert "case 1: 1 of 2 elements differ" in err and "Traceback ..." in err
    assert "case 1: 1 of 2" not in shown(*RUN)[1]


def test_no_line_is_wrapped_where_no_terminal_is() -> None:
    long = dataclasses.replace(found(1), message="x" * 300, path="p" * 300)
    out = shown(STARTED, long, width=80)[0]
    assert "x" * 300 in out and "p" * 300 in out


def test_a_run_without_findings_says_so() -> None:
    out = shown(STARTED, finished(0), RUN[-1])[0]
    assert "no new findings" in out
