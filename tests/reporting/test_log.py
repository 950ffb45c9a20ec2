from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import events
from harness.errors import FormatError, UsageError
from harness.reporting.log import LogWriter, read_log
from tests.reporting.telling import RUN


def written(path: Path, *told: events.Event) -> Path:
    log = LogWriter(path)
    for event in told:
        log(event)
    log.close()
    return path


def test_a_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = written(tmp_path / "log", *RUN)
    assert tuple(read_log(path)) == RUN
    lines = path.read_text().splitlines()
    assert len(lines) == len(RUN) + 1 and all("event" in json.loads(line) for line in lines)


def test_a_log_is_gone_on_with(tmp_path: Path) -> None:
    path = written(tmp_path / "log", *RUN[:3])
    written(path, *RUN[3:])
    assert tuple(read_log(path)) == RUN


def test_every_event_is_on_disk_as_soon_as_it_is_told(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log")
    for count, event in enumerate(RUN, start=1):
        log(event)
        assert len(list(read_log(tmp_path / "log"))) == count
    log.close()


def test_a_line_that_was_cut_short_is_left_out_and_written_over_by_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "log", *RUN)
    data = path.read_bytes()
    for cut in range(1, 120):
        path.write_bytes(data[:-cut])
        assert tuple(read_log(path)) == RUN[:-1]
    written(path, RUN[0])
    assert tuple(read_log(path)) == (*RUN[:-1], RUN[0])


def test_a_header_that_was_cut_short_is_written_again(tmp_path: Path) -> None:
    (tmp_path / "log").write_text('{"event":"Lo')
    assert tuple(read_log(written(tmp_path / "log", *RUN))) == RUN


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not an fxdiff event log"),
        ('{"event":"CaseStarted","index":1}\n', "not an fxdiff event log"),
        ('{"event":"Log","format_version":9}\n', "format version 9"),
        ('{"event":"Log","format_version":1}\n{"event":"Nothing"}\n', ":2"),
        ('{"event":"Log","format_version":1}\n{"event":\n', ":2"),
        ('{"event":"Log","format_version":1}\n{"event":"CaseStarted","index":"x"}\n', ":2"),
        ('{"event":"Log","format_version":1}\n[]\n', ":2"),
    ],
)
def test_what_is_no_log_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "log").write_text(text)
    with pytest.raises(FormatError, match=said):
        list(read_log(tmp_path / "log"))


def test_a_log_that_cannot_be_opened_is_the_users_to_mend(tmp_path: Path) -> None:
    for act in (lambda: LogWriter(tmp_path), lambda: list(read_log(tmp_path / "none"))):
        with pytest.raises(UsageError, match="event log"):
            act()


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with pytest.raises(UsageError, match="No space left"):
        LogWriter(Path("/dev/full"))
