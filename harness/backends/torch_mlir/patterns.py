"""The guilty pattern inside a pass: bisected over how many patterns torch-mlir-opt may apply.

MLIR's debug counter `apply-pattern` stops a greedy rewrite after so many attempts, and `--log-actions-to` names them in order;
this build refuses the two together, so the log comes from a run of its own.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch_mlir._mlir_libs

from harness.backends.torch_mlir.pipelines import module_pipeline

OPT = Path(torch_mlir._mlir_libs.__path__[0]) / "torch-mlir-opt"
SECONDS = 10.0
AGAIN = 2  # how often the answer is asked for again
_ACTION = re.compile(r"begins .*?Action `apply-pattern pattern: (?P<name>.*?) \((?P<op>.*)\)`\n")
_NAMESPACE = re.compile(r"(?:\w+|\{anonymous\}|\(anonymous namespace\))::")


@dataclass(frozen=True, slots=True)
class Pattern:
    """One application of a pattern: its name without namespaces, the operation, and its place in the order of attempts."""

    name: str
    op: str
    number: int


@dataclass(frozen=True, slots=True)
class Applied:
    """What the pass leaves after so many patterns: the IR, empty where it fails, and what it says."""

    text: str
    said: str
    failed: bool


def attempts(source: str, pass_text: str) -> tuple[Pattern, ...]:
    """Every pattern that the pass tries, in order."""
    with tempfile.NamedTemporaryFile("r", prefix="fxdiff-actions-", suffix=".log") as log:
        _opt(source, pass_text, f"--log-actions-to={log.name}")
        found = _ACTION.finditer(log.read())
        return tuple(Pattern(_NAMESPACE.sub("", match["name"]), match["op"][:200], number) for number, match in enumerate(found, 1))


def applied(source: str, pass_text: str, count: int) -> Applied:
    """The pass over `source`, allowed `count` patterns."""
    ran = _opt(source, pass_text, f"--mlir-debug-counter=apply-pattern-skip=0,apply-pattern-count={count}", "--mlir-print-debuginfo")
    return Applied(ran.stdout if ran.returncode == 0 else "", ran.stderr, ran.returncode != 0)


def guilty_pattern(source: str, pass_text: str, is_wrong: Callable[[Applied], bool]) -> Pattern | None:
    """The pattern whose application makes what the pass leaves wrong.

    None where it is wrong before the first one, as by folding or in a pass without patterns, right after the last, or
    not the same whenever it is run, as where memory is read that nobody wrote.
    """
    tried = attempts(source, pass_text)

    def wrong_after(count: int) -> bool:
        return is_wrong(applied(source, pass_text, count))

    if not tried or wrong_after(0) or not wrong_after(len(tried)):
        return None
    right, wrong = 0, len(tried)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if wrong_after(middle):
            wrong = middle
        else:
            right = middle
    steady = all(wrong_after(wrong) and not wrong_after(right) for _ in range(AGAIN))
    return tried[wrong - 1] if steady else None


def _opt(source: str, pass_text: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(OPT), f"-pass-pipeline={module_pipeline(pass_text)}", "--mlir-disable-threading", *options]
    try:
        return subprocess.run(command, input=source, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no end after {SECONDS} s")
