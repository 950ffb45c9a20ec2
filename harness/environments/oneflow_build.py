"""Build OneFlow's environment in the user's cache folder: a virtual environment, its packages, the CUDA stubs, a check."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from harness.environments import cuda_stubs, oneflow_env
from harness.environments.cache import environment_dir
from harness.environments.missing import Missing
from harness.environments.oneflow_env import BUILD_COMMAND, WHY, OneFlowEnvironment
from harness.environments.python310 import SETTING, Python310, Search, search
from harness.environments.versions import pins, requirements_file
from harness.errors import TargetUnavailable

Say = Callable[[str], None]

DISK_BYTES = 4 * 10**9  # 2.6 GB stay; the wheel is unpacked from a download of 1 GB
_VENV_SECONDS = 300
_INSTALL_SECONDS = 3600
_CHECK_SECONDS = 300

_CHECK = """
import json, sys
import oneflow
answer = oneflow.relu(oneflow.tensor([-1.0, 2.0])).numpy().tolist()
product = oneflow.matmul(oneflow.ones(2, 3), oneflow.ones(3, 1)).numpy().tolist()
import onefx
print(json.dumps({"relu": answer, "matmul": product, "version": oneflow.__version__}))
"""
_CHECK_EXPECTED = {"relu": [0.0, 2.0], "matmul": [[3.0], [3.0]]}


def build_oneflow(say: Say, *, rebuild: bool = False, environ: Mapping[str, str] | None = None) -> OneFlowEnvironment:
    """The OneFlow environment, built first where it is not there yet; one builder works, others wait for it.

    Raises TargetUnavailable with what is missing and the command that mends it.
    """
    root = environment_dir("oneflow", environ)
    found = None if rebuild else oneflow_env.read(root)
    if found is not None:
        return found
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        with _locked(root.with_name(f"{root.name}.lock"), say) as lock:
            found = None if rebuild else oneflow_env.read(root)
            return found if found is not None else _build(root, say, environ, lock)
    except OSError as error:
        raise Missing(
            f"OneFlow's environment cannot be kept in {root.parent}: {error}", WHY, f"FXDIFF_CACHE=FOLDER {BUILD_COMMAND}"
        ).unavailable() from error


def no_python310(result: Search) -> Missing:
    """What to say where no Python 3.10 was found."""
    tried = "".join(f"\n  {refusal.path} ({refusal.source}): {refusal.reason}" for refusal in result.refused)
    return Missing(
        f"no usable Python 3.10 found{': tried' + tried if tried else ''}",
        f"OneFlow {pins('oneflow')['oneflow']} has wheels for Python 3.10 and none for newer ones; it runs in an interpreter of its own.",
        f"install one (pyenv install 3.10, uv python install 3.10, or the system's python3.10 with python3.10-venv), "
        f"or name one: {SETTING}=/path/to/python3.10, then: {BUILD_COMMAND}",
    )


def unsupported_platform() -> Missing | None:
    """OneFlow's wheels exist for Linux on x86-64 only."""
    if sys.platform == "linux" and platform.machine() in ("x86_64", "AMD64"):
        return None
    return Missing(
        f"OneFlow has no wheel for {platform.system()} on {platform.machine()}",
        WHY,
        "run fxdiff on Linux on x86-64, or leave the oneflow targets out",
    )


