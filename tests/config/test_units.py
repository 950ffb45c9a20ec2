from __future__ import annotations

import pytest

from harness.config import units


@pytest.mark.parametrize(("text", "value"), [("90", 90.0), ("90s", 90.0), (" 1.5m ", 90.0), ("2h", 7200.0)])
def test_durations(text: str, value: float) -> None:
    assert units.seconds(text) == value


@pytest.mark.parametrize("text", ["", "0", "0s", "-1", "1d", "1e3", "nan", "inf", "9" * 400, "99999h", "１２"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; write"):
        units.seconds(text)


@pytest.mark.parametrize(("text", "value"), [("3072", 3072), ("3072M", 3072), ("3G", 3072), ("1GB", 1024)])
def test_sizes(text: str, value: int) -> None:
    assert units.megabytes(text) == value


@pytest.mark.parametrize("text", ["", "0", "-3G", "3T", "1.5G", "9" * 400])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size; write"):
        units.megabytes(text)


def test_jobs() -> None:
    assert units.jobs("3") == 3
    assert units.jobs("auto") >= 1
    for text in ("0", "-1", "many", "1.5", "9" * 400):
        with pytest.raises(ValueError, match="neither a positive number nor auto"):
            units.jobs(text)
