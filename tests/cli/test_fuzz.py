from __future__ import annotations

import dataclasses
import os
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from harness import events
from harness.cli.exit_codes import MEANINGS, ExitCode
from harness.corpus.store import Corpus
from tests.cli.running import FEW, WRONG, Ran, command, environment, finished_cases, fuzz, fxdiff, interrupt, start, wait_until

ENDLESS = (*WRONG, "-t", "wrong:nothing", "--seed", "5", *FEW)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A short run against a target that is wrong about sin."""
    folder = tmp_path_factory.mktemp("found") / "out"
    return fuzz(folder, *WRONG, "-t", "wrong:value", "--seed", "5", "--max-cases", "8", "--jobs", "2", *FEW)


def test_a_new_finding_is_exit_code_1_and_results_are_on_stdout(found: Ran) -> None:
    assert found.code == ExitCode.NEW_FINDING
    assert "NEW wrong-sin-value" in found.out and "1 node" in found.out
    assert "torch" in found.out and "repeat:" in found.out and "--seed 5" in found.out
    assert "seed 5" in found.err and "targets: wrong:value" in found.err
    assert "NEW" not in found.err and "targets:" not in found.out
    assert "\x1b" not in found.out + found.err


def test_the_summary_holds_what_others_read(found: Ran) -> None:
    summary = found.summary
    assert summary["seed"] == 5 and summary["cases"] == 8 and summary["valid"] == 8
    assert summary["executions"] >= 16
    assert summary["versions"]["torch"]
    assert summary["statuses"]["wrong:value"]["ok"] == 8 and summary["statuses"]["eager"]["ok"] == 8
    assert summary["reason"] == "every case asked for was run" and summary["next_index"] == 8
    first = summary["findings"][0]
    assert {"signature", "severity", "target", "nodes", "path", "kind", "operator", "message"} <= first.keys()
    assert (first["target"], first["nodes"], first["severity"]) == ("wrong:value", 1, "wrong_value")
    assert Path(first["path"]).is_dir()
    cpu = summary["cpu_seconds"]
    assert {"total", "engine", "eager", "wrong:value", "zygote:torch"} <= cpu.keys()
    assert cpu["total"] == pytest.approx(sum(value for name, value in cpu.items() if name != "total"), abs=0.1)
    assert sum(row.get("ok", 0) for row in summary["support"] if row["operator"] == "sin") > 0


def test_the_same_cases_whatever_the_jobs_and_the_part(found: Ran, tmp_path: Path) -> None:
    alone = fuzz(tmp_path / "part", *WRONG, "-t", "wrong:nothing", "--seed", "5", "--cases", "3..6", "--jobs", "1", *FEW)
    assert alone.code == ExitCode.NOTHING_NEW
    assert alone.case_ids == {index: found.case_ids[index] for index in range(3, 7)}
    assert list(found.case_ids) == list(range(8))


def test_what_was_found_is_known_to_a_run_that_is_given_it(found: Ran, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    added = fxdiff("corpus", "add", *[finding["path"] for finding in found.summary["findings"]], "--corpus", str(corpus), cwd=tmp_path)
    assert added.code == 0 and added.out.count("added: ") == len(found.summary["findings"])
    more = ("--seed", "5", "--max-cases", "8", "--corpus", str(corpus), *FEW)
    again = fuzz(tmp_path / "again", *WRONG, "-t", "wrong:value", *more)
    assert again.code == ExitCode.NOTHING_NEW and again.summary["findings"] == []
    assert sum(known["hits"] for known in again.summary["known"]) >= len(found.summary["findings"])
    assert "no new findings" in again.out


def test_findings_are_replayed_and_updated(found: Ran, tmp_path: Path) -> None:
    path = next(Path(finding["path"]) for finding in found.summary["findings"])
    still = fxdiff("replay", str(path), *WRONG, cwd=tmp_path)
    assert still.code == 0 and "STILL FAILS" in still.out
    corpus = Corpus(tmp_path / "corpus")
    entry = corpus.find(str(path))
    corpus.add(dataclasses.replace(entry, target="wrong:nothing", path=None))
    fixed = fxdiff("replay", *WRONG, cwd=tmp_path)
    assert fixed.code == ExitCode.NEW_FINDING and "FIXED" in fixed.out
    updated = fxdiff("corpus", "update", entry.slug, *WRONG, cwd=tmp_path)
    assert updated.code == 0 and updated.out.startswith("fixed: ")
    assert fxdiff("replay", *WRONG, cwd=tmp_path).code == 0


def test_quiet_says_the_summary_only(tmp_path: Path) -> None:
    ran = fuzz(tmp_path / "out", *ENDLESS, "--max-cases", "2", "-q", "--fail-on", "never")
    assert (ran.code, ran.err) == (0, "")
    assert "2 cases" in ran.out and "--seed 5" in ran.out


def test_colour_is_for_terminals_and_can_be_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """That a pipe gets none is seen in every other run here."""
    from harness.cli.session import consoles

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert not any(console.no_color for console in consoles())
    assert all(console.no_color for console in consoles(no_color=True))
    monkeypatch.setenv("NO_COLOR", "1")
    assert all(console.no_color for console in consoles())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-t", "wrong:valeu"), "did you mean wrong:value"),
        (("--op", "conv2"), "did you mean conv2d"),
        (("--dtype", "float23"), "float32"),
        (("--profile", "defualt"), "default"),
        (("--cases", "5..2"), "no range"),
        (("--time-budget", "soon"), "not a duration"),
        (("--memory-limit", "lots"), "not a size"),
        (("--jobs", "0"), "auto"),
        (("--import", "no.such.module"), "no.such.module"),
        (("--resume",), "--output"),
        (("--colour",), "No such option"),
    ],
)
def test_what_cannot_be_asked_for_is_one_clear_message(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    ran = fxdiff("fuzz", *WRONG, *arguments, cwd=tmp_path)
    assert ran.code == ExitCode.USAGE, ran.err
    assert said in ran.err and "Traceback" not in ran.err and ran.out == ""
    assert not (tmp_path / "fxdiff-out").exists()


def test_an_unknown_verb_offers_the_nearest(tmp_path: Path) -> None:
    ran = fxdiff("fuz", cwd=tmp_path)
    assert ran.code == ExitCode.USAGE and "did you mean fuzz?" in ran.err


def test_every_exit_code_is_in_the_help(tmp_path: Path) -> None:
    ran = fxdiff("fuzz", "--help", cwd=tmp_path)
    assert ran.code == 0
    text = " ".join(ran.out.split())
    assert all(f"{code.value} {meaning}" in text for code, meaning in MEANINGS.items())
    assert {code.value for code in ExitCode} == {0, 1, 2, 3, 4, 5, 130}


def test_a_fault_of_fxdiff_is_exit_code_3_and_its_traceback_is_kept(tmp_path: Path) -> None:
    (tmp_path / "broken_log.py").write_text(
        "import harness.reporting.tally as tally\n"
        "def broken(self, event):\n"
        "    raise ZeroDivisionError('a fault on purpose')\n"
        "tally.Tally.__call__ = broken\n"
    )
    ran = fuzz(tmp_path / "out", *ENDLESS, "--max-cases", "1", "--import", "broken_log")
    assert ran.code == ExitCode.INTERNAL
    assert "internal error: ZeroDivisionError: a fault on purpose" in ran.err and "Traceback" not in ran.err
    kept = Path(next(word for word in ran.err.split() if "fxdiff-traceback-" in word).rstrip(";"))
    assert "broken_log" in kept.read_text()
    kept.unlink()


def test_a_required_target_that_is_missing_is_exit_code_4(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path / "empty"), "FXDIFF_CACHE": str(tmp_path / "empty")}
    ran = fxdiff("fuzz", "--require-target", "oneflow:lockstep", "--max-cases", "1", cwd=tmp_path, env=env)
    assert ran.code == ExitCode.TARGET_UNAVAILABLE, ran.err
    assert "oneflow:lockstep" in ran.err and "mend it with" in ran.err


def test_a_target_that_cannot_start_is_exit_code_4(tmp_path: Path) -> None:
    broken = ("--import", "tests.doubles.broken")
    ran = fuzz(tmp_path / "a", *broken, "-t", "broken:StartFails", "--max-cases", "1")
    assert ran.code == ExitCode.TARGET_UNAVAILABLE and "no device on purpose" in ran.err
    both = fuzz(tmp_path / "b", *WRONG, *broken, "-t", "broken:WarmFails", "-t", "wrong:nothing", "--max-cases", "1", *FEW)
    assert both.code == ExitCode.NOTHING_NEW and "no library on purpose" in both.err
    assert both.summary["targets"] == ["wrong:nothing"] and "broken:WarmFails" in both.summary["missing"]


def test_a_run_in_which_nothing_was_tested_is_exit_code_5(tmp_path: Path) -> None:
    ran = fuzz(tmp_path / "out", *WRONG, "-t", "wrong:refuse", "--op", "sin", "--max-cases", "2")
    assert ran.code == ExitCode.NOTHING_TESTED
    assert ran.summary["statuses"]["wrong:refuse"] == {"unsupported": 2}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_one_interrupt_stops_cleanly_with_reports(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "out"
    process = start("fuzz", "--output", str(folder), *ENDLESS, cwd=tmp_path)
    wait_until(lambda: finished_cases(folder) >= 2, process)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    ran = Ran(process.returncode, out, err, folder)
    assert ran.code == ExitCode.INTERRUPTED
    assert "press Ctrl-C again" in err and "ended because interrupted" in out
    assert ran.summary["reason"] == "interrupted" and ran.summary["cases"] == len(ran.case_ids) >= 2
    assert isinstance(ran.events[-1], events.RunFinished) and ran.events[-1].exit_code == 130


def test_two_interrupts_leave_at_once_and_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    hanging = (*WRONG, "-t", "wrong:hang", "--op", "sin", "--max-nodes", "1", "--case-timeout", "10m", "--jobs", "1")
    process = start("fuzz", "--output", str(folder), *hanging, cwd=tmp_path)
    log = folder / "events.ndjson"
    wait_until(lambda: log.exists() and "CaseStarted" in log.read_text(), process)
    interrupt(process)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.5)  # the case at work hangs for ten minutes
    children = descendants(process.pid)
    interrupt(process)
    out, err = process.communicate(timeout=20)
    assert process.returncode == ExitCode.INTERRUPTED, err
    assert Ran(process.returncode, out, err, folder).summary["reason"] == "interrupted"
    assert children and not [pid for pid in children if alive(pid)]


def descendants(pid: int) -> list[int]:
    """The processes below one, found by their parents."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parents[int(entry)] = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
    found: list[int] = []
    fresh = [pid]
    while fresh:
        fresh = [child for child, parent in parents.items() if parent in fresh]
        found += fresh
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_killed_run_is_gone_on_with_and_loses_nothing(found: Ran, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    options = (*WRONG, "-t", "wrong:value", "--seed", "5", *FEW)
    process = start("fuzz", "--output", str(folder), *options, "--jobs", "2", cwd=tmp_path)
    wait_until(lambda: finished_cases(folder) >= 3, process)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)
    before = Ran(-9, "", "", folder)
    begun = {event.index for event in before.events if isinstance(event, events.CaseStarted)}
    resumed = fuzz(folder, "--resume", "--max-cases", "8")
    assert resumed.code == ExitCode.NEW_FINDING, resumed.err
    assert "are run again" in resumed.err
    assert resumed.case_ids == found.case_ids and begun <= resumed.case_ids.keys()
    summary = resumed.summary
    assert (summary["cases"], summary["targets"], summary["next_index"]) == (8, ["wrong:value"], 8)
    assert {each["signature"] for each in summary["findings"]} == {each["signature"] for each in found.summary["findings"]}
    assert len({each["signature"] for each in summary["findings"]}) == len(summary["findings"])
    assert "-t wrong:value" in resumed.out.split("repeat:")[1]
    assert resumed.out.rstrip().endswith("--cases 0..7"), "one command for all of it"
    before = Ran(-9, "", "", folder)
    told = len(before.events)
    done = fuzz(folder, "--resume", "--max-cases", "8")
    assert done.summary["cases"] == 8
    assert [type(event) for event in done.events[told:]] == [events.RunStarted, events.RunFinished]


