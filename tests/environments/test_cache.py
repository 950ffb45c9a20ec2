from __future__ import annotations

from pathlib import Path

import pytest

from harness.environments.cache import cache_dir, environment_dir, outdated
from harness.environments.versions import environment_key


def test_the_setting_then_xdg_then_the_home_folder(tmp_path: Path) -> None:
    home, xdg, setting = (str(tmp_path / name) for name in ("home", "xdg", "setting"))
    assert cache_dir({"HOME": home}) == tmp_path / "home/.cache/fxdiff"
    assert cache_dir({"HOME": home, "XDG_CACHE_HOME": xdg}) == tmp_path / "xdg/fxdiff"
    assert cache_dir({"HOME": home, "XDG_CACHE_HOME": xdg, "FXDIFF_CACHE": setting}) == tmp_path / "setting"


@pytest.mark.parametrize("value", ["", "relative/folder"])
def test_an_empty_or_relative_xdg_cache_home_is_ignored(tmp_path: Path, value: str) -> None:
    assert cache_dir({"HOME": str(tmp_path), "XDG_CACHE_HOME": value}) == tmp_path / ".cache/fxdiff"


def test_a_relative_setting_is_relative_to_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cache_dir({"FXDIFF_CACHE": "here"}) == tmp_path / "here"


def test_folders_of_other_pins_are_told_apart_from_the_current_one(tmp_path: Path) -> None:
    environ = {"FXDIFF_CACHE": str(tmp_path)}
    current = environment_dir("oneflow", environ)
    assert current == tmp_path / f"oneflow-{environment_key('oneflow')}"
    assert outdated("oneflow", environ) == ()
    for name in (current.name, "oneflow-000000000000", "else-1"):
        (tmp_path / name).mkdir()
    (tmp_path / "oneflow-000000000000.lock").touch()
    assert outdated("oneflow", environ) == (tmp_path / "oneflow-000000000000",)
