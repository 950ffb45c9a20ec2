"""Every page of docs/ that says so is run, so that no command in it can rot.

A page with the comment `<!-- run by tests/docs/test_docs.py -->` is run in a folder of its own, from top to bottom. In it:

* a fenced block whose first line is `# file: NAME` is written to NAME;
* in a ```console block a line `$ COMMAND` is run by the shell, and each line below it must be in what it prints, in order;
  a line `...` stands for anything. `# exit 1` after a command says how it ends, which otherwise is by 0;
* any other block is only read; ```text marks what is not for running;
* `<!-- needs: oneflow torch-mlir -->` skips the page where one of these is not installed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.environments.availability import missing

ROOT = Path(__file__).resolve().parents[2]
MARK = "<!-- run by tests/docs/test_docs.py -->"
PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if MARK in page.read_text(encoding="utf-8")]
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SECONDS = 180
_NEEDS = re.compile(r"<!-- needs: (.*?) -->")


@dataclass(frozen=True)
class Command:
    """One command of a page, and what it says of it."""

    line: str
    exit_code: int
    expected: tuple[str, ...]


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Language and text of every fenced block."""
    for match in _FENCE.finditer(page):
        yield match[1], match[2]


def commands(text: str) -> Iterator[Command]:
    """The commands of a console block."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert not parts[0].strip(), f"output without a command: {parts[0]!r}"
    for part in parts[1:]:
        line, *expected = part.rstrip("\n").split("\n")
        found = re.search(r"\s*# exit (\d+)$", line)
        command = line[: found.start()] if found else line
        yield Command(command, int(found[1]) if found else 0, tuple(item.strip() for item in expected if item.strip() not in ("", "...")))


def run(command: Command, folder: Path) -> None:
    """Run one command as the page shows it."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "160", "NO_COLOR": "1", "FXDIFF_NO_PLUGINS": "1"}
    done = subprocess.run(command.line, shell=True, cwd=folder, env=env, capture_output=True, text=True, timeout=_SECONDS, check=False)
    printed = done.stdout + done.stderr
    assert done.returncode == command.exit_code, f"$ {command.line}\n{printed}"
    at = 0
    for line in command.expected:
        place = printed.find(line, at)
        assert place >= 0, f"$ {command.line}\ndoes not print {line!r} there:\n{printed}"
        at = place + len(line)


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_what_a_page_shows_is_so(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for zygotes in _NEEDS.findall(text):
        for zygote in zygotes.split():
            lack = missing(zygote)
            if lack is not None:
                pytest.skip(f"{page.name} needs {zygote}: {lack.what}")
    for language, block in blocks(text):
        named = re.match(r"# file: (\S+)\n", block)
        if named:
            target = tmp_path / named[1]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block, encoding="utf-8")
        elif language == "console":
            for command in commands(block):
                run(command, tmp_path)


def test_the_runner_reads_commands_as_they_are_meant() -> None:
    text = "$ true\n$ fxdiff check x.py  # exit 2\nfirst\n...\n  last\n"
    assert list(commands(text)) == [Command("true", 0, ()), Command("fxdiff check x.py", 2, ("first", "last"))]


def test_the_runner_notices_a_wrong_exit_code_and_a_missing_line(tmp_path: Path) -> None:
    run(Command("echo one; echo two; exit 3", 3, ("one", "two")), tmp_path)
    with pytest.raises(AssertionError):
        run(Command("exit 1", 0, ()), tmp_path)
    with pytest.raises(AssertionError, match="does not print 'one' there"):
        run(Command("echo one; echo two", 0, ("two", "one")), tmp_path)
