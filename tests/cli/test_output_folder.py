"""The folder that a run takes when none is named."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from harness.cli.fuzz import _default_output


def test_a_clock_that_was_set_back_meets_no_earlier_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "strftime", lambda form: "20200101-000000")
    taken = []
    for _ in range(3):
        folder = _default_output(7)
        folder.mkdir(parents=True)
        taken.append(folder.name)
    assert taken == ["20200101-000000-seed7", "20200101-000000-seed7-2", "20200101-000000-seed7-3"]


def test_durations_are_never_read_off_the_calendars_clock() -> None:
    root = Path(__file__).resolve().parents[2]
    sources = [*(root / "harness").rglob("*.py"), *(root / "generators").rglob("*.py"), *(root / "oracles").rglob("*.py")]
    assert len(sources) > 100
    assert [str(path) for path in sources if "time.time()" in path.read_text(encoding="utf-8")] == []
