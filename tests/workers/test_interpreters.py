from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.environments.oneflow_env import oneflow_python
from harness.errors import TargetUnavailable, UnknownName
from harness.workers import bootstrap
from harness.workers.interpreters import interpreter_for

SHOW = "import runpy, sys, json; m = runpy.run_path({path!r}); m['_load_harness'](); import harness.model.codec, harness.workers.zygote; \
print(json.dumps([sys.path, sorted(sys.modules), harness.__file__, list(sys.version_info[:2])]))"


def test_main_runs_in_this_interpreter_with_one_thread() -> None:
    python, env = interpreter_for("main", environ={"HOME": "/nowhere"})
    assert python == sys.executable
    assert env["OMP_NUM_THREADS"] == env["OPENBLAS_NUM_THREADS"] == "1"
    assert env["HOME"] == "/nowhere"
    assert interpreter_for("main", threads=3)[1]["MKL_NUM_THREADS"] == "3"


def test_a_hash_seed_of_the_user_wins() -> None:
    assert interpreter_for("main", environ={})[1]["PYTHONHASHSEED"] == "0"
    assert interpreter_for("main", environ={"PYTHONHASHSEED": "7"})[1]["PYTHONHASHSEED"] == "7"


def test_an_environment_that_is_not_built_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(TargetUnavailable, match="not built"):
        interpreter_for("oneflow", environ={"FXDIFF_CACHE": str(tmp_path)})


def test_an_environment_that_does_not_exist_is_named() -> None:
    with pytest.raises(UnknownName, match="mian"):
        interpreter_for("mian")


@pytest.fixture
def built() -> None:
    try:
        oneflow_python()
    except TargetUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("built")
def test_the_other_interpreter_gets_nothing_of_ours_but_the_package() -> None:
    python, env = interpreter_for("oneflow", environ={**os.environ, "PYTHONPATH": "/not/for/it"})
    assert "PYTHONPATH" not in env
    shown = subprocess.run(
        [python, "-c", SHOW.format(path=bootstrap.__file__)], env=env, cwd="/", capture_output=True, text=True, check=True
    )
    path, modules, package, version = json.loads(shown.stdout)
    ours = {os.path.abspath(entry) for entry in sys.path if "site-packages" in entry}
    assert not ours & set(path)
    assert not any(entry.startswith(str(Path(bootstrap.__file__).parents[2])) for entry in path)
    assert not {"torch", "hypothesis", "oneflow"} & set(modules)
    assert Path(package).parent == Path(bootstrap.__file__).parents[1]
    assert version == [3, 10]
