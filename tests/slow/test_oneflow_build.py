from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.environments import oneflow_build
from harness.environments.oneflow_env import oneflow_python
from harness.environments.python310 import search

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(oneflow_build.unsupported_platform() is not None, reason="OneFlow has no wheel for this platform")
@pytest.mark.skipif(search().found is None, reason="no Python 3.10 on this machine")
def test_the_real_environment_is_built_from_nothing(tmp_path: Path) -> None:
    environ = {**os.environ, "FXDIFF_CACHE": str(tmp_path)}
    command = [sys.executable, "-m", "harness.environments.build", "--require"]
    process = subprocess.run(command, cwd=ROOT, env=environ, stderr=subprocess.PIPE, text=True)
    assert process.returncode == 0, process.stderr
    environment = oneflow_python(environ)
    assert not list(environment.root.glob("venv/lib/python3.10/site-packages/nvidia*"))
    # nn.Graph asks the stubs for their versions, which the check of the build does not.
    code = (
        "import oneflow as flow\n"
        "class Twice(flow.nn.Graph):\n"
        "    def build(self, x):\n"
        "        return x * 2\n"
        "print(Twice()(flow.ones(2)).numpy().tolist())"
    )
    answer = subprocess.run(
        [environment.python, "-c", code], env=environment.child_environment(), stdout=subprocess.PIPE, text=True, check=True
    )
    assert answer.stdout.splitlines()[-1] == "[2.0, 2.0]"
