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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
    with tempfile.TemporaryFile() as output, tempfile.TemporaryDirectory(prefix="fxdiff-repro-") as folder:
        process = subprocess.Popen(
            [os.fspath(python), "-W", "ignore", os.fspath(script.resolve())],
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


def run_mlir(text: str, *, timeout: float = 60.0) -> ReproRun:
    """Run the RUN line of a repro.mlir with the torch-mlir-opt beside our own interpreter, or else the one on PATH.

    The exit code is torch-mlir-opt's; None is a hang. Raises TargetUnavailable where there is none.
    """
    found = shutil.which("torch-mlir-opt", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]))
    match = re.match(r"// RUN: torch-mlir-opt -pass-pipeline='([^'\n]*)' %s\n", text)
    if match is None:
        raise FormatError("a repro.mlir must begin with its RUN line")
    if found is None:
        raise TargetUnavailable("torch-mlir-opt is not installed")
    command = [found, f"-pass-pipeline={match[1]}"]
    try:
        ran = subprocess.run(command, input=text.encode(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return ReproRun(None, "")
    return ReproRun(ran.returncode, ran.stderr.decode("utf-8", "replace")[-MAX_OUTPUT:])


def mlir_shows(text: str, *, timeout: float = 60.0) -> bool:
    """Whether torch-mlir-opt fails, dies, hangs or emits an error on a repro.mlir; False where there is no torch-mlir-opt."""
    try:
        ran = run_mlir(text, timeout=timeout)
    except TargetUnavailable:
        return False
    return ran.exit_code != 0 or "error:" in ran.output
