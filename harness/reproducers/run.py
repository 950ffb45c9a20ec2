"""Run a reproducer in a clean process: the interpreter of its target, no harness on its path, a deadline."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness.errors import FormatError, TargetUnavailable

BUG, FIXED, CANNOT_RUN = 1, 0, 2
MAX_OUTPUT = 20_000


@dataclass(frozen=True, slots=True)
class ReproRun:
    """How a reproducer ended; `exit_code` is negative for a signal and None after the deadline (seconds)."""

    exit_code: int | None
    output: str

    @property
    def shows_the_bug(self) -> bool:
        """Whether it exited 1 and said so; Python itself exits 1 for a script that is broken."""
        return self.exit_code == BUG and any(line.startswith("BUG: ") for line in self.output.splitlines())


def run_script(
    script: Path,
    *,
    python: Path | str = sys.executable,
    env: Mapping[str, str] | None = None,
    timeout: float = 120.0,
    path: Sequence[str] = (),
) -> ReproRun:
    """Run a script that is already on disk; stdout and stderr come back as one text, its end if it is long.

    The child sees `env` (default: this process's) with `path` as its PYTHONPATH: by default nothing that would let it
    find the harness. Its whole process group is killed at the deadline.
    """
    environment = dict(os.environ if env is None else env)
    for name in ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP"):
        environment.pop(name, None)
    if path:
        environment["PYTHONPATH"] = os.pathsep.join(path)
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    with tempfile.TemporaryDirectory(prefix="fxdiff-repro-") as folder:
        command = [os.fspath(python), "-W", "ignore", os.fspath(script.resolve())]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        return _ended(process, process.stdout, timeout)


def _ended(process: subprocess.Popen[bytes], printed: IO[bytes] | None, timeout: float) -> ReproRun:
    """How a process ended by itself or at the deadline, and the end of what it printed; its group is killed."""
    assert printed is not None
    tail = _Tail(printed)
    try:
        code: int | None = process.wait(timeout)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        _kill_group(process)
    return ReproRun(code, tail.text())


class _Tail:
    """The end of what a process prints: one that does not stop may print gigabytes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._kept = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._stream:
            while piece := os.read(self._stream.fileno(), 1 << 16):
                self._kept = (self._kept + piece)[-MAX_OUTPUT:]

    def text(self) -> str:
        """What there is once the process group has ended; a descendant that left the group is not waited for."""
        self._thread.join(timeout=5)
        return self._kept.decode("utf-8", "replace")


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End whatever the script left behind; the group outlives its leader."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_source(
    text: str,
    *,
    python: Path | str = sys.executable,
    env: Mapping[str, str] | None = None,
    timeout: float = 120.0,
    path: Sequence[str] = (),
) -> ReproRun:
    """Run a reproducer that is not on disk yet."""
    with tempfile.TemporaryDirectory(prefix="fxdiff-repro-") as folder:
        script = Path(folder) / "repro.py"
        script.write_text(text, encoding="utf-8")
        return run_script(script, python=python, env=env, timeout=timeout, path=path)


def _opt_command(text: str) -> list[str]:
    """What the RUN line of a repro.mlir says, reading the file from stdin."""
    found = shutil.which("torch-mlir-opt", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]))
    match = re.match(r"// RUN: torch-mlir-opt -pass-pipeline='([^'\n]*)' %s\n", text)
    if match is None:
        raise FormatError("a repro.mlir must begin with its RUN line")
    if found is None:
        raise TargetUnavailable("torch-mlir-opt is not installed")
    return [found, f"-pass-pipeline={match[1]}"]


def run_mlir(text: str, *, timeout: float = 20.0) -> ReproRun:
    """Run the RUN line of a repro.mlir with the torch-mlir-opt beside our own interpreter, or else the one on PATH.

    The exit code is torch-mlir-opt's; None is a hang. Raises TargetUnavailable where there is none.
    """
    command = _opt_command(text)
    with tempfile.TemporaryFile() as source:
        source.write(text.encode())
        source.seek(0)
        process = subprocess.Popen(
            command,
            stdin=source,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        return _ended(process, process.stderr, timeout)


def mlir_shows(text: str, *, timeout: float = 20.0) -> bool:
    """Whether torch-mlir-opt fails, dies, hangs or emits an error on a repro.mlir; False where there is no torch-mlir-opt."""
    try:
        ran = run_mlir(text, timeout=timeout)
    except TargetUnavailable:
        return False
    return ran.exit_code != 0 or "error:" in ran.output


def mlir_gives(text: str, wanted: str, *, timeout: float = 20.0) -> bool:
    """Whether torch-mlir-opt makes `wanted` of a repro.mlir; False where there is no torch-mlir-opt."""
    try:
        ran = subprocess.run(_opt_command(text), input=text, capture_output=True, text=True, timeout=timeout, check=False)
    except (TargetUnavailable, subprocess.TimeoutExpired):
        return False
    return ran.returncode == 0 and ran.stdout.strip() == wanted.strip()
