"""Scripted interpreters and tools: real executables with real exit codes that need no real Python 3.10."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path


def script(path: Path, body: str) -> Path:
    """An executable shell script at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def facts(
    version: str = "3.10.13", *, implementation: str = "cpython", refusal: str | None = None, executable: str | Path = "/nowhere/python"
) -> str:
    """What an interpreter answers to the probe."""
    record: dict[str, object] = {
        "executable": str(executable),
        "version": version,
        "minor": [int(part) for part in version.split(".")[:2]],
        "implementation": implementation,
        "pip": "23.0.1",
    }
    if refusal is not None:
        record["refusal"] = refusal
    return json.dumps(record)


def python(path: Path, version: str = "3.10.13", **answer: str | Path) -> Path:
    """An interpreter that only answers the probe."""
    return script(path, f"echo {shlex.quote(facts(version, **answer))}")  # type: ignore[arg-type]


def refusing_shim(path: Path) -> Path:
    """pyenv's shim for a version that is installed but not selected."""
    return script(
        path, 'echo "pyenv: python3.10: command not found" >&2\necho "The command exists in these versions: 3.10.13" >&2\nexit 127'
    )


def builder(path: Path, *, pip: str = "", answer: str | None = None) -> Path:
    """An interpreter that also makes "virtual environments" holding itself, and "installs" OneFlow into them.

    `pip` is shell run at each installation; `answer` is what the check of the finished environment prints.
    """
    checked = answer if answer is not None else json.dumps({"relu": [0.0, 2.0], "matmul": [[3.0], [3.0]], "version": "0.9.0"})
    return script(
        path,
        f"""
case "$*" in
  *ensurepip*) echo {shlex.quote(facts())} ;;
  *ctypes*) exec {shlex.quote(sys.executable)} "$@" ;;
  *"-m venv"*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  *"-m pip"*)
    site="$(dirname "$0")/../lib/python3.10/site-packages/oneflow"
    {pip or ":"}
    mkdir -p "$site" && touch "$site/_oneflow_internal.fake.so"
    echo "installed $*" ;;
  *"import oneflow"*) echo "$LD_LIBRARY_PATH" > "$(dirname "$0")/../../seen-library-path"; echo {shlex.quote(checked)} ;;
  *) echo "unexpected: $*" >&2; exit 9 ;;
esac""",
    )
