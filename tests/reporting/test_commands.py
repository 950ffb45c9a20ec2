from __future__ import annotations

import shlex

import pytest

from harness.reporting.commands import for_cases, without


@pytest.mark.parametrize(
    ("command", "cases", "again"),
    [
        ("fxdiff fuzz --seed 7", (3, 3), "fxdiff fuzz --seed 7 --cases 3"),
        ("fxdiff fuzz --max-cases 5 --seed 7 --time-budget=3m", (0, 9), "fxdiff fuzz --seed 7 --cases 0..9"),
        ("fxdiff fuzz --cases 1..2 --op 'a b' --seed 7", (1, 8), "fxdiff fuzz --op 'a b' --seed 7 --cases 1..8"),
    ],
)
def test_the_command_for_some_cases_keeps_what_decides_them(command: str, cases: tuple[int, int], again: str) -> None:
    assert for_cases(command, *cases) == again


def test_options_go_with_their_values() -> None:
    arguments = shlex.split("fuzz -o out --resume --output=x --seed 1")
    assert without(arguments, ("-o", "--output"), flags=("--resume",)) == ["fuzz", "--seed", "1"]
