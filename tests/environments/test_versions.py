from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest
import tomllib

from harness.environments import versions
from harness.environments.versions import environment_key, pins, requirement, requirements_file
from harness.errors import HarnessError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def requirements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(versions, "_REQUIREMENTS", tmp_path)
    pins.cache_clear()
    return tmp_path


@pytest.fixture(autouse=True)
def _fresh_pins() -> object:
    yield
    pins.cache_clear()


def test_the_systems_under_test_are_pinned() -> None:
    assert set(pins("main")) == {"torch", "torch-mlir"}
    assert {"oneflow", "onefx", "numpy", "msgspec"} <= set(pins("oneflow"))
    assert int(pins("oneflow")["numpy"].partition(".")[0]) < 2  # oneflow is built against numpy 1's binary interface
    assert requirement("main", "torch") == f"torch=={pins('main')['torch']}"


def test_no_other_file_says_which_version_it_is() -> None:
    packages = "|".join([*pins("main"), "oneflow", "onefx"])
    pinned = re.compile(rf"(?<![\w-])({packages})\s*(==|~=|<=|>=|<|>)\s*\d")
    files = [*(ROOT / name for name in ("pyproject.toml", "tox.ini", ".ci/run")), *sorted((ROOT / "harness").rglob("*.py"))]
    offenders = [str(path.relative_to(ROOT)) for path in files if pinned.search(path.read_text(encoding="utf-8"))]
    assert offenders == []


def test_tox_and_the_package_read_the_same_file() -> None:
    tox = configparser.ConfigParser()
    tox.read(ROOT / "tox.ini")
    file = requirements_file("main").relative_to(ROOT)
    assert f"-r {{tox_root}}/{file}" in tox["testenv"]["deps"].split("\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["setuptools"]["dynamic"]["optional-dependencies"]["targets"]["file"] == [str(file)]


@pytest.mark.parametrize("line", ["torch", "torch>=2", "torch==", "torch==1\ntorch==2", "-r other.txt"])
def test_a_line_that_pins_nothing_is_an_error(requirements: Path, line: str) -> None:
    (requirements / "main.txt").write_text(f"# a comment\n\n{line}\n")
    with pytest.raises(HarnessError, match="does not pin one version"):
        pins("main")


def test_the_key_changes_with_a_pin_and_not_with_a_comment(requirements: Path) -> None:
    keys = []
    for text in ("a==1\nb==2\n", "# why\nb==2\na==1 # said\n", "a==1\nb==3\n"):
        (requirements / "oneflow.txt").write_text(text)
        pins.cache_clear()
        keys.append(environment_key("oneflow"))
    assert keys[0] == keys[1] != keys[2]
    assert re.fullmatch(r"[0-9a-f]{12}", keys[0])
