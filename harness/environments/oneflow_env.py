"""OneFlow's interpreter as fxdiff uses it: where it is, and the variables a child of it needs.

Reading the marker of a finished build takes under a millisecond; nothing is built, run or loaded here.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from harness.environments.cache import environment_dir
from harness.environments.missing import Missing

_MARKER = "complete.json"
_MARKER_FORMAT = 1

BUILD_COMMAND = "python -m harness.environments.build"
WHY = "OneFlow runs in an interpreter of its own; without it every oneflow target is skipped."


@dataclass(frozen=True, slots=True)
class OneFlowEnvironment:
    """A built and verified OneFlow environment.

    `internal_library` is what a zygote maps before it forks; `stubs` is the folder of CUDA stand-ins, None where the
    machine has the real libraries. `versions` is what was installed, `python_version` what runs it.
    """

    root: Path
    python: Path
    internal_library: Path
    stubs: Path | None
    python_version: str
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def launcher(self) -> Path:
        """A command that runs this interpreter with all it needs, for people: `oneflow-python repro.py`."""
        return self.root / "oneflow-python"

    def child_environment(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """The variables for a child of this interpreter: `environ` (default: ours) with what OneFlow needs.

        They must be set when the process starts: the loader reads LD_LIBRARY_PATH only then.
        """
        env = dict(os.environ if environ is None else environ)
        for name in ("PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"):
            env.pop(name, None)
        if self.stubs is not None:
            # Last, so that a real library that the user points at wins over its stand-in.
            env["LD_LIBRARY_PATH"] = os.pathsep.join(part for part in (env.get("LD_LIBRARY_PATH", ""), str(self.stubs)) if part)
        env.setdefault("GLOG_minloglevel", "2")  # hides the warning about CUDA and keeps the text of failed checks
        return env


def oneflow_python(environ: Mapping[str, str] | None = None) -> OneFlowEnvironment:
    """The OneFlow environment for the current pins.

    Raises TargetUnavailable where it has not been built, with the command that builds it.
    """
    root = environment_dir("oneflow", environ)
    environment = read(root)
    if environment is None:
        raise not_built(root).unavailable()
    return environment


def not_built(root: Path) -> Missing:
    """What to say of an environment that is not there."""
    return Missing(f"OneFlow's environment is not built ({root})", WHY, BUILD_COMMAND)


def read(root: Path) -> OneFlowEnvironment | None:
    """The finished environment in `root`, or None where there is none, or only a part of one."""
    try:
        marker = json.loads((root / _MARKER).read_text(encoding="utf-8"))
        if marker["format"] != _MARKER_FORMAT:
            return None
        environment = OneFlowEnvironment(
            root=root,
            python=root / marker["python"],
            internal_library=root / marker["internal_library"],
            stubs=root / marker["stubs"] if marker["stubs"] else None,
            python_version=marker["python_version"],
            versions=dict(marker["versions"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    # The interpreter behind a virtual environment may have been removed since.
    usable = os.access(environment.python, os.X_OK) and environment.internal_library.exists()
    return environment if usable else None


def write_launcher(environment: OneFlowEnvironment) -> None:
    """Write the launcher, whole or not at all."""
    lines = ["#!/bin/sh", "# OneFlow's interpreter, with stand-ins for the CUDA libraries that its wheel wants at load."]
    if environment.stubs is not None:
        lines.append(f'export LD_LIBRARY_PATH="${{LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}}"{shlex.quote(str(environment.stubs))}')
    lines += ['export GLOG_minloglevel="${GLOG_minloglevel:-2}"', f'exec {shlex.quote(str(environment.python))} "$@"']
    partial = environment.root / "oneflow-python.partial"
    partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
    partial.chmod(0o755)
    os.replace(partial, environment.launcher)


def write(environment: OneFlowEnvironment) -> None:
    """Mark an environment as complete; written last, and at once."""
    root = environment.root
    record = asdict(environment) | {
        "format": _MARKER_FORMAT,
        "python": str(environment.python.relative_to(root)),
        "internal_library": str(environment.internal_library.relative_to(root)),
        "stubs": str(environment.stubs.relative_to(root)) if environment.stubs else None,
    }
    del record["root"]
    partial = root / f"{_MARKER}.partial"
    partial.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(partial, root / _MARKER)
