from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project that shares its environment as fxdiff does, with nothing to install."""
    shutil.copy(ROOT / "toxfile.py", tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "p"\nversion = "1"\ndependencies = []\n')
    (tmp_path / "tox.ini").write_text(
        "[testenv]\nrunner = shared\nenv_dir = {work_dir}/one\npackage = skip\n"
        'commands = python -c "import sys; print(sys.prefix)"\n'
        "[testenv:a]\n[testenv:b]\n"
    )
    return tmp_path


def tox(project: Path, environment: str) -> str:
    # A tox that runs these tests sets variables of its own, which would send this one to its folder.
    env = {name: value for name, value in os.environ.items() if not name.startswith("TOX_")}
    command = [sys.executable, "-m", "tox", "run", "-e", environment]
    process = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def test_environments_share_one_folder_and_do_not_make_it_anew_for_each_other(project: Path) -> None:
    folder = project / ".tox/one"
    assert str(folder) in tox(project, "a")
    (folder / "mark").touch()
    assert str(folder) in tox(project, "b")
    assert "remove tox env folder" not in tox(project, "a")
    assert (folder / "mark").exists()


def test_the_folder_is_made_anew_when_the_project_asks_for_something_else_and_only_then(project: Path) -> None:
    tox(project, "a")
    mark = project / ".tox/one/mark"
    mark.touch()
    settings = (project / "pyproject.toml").read_text()
    (project / "pyproject.toml").write_text(settings + "\n[tool.ruff]\nline-length = 100\n")
    tox(project, "b")
    assert mark.exists()
    (project / "pyproject.toml").write_text(settings.replace("[]", '["click"]'))
    tox(project, "b")
    assert not mark.exists()
