"""Capture of a user's file in a worker of its own: whatever the file does there, it ends that worker at most.

The file is Python with `build()` and `inputs()`, and optionally `MODE` and `DYNAMIC_SHAPES`. It is the only foreign code
that fxdiff runs, and it never runs in the engine.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.machinery
import importlib.util
import os
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from harness.backends.protocol import Progress
from harness.capture import HOW, capture
from harness.capture.any_way import capture_any, first_line
from harness.capture.inputs import private_copy
from harness.errors import CaptureError, UsageError
from harness.model.case import MODES, Case
from harness.model.codec import to_json
from harness.model.outcome import Job, Outcome, Status

_MODULE = "fxdiff_checked_file"
_TEXT = 2_000
_Result = TypeVar("_Result")


class _Fault(Exception):
    """What is wrong with the user's file, at one stage."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    mode: str
    dynamic_shapes: Any


class CaptureBackend:
    """Serves jobs whose option `path` names a user's file; the outcome's artifacts hold the captured cases.

    Status `error`: the file itself is at fault, in the stage that the outcome names. Status `unsupported`: no way of
    capturing can express the module. Artifacts: `how`, and `case/0`, `case/1`, ... as JSON.
    """

    def warm(self) -> None:
        """Import what capture needs, and compile one module so that Dynamo is warm."""
        torch.set_num_threads(1)
        module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
        for how in HOW:
            capture(module, (torch.ones(1, 2),), how=how)  # type: ignore[arg-type]

    def start(self) -> None:
        """Nothing to do in a fresh child."""

    def versions(self) -> Mapping[str, str]:
        """The version of torch, whose tracers capture."""
        return {"torch": str(torch.__version__)}

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        """Import the file, build its module, run it once, capture it; `case` is not looked at."""
        path = Path(str(job.options["path"]))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                loaded = _load(path, progress)
                return _captured(path, loaded, job.target, progress)
        except _Fault as fault:
            return Outcome(job.target, Status.ERROR, message=str(fault)[:_TEXT])


def _load(path: Path, progress: Progress) -> _Loaded:
    progress.stage("import")
    namespace = _user(lambda: _import(path), path, "it cannot be imported")
    for name in ("build", "inputs"):
        if not callable(getattr(namespace, name, None)):
            near = difflib.get_close_matches(name, [key for key in vars(namespace) if not key.startswith("_")], n=1)
            raise _Fault(f"{path} defines no function {name}()" + (f"; did you mean {near[0]}?" if near else ""))
    mode = getattr(namespace, "MODE", "fwd")
    if mode not in MODES:
        near = difflib.get_close_matches(str(mode), MODES, n=1)
        raise _Fault(f"{path}: MODE is {mode!r}, not one of {', '.join(MODES)}" + (f"; did you mean {near[0]!r}?" if near else ""))
    progress.stage("build")
    torch.manual_seed(0)
    module = _user(namespace.build, path, "build() raises")
    if not isinstance(module, torch.nn.Module):
        raise _Fault(f"{path}: build() must return a torch.nn.Module, not {_named(module)}")
    progress.stage("inputs")
    given = _user(namespace.inputs, path, "inputs() raises")
    args, kwargs = _arguments(given, path)
    dynamic_shapes = getattr(namespace, "DYNAMIC_SHAPES", None)
    if dynamic_shapes is not None and not isinstance(dynamic_shapes, dict | tuple | list):
        raise _Fault(
            f"{path}: DYNAMIC_SHAPES must be a dict, tuple or list, as torch.export takes them, not a {type(dynamic_shapes).__name__}"
        )
    progress.stage("forward")
    own, own_args, own_kwargs = _user(lambda: private_copy(module, args, kwargs), path, "its module cannot be copied")
    _user(lambda: own(*own_args, **own_kwargs), path, "its module raises when it is run on inputs()")
    return _Loaded(module, args, kwargs, mode, dynamic_shapes)


def _captured(path: Path, loaded: _Loaded, target: str, progress: Progress) -> Outcome:
    progress.stage("capture")
    _mend_streams()
    try:
        with _no_forks():
            how, cases = capture_any(
                loaded.module,
                loaded.args,
                kwargs=loaded.kwargs,
                dynamic_shapes=loaded.dynamic_shapes,
                mode=loaded.mode,
                trying=progress.node,
            )
    except CaptureError as error:
        return Outcome(target, Status.UNSUPPORTED, message=f"{path}: {error}")
    except UsageError as error:
        raise _Fault(f"{path}: {error}") from error
    artifacts = {"how": how, **{f"case/{index}": to_json(each).decode("ascii") for index, each in enumerate(cases)}}
    return Outcome(target, Status.OK, artifacts=artifacts)


def _import(path: Path) -> types.ModuleType:
    """Import a file by its path, as `python FILE` would see its neighbours, and leave no bytecode beside it."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(path.parent))
    loader = importlib.machinery.SourceFileLoader(_MODULE, str(path))
    spec = importlib.util.spec_from_file_location(_MODULE, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module
    loader.exec_module(module)
    return module


def _arguments(given: Any, path: Path) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(given, dict) and all(isinstance(key, str) for key in given):
        return (), dict(given)
    if isinstance(given, tuple | list):
        return tuple(given), {}
    hint = "; a single tensor is written (x,)" if isinstance(given, torch.Tensor) else ""
    raise _Fault(f"{path}: inputs() must return a tuple of forward's arguments, or a dict of them by name, not {_named(given)}{hint}")


def _named(value: Any) -> str:
    return "None; is its return missing?" if value is None else f"a {type(value).__name__}"


def _user(action: Callable[[], _Result], path: Path, what: str) -> _Result:
    """Run the user's code: what it raises becomes a sentence with its place."""
    try:
        with _no_forks():
            return action()
    except CaptureError as error:
        raise _Fault(f"{path}: {error}") from error
    except SystemExit as error:
        raise _Fault(f"{_place(error, path)}: {what}: it calls exit({error.code!r})") from error
    except BaseException as error:  # the user's own code may raise anything
        raise _Fault(f"{_place(error, path)}: {what}: {type(error).__name__}: {first_line(error)}") from error


def _mend_streams() -> None:
    """Open again what the file has closed: Dynamo flushes both streams."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or stream.closed:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (it lives as long as the process)


@contextlib.contextmanager
def _no_forks() -> Iterator[None]:
    """End here whatever process the block forked and let come back: it would answer in this worker's name."""
    process = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != process:
            os._exit(0)


def _place(error: BaseException, path: Path) -> str:
    """The deepest line of the user's own file, for a reader who looks for it there."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}:{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path}:{lines[-1]}" if lines else str(path)
