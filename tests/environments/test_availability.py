from __future__ import annotations

import importlib.util
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from harness.environments.availability import installed, missing, other_version
from harness.environments.versions import pins


def test_whether_torch_is_there_is_told_without_importing_it() -> None:
    code = (
        "import sys; from harness.environments.availability import missing\n"
        "answers = [missing(zygote) for zygote in ('torch', 'torch-mlir', 'oneflow')]\n"
        "print(sorted({'torch', 'torch_mlir', 'oneflow', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout == "[]\n"


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    absent: set[str] = set()
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in absent else find(name))
    return absent


def test_without_torch_both_are_missing_and_the_pinned_one_is_offered(without: set[str]) -> None:
    without.add("torch")
    for zygote in ("torch", "torch-mlir"):
        problem = missing(zygote)
        assert problem is not None
        assert problem.what == f"torch is not installed in {sys.executable}"
        assert problem.mend == f"{shlex.quote(sys.executable)} -m pip install torch=={pins('main')['torch']}"
        assert "reference" in problem.why


def test_without_torch_mlir_only_its_own_targets_are_missing(without: set[str]) -> None:
    without.add("torch_mlir")
    problem = missing("torch-mlir")
    assert problem is not None
    assert problem.what.startswith("torch-mlir is not installed")
    if importlib.util.find_spec("torch") is not None:
        assert missing("torch") is None


def test_an_environment_that_was_not_built_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FXDIFF_CACHE", str(tmp_path))
    problem = missing("oneflow")
    assert problem is not None
    assert "not built" in problem.what
    assert problem.mend == "python -m harness.environments.build"
    assert str(problem.unavailable()) == f"{problem.what}. {problem.why} To mend it: {problem.mend}"


def test_another_platform_has_no_oneflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    problem = missing("oneflow")
    assert problem is not None
    assert "riscv64" in problem.what


def test_of_a_plugins_zygote_nothing_is_known_to_be_missing() -> None:
    assert missing("my-compiler") is None


def test_a_local_part_of_a_version_does_not_make_it_another_one() -> None:
    pinned = pins("main")["torch"]
    assert not other_version("main", "torch", pinned)
    assert not other_version("main", "torch", f"{pinned}+cpu")
    assert other_version("main", "torch", "1.13.1")


def test_the_version_of_an_installed_package() -> None:
    assert installed("pytest") == pytest.__version__
    assert installed("no-such-package-anywhere") is None
