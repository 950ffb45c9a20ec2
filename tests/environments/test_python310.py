from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from harness.environments import python310
from harness.environments.python310 import search
from tests.environments import fakes


def env(tmp_path: Path, **variables: str) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "bin"), **variables}


def find(tmp_path: Path, **variables: str) -> python310.Search:
    return search(env(tmp_path, **variables), system=())


def test_nothing_anywhere(tmp_path: Path) -> None:
    assert find(tmp_path) == python310.Search(None)


def test_a_shim_that_refuses_is_passed_over_for_pyenvs_own_version(tmp_path: Path) -> None:
    shim = fakes.refusing_shim(tmp_path / "home/.pyenv/shims/python3.10")
    real = fakes.python(tmp_path / "home/.pyenv/versions/3.10.13/bin/python3.10")
    result = find(tmp_path, PATH=str(shim.parent))
    assert result.found is not None
    assert (result.found.path, result.found.version, result.found.source) == (str(real), "3.10.13", "pyenv")
    assert [refusal.path for refusal in result.refused] == [str(shim)]
    assert result.refused[0].reason == "exit code 127: pyenv: python3.10: command not found"


def test_a_real_interpreter_behind_a_refusing_shim_on_path_is_found(tmp_path: Path) -> None:
    fakes.refusing_shim(tmp_path / "shims/python3.10")
    real = fakes.python(tmp_path / "bin/python3.10")
    result = find(tmp_path, PATH=os.pathsep.join([str(tmp_path / "shims"), "", str(tmp_path / "gone"), str(tmp_path / "bin")]))
    assert result.found is not None
    assert (result.found.path, result.found.source) == (str(real), "PATH")


def test_pyenv_root_and_the_shims_folder_on_path_both_lead_to_its_versions(tmp_path: Path) -> None:
    by_root = fakes.python(tmp_path / "a/versions/3.10.4/bin/python3.10", "3.10.4")
    by_path = fakes.python(tmp_path / "b/versions/3.10.5/bin/python3.10", "3.10.5")
    first = find(tmp_path, PYENV_ROOT=str(tmp_path / "a"), PATH=str(tmp_path / "b/shims"))
    second = find(tmp_path, PATH=str(tmp_path / "b/shims"))
    assert first.found is not None
    assert second.found is not None
    assert (first.found.path, second.found.path) == (str(by_root), str(by_path))


def test_the_newest_patch_release_is_taken_by_number_not_by_text(tmp_path: Path) -> None:
    for version in ("3.10.9", "3.10.13", "3.10.2"):
        fakes.python(tmp_path / f"home/.pyenv/versions/{version}/bin/python3.10", version)
    result = find(tmp_path)
    assert result.found is not None
    assert result.found.version == "3.10.13"


@pytest.mark.parametrize(
    ("path", "variables", "source"),
    [
        ("home/.local/share/uv/python/cpython-3.10.16-linux-x86_64-gnu/bin/python3.10", {}, "uv"),
        ("data/uv/python/cpython-3.10.16-linux-x86_64-gnu/bin/python3.10", {"XDG_DATA_HOME": "data"}, "uv"),
        ("uvs/cpython-3.10.16-linux-x86_64-gnu/bin/python3.10", {"UV_PYTHON_INSTALL_DIR": "uvs"}, "uv"),
        ("home/.asdf/installs/python/3.10.16/bin/python3.10", {}, "asdf"),
        ("home/.local/share/mise/installs/python/3.10/bin/python3.10", {}, "mise"),
        ("home/miniconda3/envs/of/bin/python3.10", {}, "conda"),
    ],
)
def test_interpreters_kept_by_version_managers(tmp_path: Path, path: str, variables: dict[str, str], source: str) -> None:
    real = fakes.python(tmp_path / path, "3.10.16")
    result = find(tmp_path, **{name: str(tmp_path / value) for name, value in variables.items()})
    assert result.found is not None
    assert (result.found.path, result.found.source) == (str(real), source)


def test_uv_is_asked_and_told_to_download_nothing(tmp_path: Path) -> None:
    real = fakes.python(tmp_path / "elsewhere/python3.10")
    fakes.script(tmp_path / "bin/uv", f'[ "$UV_PYTHON_DOWNLOADS" = never ] || exit 3\n[ "$1 $2" = "python find" ] && echo {real}')
    result = find(tmp_path)
    assert result.found is not None
    assert (result.found.path, result.found.source) == (str(real), "uv")


