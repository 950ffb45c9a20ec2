from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from harness.environments.build import main
from harness.environments.cache import environment_dir
from harness.environments.oneflow_env import OneFlowEnvironment, oneflow_python, read, write, write_launcher
from harness.environments.versions import pins
from harness.errors import TargetUnavailable
from tests.environments import fakes


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"FXDIFF_CACHE": str(tmp_path / "cache")}


@pytest.fixture
def built(environ: dict[str, str]) -> OneFlowEnvironment:
    root = environment_dir("oneflow", environ)
    python = fakes.python(root / "venv/bin/python")
    library = root / "venv/lib/_oneflow_internal.so"
    library.parent.mkdir()
    library.touch()
    environment = OneFlowEnvironment(root, python, library, root / "stubs", "3.10.13", {"oneflow": "0.9.0"})
    write(environment)
    return environment


def test_what_was_written_is_read(built: OneFlowEnvironment, environ: dict[str, str]) -> None:
    assert oneflow_python(environ) == built
    without_stubs = replace(built, stubs=None)
    write(without_stubs)
    assert oneflow_python(environ) == without_stubs
    assert sorted(path.name for path in built.root.iterdir()) == ["complete.json", "venv"]


def test_what_is_not_built_is_unavailable_and_says_how_to_build_it(environ: dict[str, str]) -> None:
    with pytest.raises(TargetUnavailable, match=r"not built.*To mend it: python -m harness.environments.build"):
        oneflow_python(environ)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"format": 99}', '{"format": 1, "python": "venv/bin/python"}'])
def test_a_broken_or_foreign_marker_counts_as_not_built(built: OneFlowEnvironment, text: str) -> None:
    (built.root / "complete.json").write_text(text)
    assert read(built.root) is None


def test_a_marker_of_another_format_counts_as_not_built(built: OneFlowEnvironment) -> None:
    marker = json.loads((built.root / "complete.json").read_text())
    (built.root / "complete.json").write_text(json.dumps(marker | {"format": marker["format"] + 1}))
    assert read(built.root) is None


def test_an_interpreter_removed_since_counts_as_not_built(built: OneFlowEnvironment) -> None:
    built.python.unlink()
    built.python.symlink_to("/nowhere/python3.10")
    assert read(built.root) is None


def test_a_package_removed_since_counts_as_not_built(built: OneFlowEnvironment) -> None:
    built.internal_library.unlink()
    assert read(built.root) is None


def test_asking_for_it_takes_under_ten_milliseconds(built: OneFlowEnvironment, environ: dict[str, str]) -> None:
    def once() -> float:
        pins.cache_clear()
        start = time.process_time()
        oneflow_python(environ)
        return time.process_time() - start

    assert min(once() for _ in range(20)) < 0.010


def test_a_child_finds_the_stubs_after_the_users_own_libraries(built: OneFlowEnvironment) -> None:
    assert built.child_environment({})["LD_LIBRARY_PATH"] == str(built.stubs)
    assert built.child_environment({"LD_LIBRARY_PATH": "/cuda"})["LD_LIBRARY_PATH"] == f"/cuda{os.pathsep}{built.stubs}"
    assert "LD_LIBRARY_PATH" not in replace(built, stubs=None).child_environment({})


def test_a_child_inherits_no_interpreter_of_ours_and_keeps_what_the_user_set(built: OneFlowEnvironment) -> None:
    env = built.child_environment({"PYTHONHOME": "/x", "VIRTUAL_ENV": "/y", "GLOG_minloglevel": "0", "HOME": "/z"})
    assert "PYTHONHOME" not in env
    assert "VIRTUAL_ENV" not in env
    assert (env["GLOG_minloglevel"], env["HOME"]) == ("0", "/z")
    assert built.child_environment({})["GLOG_minloglevel"] == "2"


def _real() -> OneFlowEnvironment:
    try:
        return oneflow_python()
    except TargetUnavailable as error:
        pytest.skip(str(error))


def test_the_real_one_computes_and_holds_what_is_pinned() -> None:
    environment = _real()
    code = (
        "import importlib.metadata as m, json, sys, oneflow as flow\n"
        "versions = {name: m.version(name) for name in sys.argv[1:]}\n"
        "print(json.dumps([flow.relu(flow.tensor([-1.0, 2.0])).numpy().tolist(), versions]))"
    )
    child = environment.child_environment()
    process = subprocess.run([environment.python, "-c", code, *pins("oneflow")], env=child, stdout=subprocess.PIPE, text=True, check=True)
    values, versions = json.loads(process.stdout)
    assert values == [0.0, 2.0]
    assert versions == dict(pins("oneflow"))


def test_the_requirements_of_the_real_one_are_closed() -> None:
    environment = _real()
    code = (
        "import importlib.metadata as m, json, sys\n"
        "print(json.dumps([[n, r] for n in json.loads(sys.argv[1]) for r in m.requires(n) or [] if 'extra ==' not in r]))"
    )
    names = json.dumps(list(pins("oneflow")))
    process = subprocess.run([environment.python, "-c", code, names], stdout=subprocess.PIPE, text=True, check=True)
    left_out = ("requests", "pillow", "nvidia-")  # never imported; stubbed
    unmet = []
    for package, text in json.loads(process.stdout):
        wanted = Requirement(text)
        if wanted.name.startswith(left_out) or (wanted.marker and not wanted.marker.evaluate({"python_version": "3.10", "extra": ""})):
            continue
        version = pins("oneflow").get(wanted.name.lower())
        if version is None or not wanted.specifier.contains(version):
            unmet.append((package, text, version))
    assert unmet == []


def test_a_child_of_the_real_one_can_map_the_library_without_importing_oneflow() -> None:
    environment = _real()
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print('oneflow' in sys.modules)"
    process = subprocess.run(
        [environment.python, "-c", code, str(environment.internal_library)],
        env=environment.child_environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert process.stdout == "False\n"


def test_importing_this_module_loads_nothing_heavy() -> None:
    code = "import sys, harness.environments.oneflow_env; print(sorted({'torch', 'numpy', 'oneflow', 'click', 'rich'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout == "[]\n"


def test_the_launcher_starts_the_interpreter_with_the_stubs_behind_the_users_own_libraries(tmp_path: Path) -> None:
    python = tmp_path / "fake python"
    python.write_text('#!/bin/sh\necho "$LD_LIBRARY_PATH" "$GLOG_minloglevel" "$1"\n')
    python.chmod(0o755)
    stubs = tmp_path / "stubs"
    environment = OneFlowEnvironment(tmp_path, python, tmp_path / "lib.so", stubs, "3.10.1", {})
    write_launcher(environment)
    clean = {"PATH": os.environ["PATH"]}
    run = subprocess.run([environment.launcher, "a b"], env=clean, capture_output=True, text=True, check=True)
    assert run.stdout == f"{stubs} 2 a b\n"
    run = subprocess.run([environment.launcher, "x"], env={**clean, "LD_LIBRARY_PATH": "/mine"}, capture_output=True, text=True, check=True)
    assert run.stdout == f"/mine:{stubs} 2 x\n"


def test_the_launcher_is_told_to_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    environment = _real()
    assert main(["--launcher"]) == 0
    assert capsys.readouterr().out == f"{environment.launcher}\n"