def test_an_output_folder_is_for_one_run_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    process = start("fuzz", "--output", str(folder), *ENDLESS, cwd=tmp_path)
    wait_until(lambda: finished_cases(folder) >= 1, process)
    for more in ((), ("--resume",)):
        second = fuzz(folder, *ENDLESS, *more)
        assert second.code == ExitCode.USAGE and "in use by another fxdiff run" in second.err
    interrupt(process)
    process.communicate(timeout=60)
    third = fuzz(folder, *ENDLESS, "--max-cases", "1")
    assert third.code == ExitCode.USAGE and "--resume" in third.err


def test_an_output_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "out", Path("/proc/fxdiff-out")):
        ran = fxdiff("fuzz", "--output", str(place), *ENDLESS, "--max-cases", "1", cwd=tmp_path)
        assert ran.code == ExitCode.USAGE and str(place) in ran.err and "--output" in ran.err


def test_a_reader_that_goes_away_ends_the_run_with_its_reports(tmp_path: Path) -> None:
    """As with `| head`: nobody would ever stop it."""
    folder = tmp_path / "out"
    arguments = command("fuzz", "--output", str(folder), *WRONG, "-t", "wrong:value", "--seed", "5", *FEW)
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment())
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    code = process.wait(timeout=120)
    process.stderr.close()
    assert code == ExitCode.NEW_FINDING and "Traceback" not in err and "BrokenPipe" not in err, err
    summary = Ran(code, "", err, folder).summary
    assert summary["reason"] == "nobody reads the results any more" and summary["findings"]


