"""Checks that run in OneFlow's interpreter: all of a file in one process, each reported by itself."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.environments.oneflow_env import oneflow_python

ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 600


class Inside:
    """The functions `check_*` of a file, run together when the first is asked for; `data` gives them arrays."""

    def __init__(self, file: str, data: Callable[[], Mapping[str, np.ndarray]] = dict) -> None:
        self.path = Path(__file__).parent / file
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        self.checks = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")]
        self._data = data
        self._results: dict[str, str] = {}

    def expect(self, check: str, *, path: tuple[str, ...] = ()) -> None:
        """Fail where a check failed, with its traceback; `path` holds further folders to import from."""
        if not self._results:
            self._results = self._run(path)
        assert self._results[check] == "", f"\n{self._results[check]}"

    def _run(self, path: tuple[str, ...]) -> dict[str, str]:
        environment = oneflow_python()
        with tempfile.NamedTemporaryFile(suffix=".npz") as file:
            np.savez(file, **self._data())
            file.flush()
            child = environment.child_environment()
            child["PYTHONPATH"] = ":".join([str(ROOT), *path])
            command = [str(environment.python), "-m", "tests.oneflow_fx.inside", str(self.path), file.name]
            run = subprocess.run(command, env=child, cwd=ROOT, capture_output=True, text=True, timeout=_SECONDS)
        if run.returncode != 0:
            return dict.fromkeys(self.checks, f"the process ended with {run.returncode}\n{run.stderr[-4000:]}")
        found: dict[str, str] = json.loads(run.stdout.splitlines()[-1])
        return found


def error_of(kind: type[BaseException], action: Callable[[], object]) -> str:
    """What an action says when it raises what it should; there is no pytest in OneFlow's interpreter."""
    try:
        action()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def main(path: str, data: str) -> None:
    """In OneFlow's interpreter: run the checks of a file and print what each said."""
    spec = importlib.util.spec_from_file_location("checks", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["checks"] = module
    spec.loader.exec_module(module)
    arrays: Mapping[str, Any] = np.load(data)
    results = {}
    for name, check in list(vars(module).items()):
        if name.startswith("check_"):
            try:
                check(*([arrays] if check.__code__.co_argcount else []))
                results[name] = ""
            except BaseException:
                results[name] = traceback.format_exc()
    print(json.dumps(results), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
