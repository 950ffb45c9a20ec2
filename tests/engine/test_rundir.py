from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.engine.rundir import RunDirectory
from harness.errors import UsageError


def test_a_folder_is_claimed_by_one_run_at_a_time(tmp_path: Path) -> None:
    first = RunDirectory(tmp_path / "a" / "b")
    with pytest.raises(UsageError, match="in use by another fxdiff run"):
        RunDirectory(tmp_path / "a" / "b")
    first.close()
    RunDirectory(tmp_path / "a" / "b").close()


def test_an_earlier_run_is_not_written_over(tmp_path: Path) -> None:
    first = RunDirectory(tmp_path)
    first.log.write_text("something\n")
    first.close()
    with pytest.raises(UsageError, match="--resume"):
        RunDirectory(tmp_path)
    resumed = RunDirectory(tmp_path, resume=True)
    with pytest.raises(UsageError, match="in use"):
        RunDirectory(tmp_path, resume=True)
    resumed.close()


def test_the_summary_is_replaced_as_a_whole(tmp_path: Path) -> None:
    folder = RunDirectory(tmp_path)
    for number in range(3):
        folder.write_summary(json.dumps({"number": number}))
        assert json.loads(folder.summary.read_text()) == {"number": number}
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [".lock", "summary.json"]
    folder.close()


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nothing")):
        with pytest.raises(UsageError, match="--output") as caught:
            RunDirectory(place)
        assert str(place) in str(caught.value)