@pytest.mark.parametrize(
    ("verb", "code", "said"),
    [
        ("doctor --config >/dev/full", 2, "fxdiff: No space left on device"),
        ("--help >/dev/full", 2, "fxdiff: No space left on device"),
        ("corpus show nonesuch 2>/dev/full", 2, ""),
        ("nonesuch 2>/dev/full", 2, ""),
        ("corpus list >&-", 0, ""),
        ("corpus list <&- >&- 2>&-", 0, ""),
    ],
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_streams_that_are_full_or_closed_give_one_message_and_their_code(
    tmp_path: Path, verb: str, code: int, said: str, unbuffered: str
) -> None:
    line = f"PYTHONUNBUFFERED={unbuffered} {shlex.join(command())} {verb}"
    ran = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == code and said in ran.stderr and ran.stderr.count("\n") == bool(said)


@pytest.mark.parametrize("verb", ["--help", "corpus list", "doctor --config"])
def test_a_reader_that_is_gone_is_no_finding(tmp_path: Path, verb: str) -> None:
    line = f"{{ {shlex.join(command())} {verb}; echo $? >code; }} | true"
    ran = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert (tmp_path / "code").read_text() == "0\n" and not ran.stderr


def test_a_terminal_that_lacks_a_character_gets_an_escape(tmp_path: Path) -> None:
    shown = fxdiff("corpus", "list", "--corpus", "na\u00efve", cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"})
    assert shown.code == ExitCode.NOTHING_NEW and shown.out == "no entries in na\\xefve\n"
