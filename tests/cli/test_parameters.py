from __future__ import annotations

import os

import click
import pytest

from harness.cli.parameters import Duration, Jobs, Megabytes, Range


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Duration(), "90", 90.0),
        (Duration(), "90s", 90.0),
        (Duration(), "30m", 1800.0),
        (Duration(), "2h", 7200.0),
        (Duration(), "0.5s", 0.5),
        (Megabytes(), "3072", 3072),
        (Megabytes(), "3G", 3072),
        (Megabytes(), "512MB", 512),
        (Jobs(), "3", 3),
        (Jobs(), "auto", len(os.sched_getaffinity(0))),
        (Range(), "17", (17, 17)),
        (Range(), "17..42", (17, 42)),
        (Range(), "0..0", (0, 0)),
    ],
)
def test_what_people_write_is_understood(kind: click.ParamType[object], text: str, value: object) -> None:
    assert kind.convert(text, None, None) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *[(Duration(), text) for text in ("", "0", "0s", "-1s", "1d", "1.s", "s", "1 m", "inf", "nan")],
        *[(Megabytes(), text) for text in ("", "0", "-1", "1K", "G", "1.5G")],
        *[(Jobs(), text) for text in ("", "0", "-2", "many", "1.5")],
        *[(Range(), text) for text in ("", "5..2", "..", "1..", "-1..2", "1...2")],
    ],
)
def test_what_makes_no_sense_is_refused_with_its_text(kind: click.ParamType[object], text: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        kind.convert(text, None, None)
    assert repr(text) in str(caught.value)
