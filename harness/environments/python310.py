"""Find the Python 3.10 that OneFlow needs, wherever a user keeps one."""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SETTING = "FXDIFF_PYTHON310"
SYSTEM = ("/usr/bin", "/usr/local/bin", "/opt/*/bin", "/opt/*/*/bin")

_PROBE_SECONDS = 30
_PROBE = """
import json, platform, sys
facts = {"executable": sys.executable, "version": platform.python_version(), "minor": list(sys.version_info[:2])}
facts["implementation"] = sys.implementation.name
try:
    import ensurepip, venv
    facts["pip"] = ensurepip.version()
except Exception as error:
    facts["refusal"] = str(error) or type(error).__name__
print(json.dumps(facts))
"""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may be a Python 3.10, and how it was come by."""

    path: str
    source: str


@dataclass(frozen=True, slots=True)
class Python310:
    """A Python 3.10 that ran and can make virtual environments."""

    path: str
    version: str
    source: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A candidate that will not do, and why."""

    path: str
    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class Search:
    """The first Python 3.10 that works, and those tried before it that do not."""

    found: Python310 | None
    refused: tuple[Refusal, ...] = ()


def search(environ: Mapping[str, str] | None = None, *, system: tuple[str, ...] = SYSTEM) -> Search:
    """Try every candidate in order until one works; `system` is glob patterns of folders that hold interpreters.

    A setting is the user's word: where it does not work, nothing else is tried.
    """
    env = dict(os.environ if environ is None else environ)
    refused: list[Refusal] = []
    seen: set[str] = set()
    for candidate in candidates(env, system=system):
        identity = os.path.realpath(candidate.path)
        if identity in seen:
            continue
        seen.add(identity)
        result = probe(candidate, env)
        if isinstance(result, Python310):
            return Search(result, tuple(refused))
        refused.append(result)
    return Search(None, tuple(refused))


def candidates(env: Mapping[str, str], *, system: tuple[str, ...] = SYSTEM) -> Iterator[Candidate]:
    """Every place to look, best first; uv is asked only once the places before it have failed."""
    if setting := env.get(SETTING):
        path = os.path.expanduser(setting)
        yield Candidate(shutil.which(path, path=env.get("PATH")) or path, SETTING)
        return
    folders = [folder for folder in env.get("PATH", "").split(os.pathsep) if os.path.isabs(folder)]
    # All of PATH, not its first hit: a shim in front may refuse while a real one stands behind it.
    yield from _files(folders, ("python3.10",), "PATH")
    yield from _globs(_pyenv_roots(env, folders), "versions/3.10*/bin/python3.10", "pyenv")
    yield from _uv(env)
    yield from _kept_by_managers(env)
    for pattern in system:
        yield from _files(sorted(glob.glob(pattern)), ("python3.10",), "system")
    yield from _files(folders, ("python3", "python"), "PATH")


def probe(candidate: Candidate, env: Mapping[str, str]) -> Python310 | Refusal:
    """Run a candidate: the version that it says, and whether it can make a virtual environment with pip."""

    def refuse(reason: str) -> Refusal:
        return Refusal(candidate.path, candidate.source, reason)

    # A uv or a shim may itself be a Python script: our own interpreter's variables would mislead it.
    clean = {name: value for name, value in env.items() if name not in ("PYTHONHOME", "PYTHONPATH", "__PYVENV_LAUNCHER__")}
    try:
        process = subprocess.run(
            [candidate.path, "-I", "-c", _PROBE],
            env=clean,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return refuse(f"did not answer within {_PROBE_SECONDS} s")
    except OSError as error:
        return refuse(error.strerror or str(error))
    if process.returncode != 0:
        said = next((line.strip() for line in process.stderr.splitlines() if line.strip()), "no message")
        return refuse(f"exit code {process.returncode}: {said}")
    try:
        facts = json.loads(process.stdout)
        executable, version, minor = str(facts["executable"]), str(facts["version"]), list(facts["minor"])
        implementation = str(facts["implementation"])
    except (ValueError, KeyError, TypeError):
        return refuse("does not answer as a Python interpreter does")
    if minor != [3, 10]:
        return refuse(f"is Python {version}")
    if implementation != "cpython":
        return refuse(f"is {implementation}; OneFlow is built for CPython")
    if "refusal" in facts:
        return refuse(f"cannot make virtual environments with pip ({facts['refusal']}); Debian keeps that in python3.10-venv")
    # A shim's answer depends on its caller's folder and variables; the interpreter behind it does not.
    return Python310(executable if os.access(executable, os.X_OK) else candidate.path, version, candidate.source)


def _files(folders: list[str], names: tuple[str, ...], source: str) -> Iterator[Candidate]:
    for name in names:
        for folder in folders:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                yield Candidate(path, source)


def _newest_first(path: str) -> list[int]:
    return [-int(number) for number in re.findall(r"\d+", path)]


def _globs(roots: list[Path], pattern: str, source: str) -> Iterator[Candidate]:
    for root in roots:
        for path in sorted(
            glob.glob(os.path.join(glob.escape(str(root)), pattern)), key=lambda path: _newest_first(path[len(str(root)) :])
        ):
            yield Candidate(path, source)


def _pyenv_roots(env: Mapping[str, str], folders: list[str]) -> list[Path]:
    roots = [Path(env["PYENV_ROOT"])] if env.get("PYENV_ROOT") else []
    roots += [Path(folder).parent for folder in folders if os.path.basename(folder) == "shims"]
    if home := env.get("HOME"):
        roots.append(Path(home) / ".pyenv")
    return list(dict.fromkeys(roots))


def _uv(env: Mapping[str, str]) -> Iterator[Candidate]:
    data = env.get("XDG_DATA_HOME") or (os.path.join(env["HOME"], ".local", "share") if env.get("HOME") else "")
    roots = [Path(folder) for folder in (env.get("UV_PYTHON_INSTALL_DIR"), os.path.join(data, "uv", "python") if data else None) if folder]
    yield from _globs(roots, "cpython-3.10*/bin/python3.10", "uv")
    uv = shutil.which("uv", path=env.get("PATH"))
    if uv is None:
        return
    try:
        process = subprocess.run(
            [uv, "python", "find", "--no-project", "3.10"],
            env={**env, "UV_PYTHON_DOWNLOADS": "never"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return  # a broken uv only means that uv knows no interpreter
    path = process.stdout.strip()
    if process.returncode == 0 and os.path.isfile(path):
        yield Candidate(path, "uv")


def _kept_by_managers(env: Mapping[str, str]) -> Iterator[Candidate]:
    home = env.get("HOME")
    if not home:
        return
    for folder, pattern, source in (
        (".asdf/installs/python", "3.10*/bin/python3.10", "asdf"),
        (".local/share/mise/installs/python", "3.10*/bin/python3.10", "mise"),
        ("miniconda3", "envs/*/bin/python3.10", "conda"),
        ("miniforge3", "envs/*/bin/python3.10", "conda"),
        ("anaconda3", "envs/*/bin/python3.10", "conda"),
    ):
        yield from _globs([Path(home) / folder], pattern, source)
