"""What the session makes of processes that somebody kills, and of targets that never start or answer with rubbish."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
from pathlib import Path

import pytest

import tests.doubles.broken
import tests.doubles.wrong  # noqa: F401
from harness.backends.protocol import target
from harness.cli import session as sessions
from harness.cli.exit_codes import ExitCode
from harness.cli.session import Session, SlotRunner
from harness.errors import TargetUnavailable
from harness.model.outcome import Outcome, Status
from harness.workers.kernel import children_of
from harness.workers.pool import WorkerPool
from harness.workers.settings import WorkerSettings
from tests.cli.running import FEW, fuzz
from tests.doubles.cases import job
from tests.workers.alive import wait_until

BROKEN = ("--import", "tests.doubles.broken")


@pytest.mark.parametrize("fresh", [False, True])
def test_a_case_whose_process_is_killed_from_outside_is_run_again(tmp_path: Path, fresh: bool) -> None:
    """The reference too: a case that somebody else ended was not rejected by eager."""
    hang = target("plain:hang")
    with WorkerPool([hang], WorkerSettings(case_seconds=1.5, memory_mb=400)) as pool:
        runner, outcomes, begun = SlotRunner(pool, 0), list[Outcome](), tmp_path / "begun"
        request = dataclasses.replace(job(hang.name), options={"touch": str(begun)})
        thread = threading.Thread(target=lambda: outcomes.append(runner.run(request, fresh=fresh)))
        thread.start()
        assert wait_until(begun.exists)
        (worker,) = children_of(pool.processes()[hang.zygote])
        begun.unlink()
        os.kill(worker, signal.SIGKILL)
        assert wait_until(begun.exists), "the case was not run again"
        thread.join(20)
        assert outcomes[0].status is Status.TIMEOUT, "what the case does by itself is what counts"


def test_a_library_that_hangs_in_its_import_is_named_soon_and_given_up(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sessions, "TELL_SECONDS", 0.1)
    spec = target("broken:WarmHangs")
    with (
        sessions._telling(spec),
        WorkerPool([spec], WorkerSettings(warm_seconds=1.0)) as pool,
        pytest.raises(TargetUnavailable, match=r"not warm after 1 s: the import of its libraries, or warm\(\), hangs \(broken:WarmHangs\)"),
    ):
        pool.check(spec.name)
    assert "waiting for broken:WarmHangs (tests.doubles.broken:WarmHangs)" in capfd.readouterr().err
    with Session.open(["plain:hang"], warm=False).pool as pool:
        assert pool.settings.warm_seconds == sessions.WARM_SECONDS


def test_nobody_is_kept_waiting_for_minutes_in_silence() -> None:
    assert sessions.TELL_SECONDS <= 10
    assert sessions.WARM_SECONDS <= 90


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ReturnsNothing", "ReturnsNothing.run returned NoneType where an Outcome is needed"),
        ("ReturnsForeign", "a value of type object is outside the value grammar"),
        ("Interrupts", "KeyboardInterrupt"),
    ],
)
def test_an_answer_that_is_none_is_the_targets_own_fault(tmp_path: Path, name: str, said: str) -> None:
    ran = fuzz(tmp_path / "out", *BROKEN, "-t", f"broken:{name}", "--max-cases", "1", "--seed", "5", *FEW)
    assert ran.code == ExitCode.NOTHING_TESTED, ran.err
    assert f"fault in target, case 0 on broken:{name}: " in ran.err
    assert f"a fault of the target broken:{name} (tests.doubles.broken:{name}): " in ran.err
    assert said in ran.err
    assert "1 fault in targets of others" in ran.out
    assert "fxdiff itself" not in ran.out
    assert (ran.summary["harness_faults"], ran.summary["target_faults"]) == (0, 1)
