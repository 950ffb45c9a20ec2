from __future__ import annotations

from pathlib import Path

import pytest

from harness.config import Loaded, Settings, find, load
from harness.config.settings import SPECIAL_CLASSES
from harness.config.toml import MAX_BYTES
from harness.errors import FormatError
from oracles import Policy

FULL = """
targets = ["oneflow:lockstep"]
require-targets = ["eager:copy"]
import = ["my_targets"]
profile = "small"
ops = ["conv*"]
exclude-ops = ["conv3d"]
dtypes = ["float32"]
max-nodes = 4
jobs = 2
case-timeout = "2m"
memory-limit = "4G"
corpus = "bugs"
known-issues = "issues.toml"
ignore = ["nan", "inf"]
judge = ["signed-zero"]
[tolerance]
matmul = 64
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def refusal(path: Path) -> str:
    with pytest.raises(FormatError) as caught:
        load(path)
    return str(caught.value)


def test_every_key_is_read_with_its_unit_and_paths_are_the_files_own(tmp_path: Path) -> None:
    path = write(tmp_path / "fxdiff.toml", FULL)
    loaded = load(path)
    assert loaded.settings == Settings(
        targets=("oneflow:lockstep",),
        require_targets=("eager:copy",),
        imports=("my_targets",),
        profile="small",
        ops=("conv*",),
        exclude_ops=("conv3d",),
        dtypes=("float32",),
        max_nodes=4,
        jobs="2",
        case_timeout=120.0,
        memory_limit=4096,
        corpus=tmp_path / "bugs",
        known_issues=tmp_path / "issues.toml",
        ignore=("nan", "inf"),
        judge=("signed-zero",),
        tolerance={"matmul": 64.0},
    )
    assert {source for _, _, source in loaded.rows()} == {str(path)}


def test_what_a_file_does_not_say_is_a_default_and_is_told_as_one(tmp_path: Path) -> None:
    loaded = load(write(tmp_path / "fxdiff.toml", "jobs = 3\n"))
    assert {key: source for key, _, source in loaded.rows() if source != "default"} == {"jobs": str(tmp_path / "fxdiff.toml")}
    assert {key: value for key, value, _ in loaded.rows()}["known-issues"] == Path("corpus/known_issues.toml")
    assert load(None) == Loaded()


def test_the_nearest_file_upward_wins_and_its_own_name_goes_before_pyproject(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert find(inner) is None
    outer = write(tmp_path / "pyproject.toml", "[tool.fxdiff]\njobs = 1\n")
    assert find(inner) == outer
    write(tmp_path / "a" / "pyproject.toml", "[tool.other]\n")
    assert find(inner) == outer, "a pyproject.toml without our table is passed over"
    own = write(tmp_path / "a" / "fxdiff.toml", "")
    write(tmp_path / "a" / "pyproject.toml", "[tool.fxdiff]\n")
    assert find(inner) == own
    assert load(outer).settings.jobs == "1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("target = []", "unknown key 'target': did you mean targets"),
        ("case_timeout = '3s'", "unknown key 'case_timeout': did you mean case-timeout"),
        ("targets = 'oneflow'", "targets is 'oneflow' where a list of texts is needed"),
        ("targets = [1]", "targets is [1] where a list of texts is needed"),
        ("jobs = 'many'", "jobs: 'many' is neither a positive number nor auto"),
        ("jobs = true", "jobs is True where a text or a number is needed"),
        ("max-nodes = 0", "max-nodes is 0 where an integer from 1 to 100 is needed"),
        ("case-timeout = 'soon'", "case-timeout: 'soon' is not a duration"),
        ("case-timeout = inf", "case-timeout: 'inf' is not a duration"),
        ("memory-limit = -1", "memory-limit: '-1' is not a size"),
        ("ignore = ['nam']", "ignore: unknown special-value class 'nam': did you mean nan"),
        ("ignore = ['nan']\njudge = ['nan']", "nan is both in ignore and in judge"),
        ("tolerance = 3", "tolerance is 3 where a table of numbers is needed"),
        ("[tolerance]\nmatmul = nan", "tolerance.matmul is nan where a number above 0 is needed"),
        ("[tolerance]\nmatmul = 0", "tolerance.matmul is 0 where a number above 0 is needed"),
        ("jobs = \ncorpus = 1", "not TOML: Invalid value (at line 1, column 8)"),
        (".".join("a" * 50_000) + " = 1", "line 1: a key of more than 64 parts"),
        ("[" + " . ".join("a" * 50_000) + "]", "line 1: a key of more than 64 parts"),
        (".".join(["'a.b'", '"c"'] * 20_000) + " = 1", "line 1: a key of more than 64 parts"),
        ("x = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("jobs = " + "9" * 10_000, "not TOML"),
        ("corpus = 'a\x00b'", "not TOML"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path / "fxdiff.toml", text)
    message = refusal(path)
    assert message.startswith(str(path))
    assert said in message


def test_a_file_that_no_person_wrote_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "fxdiff.toml"
    path.write_bytes(b"\xff\xfe")
    assert "not UTF-8 at byte 0" in refusal(path)
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    assert "more than 1 MB" in refusal(path)
    path.unlink()
    path.mkdir()
    assert "is a folder where a file is needed" in refusal(path)
    with pytest.raises(FormatError, match="is a folder where a file is needed: rename it"):
        find(tmp_path)


def test_texts_and_lists_may_hold_as_many_dots_as_they_like(tmp_path: Path) -> None:
    path = write(tmp_path / "pyproject.toml", f"x = '{'.' * 500}'\ny = [{'1.5, ' * 500}]\n[tool.fxdiff]\njobs = 2\n")
    assert load(path).settings.jobs == "2"


def test_a_table_that_is_none_is_named_as_it_stands_in_pyproject(tmp_path: Path) -> None:
    path = write(tmp_path / "pyproject.toml", "[tool]\nfxdiff = 3\n")
    assert find(tmp_path) == path
    assert refusal(path) == f"{path}: [tool.fxdiff]: is 3 where a table is needed"


def test_the_special_classes_are_those_that_the_oracles_switch() -> None:
    assert {name.replace("-", "_") for name in SPECIAL_CLASSES} == {
        name for name in Policy.__dataclass_fields__ if name not in ("tolerance", "ignored")
    }