@contextlib.contextmanager
def _locked(path: Path, say: Say) -> Iterator[int]:
    """Hold the lock and give its descriptor: a pip that outlives a killed builder must go on holding it."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process is building OneFlow's environment; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def _build(root: Path, say: Say, environ: Mapping[str, str] | None, lock: int) -> OneFlowEnvironment:
    if (missing := unsupported_platform()) is not None:
        raise missing.unavailable()
    found = search(environ)
    if found.found is None:
        raise no_python310(found).unavailable()
    if cuda_stubs.find_compiler(environ) is None and cuda_stubs.absent(found.found.path):
        raise cuda_stubs.NO_COMPILER.unavailable()  # before a gigabyte is fetched, not after
    free = shutil.disk_usage(root.parent).free
    if free < DISK_BYTES:
        raise Missing(
            f"{free / 1e9:.1f} GB free in {root.parent}; OneFlow's environment needs {DISK_BYTES / 1e9:.0f} GB to be built",
            WHY,
            f"free some space, or keep it elsewhere: FXDIFF_CACHE=FOLDER {BUILD_COMMAND}",
        ).unavailable()
    say(f"building OneFlow {pins('oneflow')['oneflow']}'s environment in {root}")
    say(f"  Python {found.found.version} ({found.found.source}): {found.found.path}")
    say("  about 1 GB to fetch and 2.6 GB on disk; once, for all checkouts of fxdiff")
    if root.exists():  # an interrupted build, or one that is to be made anew
        shutil.rmtree(root)
    root.mkdir()
    return _fill(root, found.found, say, environ, lock)


def _fill(root: Path, python310: Python310, say: Say, environ: Mapping[str, str] | None, lock: int) -> OneFlowEnvironment:
    venv, log = root / "venv", root / "build.log"
    python = venv / "bin" / "python"
    env = installer_environment(os.environ if environ is None else environ)
    _run([python310.path, "-m", "venv", str(venv)], env, log, "making the virtual environment", _VENV_SECONDS, lock)
    # onefx comes without a wheel; --use-pep517 builds it apart, whatever setuptools this Python brings.
    install = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-deps", "--use-pep517"]
    _run([*install, "-r", str(requirements_file("oneflow"))], env, log, "installing its packages", _INSTALL_SECONDS, lock)
    say("  packages installed")
    libraries = sorted(venv.glob("lib/python3.10/site-packages/oneflow/_oneflow_internal*.so"))
    if len(libraries) != 1:
        raise _failed("the installed package holds no _oneflow_internal library", log)
    wanted = cuda_stubs.absent(str(python))
    stubs = root / "stubs" if wanted else None
    if stubs is not None:
        cuda_stubs.build(stubs, wanted, compiler=cuda_stubs.find_compiler(environ))
        say(f"  {len(wanted)} CUDA stubs built, {sum(path.stat().st_size for path in stubs.iterdir()) // 1000} KB")
    environment = OneFlowEnvironment(root, python, libraries[0], stubs, python310.version, dict(pins("oneflow")))
    _verify(environment, log, lock)
    oneflow_env.write(environment)
    say("  verified: it imports and computes")
    return environment


def installer_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without what would send pip, or the interpreter, somewhere else than into the virtual environment."""
    unwanted = ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER")
    return {name: value for name, value in environ.items() if name not in unwanted}


def _verify(environment: OneFlowEnvironment, log: Path, lock: int) -> None:
    """Import OneFlow in its interpreter and compute with it.

    Raises TargetUnavailable with the log where it cannot.
    """
    child = environment.child_environment()
    child.pop("PYTHONPATH", None)
    output = _run([str(environment.python), "-c", _CHECK], child, log, "importing oneflow in it", _CHECK_SECONDS, lock)
    try:
        answer = json.loads(output.splitlines()[-1])
    except (ValueError, IndexError):
        raise _failed("it does not answer", log) from None
    computed = {name: answer.get(name) for name in _CHECK_EXPECTED}
    if computed != _CHECK_EXPECTED:
        raise _failed(f"it computes {computed} where {_CHECK_EXPECTED} is right", log)


def _run(command: list[str], env: Mapping[str, str], log: Path, doing: str, seconds: int, lock: int) -> str:
    with log.open("a", encoding="utf-8") as file:
        file.write(f"# {doing}: {' '.join(command)}\n")
        file.flush()
        try:
            process = subprocess.run(
                command,
                pass_fds=(lock,),
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                errors="replace",
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            raise _failed(f"{doing} took longer than {seconds} s", log) from None
        file.write(process.stdout)
    if process.returncode != 0:
        ending = f"signal {-process.returncode}" if process.returncode < 0 else f"exit code {process.returncode}"
        raise _failed(f"{doing} failed with {ending}", log)
    return process.stdout


def _failed(what: str, log: Path) -> TargetUnavailable:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    tail = "".join(f"\n  | {line[:300]}" for line in lines[-6:])
    return Missing(
        f"OneFlow's environment could not be built: {what}; the end of {log}:{tail}\n",
        WHY,
        f"see the log for the cause, then: {BUILD_COMMAND}",
    ).unavailable()
