"""The command line as a user runs it: a process of its own, its output and what it left on disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import events
from harness.reporting.log import read_log

ROOT = Path(__file__).resolve().parents[2]
WRONG = ("--import", "tests.doubles.wrong")
FEW = ("--op", "sin", "--op", "cos", "--max-nodes", "3")


@dataclass
class Ran:
    """An invocation that has ended, and its output folder."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        return found

    @property
    def events(self) -> list[events.Event]:
        return list(read_log(self.folder / "events.ndjson"))

    @property
    def case_ids(self) -> dict[int, str]:
        """The ids of the cases that ran, by index; each must be the same whenever it ran again."""
        found: dict[int, str] = {}
        for event in self.events:
            if isinstance(event, events.CaseFinished):
                assert found.setdefault(event.index, event.case) == event.case
        return dict(sorted(found.items()))


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM")}
    return {**kept, "PYTHONPATH": str(ROOT), **(extra or {})}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "harness.cli.main", *arguments]


def start(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Begin an invocation."""
    return subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, env=environment(env))


def fxdiff(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None, folder: Path | None = None, timeout: float = 240) -> Ran:
    """Run to the end."""
    process = start(*arguments, cwd=cwd, env=env)
    out, err = process.communicate(timeout=timeout)
    return Ran(process.returncode, out, err, folder if folder is not None else cwd)


def fuzz(folder: Path, *arguments: str, env: Mapping[str, str] | None = None, timeout: float = 240) -> Ran:
    """`fxdiff fuzz --output FOLDER ...`, run in the folder above."""
    return fxdiff("fuzz", "--output", str(folder), *arguments, cwd=folder.parent, env=env, folder=folder, timeout=timeout)


def wait_until(holds: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 120.0) -> None:
    """Wait while an invocation works until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.05)


def finished_cases(folder: Path) -> int:
    log = folder / "events.ndjson"
    return log.read_text().count('"event":"CaseFinished"') if log.exists() else 0


def interrupt(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
