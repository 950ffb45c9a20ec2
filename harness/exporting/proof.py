"""Whether a script that was run in a clean process showed its entry's bug, and not merely failed."""

from __future__ import annotations

import re

from harness.model.verdict import Kind, Verdict
from harness.reproducers.check import ERROR_KINDS
from harness.reproducers.run import ReproRun

_BROKEN = re.compile(r"^(?:\w+\.)*(?:ImportError|ModuleNotFoundError|SyntaxError|IndentationError|NameError)\b", re.MULTILINE)


def shows_bug(verdict: Verdict, ran: ReproRun) -> bool:
    """Whether a run shows what `verdict` says.

    A repro.py exits 1 and says BUG; a short script ends as the bug has it: by a signal, not at all, or by an exception.
    """
    if ran.shows_the_bug:
        return True
    if verdict.kind is Kind.CRASH:
        return ran.exit_code is not None and ran.exit_code < 0
    if verdict.kind in (Kind.TIMEOUT, Kind.OOM):
        return ran.exit_code is None or (verdict.kind is Kind.OOM and (ran.exit_code < 0 or "MemoryError" in ran.output))
    if ran.exit_code != 1 or _BROKEN.search(ran.output):
        return False
    if verdict.kind in ERROR_KINDS:
        return "Traceback (most recent call last)" in ran.output
    return "AssertionError" in ran.output
