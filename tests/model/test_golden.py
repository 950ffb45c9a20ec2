from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from harness.environments.oneflow_env import oneflow_python
from harness.errors import TargetUnavailable
from tests.model.golden import case, golden

HERE = Path(__file__).parent
STORED = json.loads((HERE / "golden.json").read_text())


def test_ids_and_fills_are_what_they_always_were() -> None:
    assert golden() == STORED


def test_ids_and_fills_are_the_same_in_python_310() -> None:
    try:
        environment = oneflow_python()
    except TargetUnavailable as missing:
        pytest.skip(str(missing))
    root = str(HERE.parents[1])
    env = environment.child_environment({**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": "7"})
    done = subprocess.run(
        [environment.python, str(HERE / "golden.py")], env=env, cwd=root, capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout) == STORED


def test_the_golden_case_is_legal() -> None:
    case().validate()
    assert [tensor.shape for tensor in (case().arguments(1)["x0"], case().module_state("linear")["weight"])] == [(5, 4), (2, 4)]