def test_a_broken_uv_does_not_end_the_search(tmp_path: Path) -> None:
    fakes.script(tmp_path / "bin/uv", "exit 2")
    real = fakes.python(tmp_path / "system/python3.10")
    result = search(env(tmp_path), system=(str(tmp_path / "sys*"),))
    assert result.found is not None
    assert (result.found.path, result.found.source) == (str(real), "system")


def test_a_plain_python_on_path_may_be_3_10(tmp_path: Path) -> None:
    fakes.python(tmp_path / "bin/python3")
    result = find(tmp_path)
    assert result.found is not None
    assert result.found.source == "PATH"


def test_a_setting_wins_over_everything_and_may_be_a_name_on_path(tmp_path: Path) -> None:
    fakes.python(tmp_path / "bin/python3.10")
    mine = fakes.python(tmp_path / "mine/python")
    for setting in (str(mine), "mypython"):
        fakes.python(tmp_path / "bin/mypython")
        result = find(tmp_path, FXDIFF_PYTHON310=setting)
        assert result.found is not None
        assert result.found.source == "FXDIFF_PYTHON310"


def test_a_setting_that_does_not_work_is_told_and_nothing_else_is_tried(tmp_path: Path) -> None:
    fakes.python(tmp_path / "bin/python3.10")
    result = find(tmp_path, FXDIFF_PYTHON310=str(tmp_path / "nothing"))
    assert result.found is None
    assert [(refusal.source, refusal.reason) for refusal in result.refused] == [("FXDIFF_PYTHON310", "No such file or directory")]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (f"echo '{fakes.facts('3.11.7')}'", "is Python 3.11.7"),
        (f"echo '{fakes.facts(implementation='pypy')}'", "is pypy; OneFlow is built for CPython"),
        (
            f"""echo "{fakes.facts(refusal="No module named 'ensurepip'").replace('"', chr(92) + '"')}\"""",
            "cannot make virtual environments with pip (No module named 'ensurepip'); Debian keeps that in python3.10-venv",
        ),
        ("echo hello", "does not answer as a Python interpreter does"),
        ("echo '[1, 2]'", "does not answer as a Python interpreter does"),
        ("true", "does not answer as a Python interpreter does"),
        ("exit 1", "exit code 1: no message"),
        ("kill -SEGV $$", "exit code -11: no message"),
    ],
)
def test_what_is_not_a_usable_python_3_10_is_refused_with_its_reason(tmp_path: Path, body: str, reason: str) -> None:
    fakes.script(tmp_path / "bin/python3.10", body)
    result = find(tmp_path)
    assert result.found is None
    assert [refusal.reason for refusal in result.refused] == [reason]


def test_one_that_hangs_is_refused_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python310, "_PROBE_SECONDS", 0.2)
    fakes.script(tmp_path / "bin/python3.10", "exec sleep 60")
    result = find(tmp_path, PATH=f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    assert result.refused[0].reason == "did not answer within 0.2 s"


def test_a_file_that_cannot_be_executed_is_no_candidate(tmp_path: Path) -> None:
    fakes.python(tmp_path / "bin/python3.10").chmod(0o644)
    assert find(tmp_path) == python310.Search(None)


def test_two_paths_to_one_file_are_tried_once(tmp_path: Path) -> None:
    shim = fakes.refusing_shim(tmp_path / "bin/python3.10")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/python3.10").symlink_to(shim)
    result = find(tmp_path, PATH=f"{tmp_path / 'bin'}{os.pathsep}{tmp_path / 'other'}")
    assert len(result.refused) == 1


def test_the_interpreter_behind_a_shim_is_what_is_kept(tmp_path: Path) -> None:
    fakes.python(tmp_path / "bin/python3.10", executable=sys.executable)
    result = find(tmp_path)
    assert result.found is not None
    assert result.found.path == sys.executable


def test_a_real_interpreter_of_another_version_is_refused_whatever_our_variables_say(tmp_path: Path) -> None:
    result = search(env(tmp_path, FXDIFF_PYTHON310=sys.executable, PYTHONHOME="/nowhere", PYTHONPATH="/nowhere"), system=())
    if sys.version_info[:2] == (3, 10):
        assert result.found is not None
    else:
        assert result.refused[0].reason.startswith(f"is Python {sys.version_info.major}.{sys.version_info.minor}")
