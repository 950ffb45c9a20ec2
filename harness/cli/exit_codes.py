"""The exit codes of every verb, in one place; printed by --help and checked by a test."""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """What the process's exit code says."""

    NOTHING_NEW = 0
    NEW_FINDING = 1
    USAGE = 2
    INTERNAL = 3
    TARGET_UNAVAILABLE = 4
    NOTHING_TESTED = 5
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.NOTHING_NEW: "ran, nothing new",
    ExitCode.NEW_FINDING: "at least one new finding, or a corpus entry that no longer behaves as it says",
    ExitCode.USAGE: "the request cannot be carried out as it was made",
    ExitCode.INTERNAL: "a fault of fxdiff itself",
    ExitCode.TARGET_UNAVAILABLE: "a required target cannot run here",
    ExitCode.NOTHING_TESTED: "no case was really tested",
    ExitCode.INTERRUPTED: "interrupted; reports were written",
}


def epilog() -> str:
    """The exit codes as the last paragraph of --help."""
    return "Exit codes: " + "; ".join(f"{code.value} {meaning}" for code, meaning in MEANINGS.items()) + "."
