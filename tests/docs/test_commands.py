"""What README and docs say of the command line exists: every verb, every option."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import click
import pytest

from harness.cli.main import _VERBS

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])
_INLINE = re.compile(r"`(fxdiff [^`\n]+)`")
_SHELL = re.compile(r"^(?:\$ |    )(fxdiff .*)$", re.MULTILINE)


def mentions(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return [*_INLINE.findall(text), *(line.split("  #")[0].split(" | ")[0] for line in _SHELL.findall(text))]


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """The innermost command that words name, and the words that are left."""
    module, attribute, _ = _VERBS[words[0]]
    command: click.Command = getattr(importlib.import_module(module), attribute)
    rest = words[1:]
    while isinstance(command, click.Group) and rest and rest[0] in command.commands:
        command, rest = command.commands[rest[0]], rest[1:]
    return command, rest


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_every_command_that_is_mentioned_exists(page: Path) -> None:
    for mention in mentions(page):
        words = shlex.split(mention)[1:]
        if words[0].startswith("-") or not words[0].isalpha() or words[0].isupper():
            continue
        assert words[0] in _VERBS, f"{page.name}: {mention}"
        command, rest = command_of(words)
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)} | {"--help", "-h"}
        for word in rest:
            if word.startswith("--"):
                assert word.partition("=")[0] in known, f"{page.name}: {mention}"


def test_the_readme_mentions_every_verb_that_a_newcomer_needs() -> None:
    named = {shlex.split(mention)[1] for mention in mentions(ROOT / "README.md")}
    assert {"fuzz", "check", "show", "export", "doctor"} <= named
