"""Command lines that run again what a run has run, made of the one that it was started with."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

_WHICH_CASES = ("--max-cases", "--time-budget", "--cases", "--max-findings")


def for_cases(command: str, first: int, last: int) -> str:
    """`command` for the cases `first` to `last` and no others."""
    which = str(first) if first == last else f"{first}..{last}"
    return shlex.join([*without(shlex.split(command), _WHICH_CASES), "--cases", which])


def without(arguments: Sequence[str], names: Sequence[str], *, flags: Sequence[str] = ()) -> list[str]:
    """`arguments` without the options `names` and their values, and without `flags`."""
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if skip:
            skip = False
        elif argument in names:
            skip = True
        elif not any(argument.startswith(f"{name}=") for name in names) and argument not in flags:
            kept.append(argument)
    return kept
