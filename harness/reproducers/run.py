"""Run a reproducer in a clean process: the interpreter of its target, no harness on its path, a deadline."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

BUG, FIXED, CANNOT_RUN = 1, 0, 2
MAX_OUTPUT = 20_000


@dataclass(frozen=True, slots=True)
class ReproRun:
    """How a reproducer ended; `exit_code` is negative for a signal and None after the deadline (seconds)."""

    exit_code: int | None
    output: str

    @property
    def shows_the_bug(self) -> bool:
        """Whether it said what it was saved to say."""
        return self.exit_code == BUG


def run_script(
    path: Path, *, python: Path | str = sys.executable, env: Mapping[str, str] | None = None, timeout: float = 120.0
) -> ReproRun:
    """Run a script that is already on disk; stdout and stderr come back as one text, its end if it is long.

    The child sees `env` (default: this process's) without anything that would put the harness on its path. Its whole
    process group is killed at the deadline.
    """
    environment = dict(os.environ if env is None else env)
    for name in ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP"):
        environment.pop(name, None)
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    with tempfile.TemporaryFile() as output, tempfile.TemporaryDirectory(prefix="fxdiff-repro-") as folder:
        process = subprocess.Popen(
            [os.fspath(python), "-W", "ignore", os.fspath(path.resolve())],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _kill_group(process)
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    return ReproRun(code, text[-MAX_OUTPUT:])


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End whatever the script left behind; the group outlives its leader."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_source(text: str, *, python: Path | str = sys.executable, env: Mapping[str, str] | None = None, timeout: float = 120.0) -> ReproRun:
    """Run a reproducer that is not on disk yet."""
    with tempfile.TemporaryDirectory(prefix="fxdiff-repro-") as folder:
        path = Path(folder) / "repro.py"
        path.write_text(text, encoding="utf-8")
        return run_script(path, python=python, env=env, timeout=timeout)
