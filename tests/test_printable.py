from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.markup import escape

from harness.corpus import Corpus
from harness.corpus.entry import Entry
from harness.exporting import export
from harness.printable import PrintableStream, printable, prose
from harness.reporting.escaping import EscapingConsole
from tests.cli.running import fxdiff
from tests.exporting import entries
from tests.exporting.test_hostile import CHANGES

HOSTILE = "\x1b[2J\x1b]0;owned\x07 red\rover \x9b31m \u202etxet\u2028line \x00\x08"
COMMANDS = set("\x1b\x07\r\x9b\u202e\u2028\x00\x08")


def test_what_commands_a_terminal_is_shown() -> None:
    assert printable(HOSTILE) == (r"\x1b[2J\x1b]0;owned\x07 red\x0dover \x9b31m \u202etxet\u2028line \x00\x08")
    assert printable("plain\ttext\nof two lines: größer, 数, [x]") == "plain\ttext\nof two lines: größer, 数, [x]"


@given(st.text())
def test_lines_stay_lines_and_nothing_else_commands(text: str) -> None:
    shown = printable(text)
    assert shown.count("\n") == text.count("\n")
    assert not COMMANDS & set(shown)
    assert printable(shown) == shown


@given(st.text())
def test_prose_is_one_line_without_fences_and_tags(text: str) -> None:
    shown = prose(text)
    assert "\n" not in shown
    assert "```" not in shown
    assert "<!--" not in shown.replace("\\<", "")


@given(st.text())
def test_consoles_and_streams_escape(text: str) -> None:
    out = io.StringIO()
    EscapingConsole(file=out, width=80).print(escape(text), soft_wrap=True)
    PrintableStream(out).write(text)
    assert not COMMANDS & set(out.getvalue())


def test_colours_are_the_consoles_own() -> None:
    out = io.StringIO()
    EscapingConsole(file=out, force_terminal=True, color_system="standard", _environ={}).print("[red]x \x1b[1m[/]", highlight=False)
    assert out.getvalue() == "\x1b[31mx \\x1b[1m\x1b[0m\n"


@pytest.mark.parametrize("place", ["title", "notes", "upstream", "platform", "said", "message", "trigger", "found"])
def test_no_page_holds_them(place: str) -> None:
    for make in (entries.roll, entries.repeat, entries.index_add):
        text = export(CHANGES[place](make(), HOSTILE), "issue").text
        assert not COMMANDS & set(text)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("corpus", "list", "--corpus", "CORPUS"),
        ("corpus", "check", "--corpus", "CORPUS"),
        ("show", "ENTRY"),
        ("export", "ENTRY", "--as", "issue", "--no-run"),
        ("show", "no\x1b[31msuch", "--corpus", "CORPUS"),
        ("fuzz", "--target", "no\x1b[31msuch"),
        ("no\x1b[31msuch",),
    ],
)
def test_no_verb_prints_them(arguments: tuple[str, ...], tmp_path: Path, encoding: str) -> None:
    """Names, titles, messages and paths of a stranger's corpus, on every verb that prints a word of them."""
    corpus = tmp_path / "co\x1b[31mrpus"
    path = Corpus(corpus).add(hostile())
    given = [each.replace("CORPUS", str(corpus)).replace("ENTRY", str(path)) for each in arguments]
    ran = fxdiff(*given, cwd=tmp_path, env={"NO_COLOR": "1", "PYTHONIOENCODING": encoding})
    assert ran.out or ran.err
    assert not COMMANDS & set(ran.out + ran.err), arguments


def test_json_says_them_as_they_are(tmp_path: Path) -> None:
    path = Corpus(tmp_path).add(hostile())
    out = fxdiff("show", str(path), "--json", cwd=tmp_path).out
    assert not COMMANDS & set(out)
    assert json.loads(out)["title"] == HOSTILE


def hostile() -> Entry:
    entry = entries.repeat()
    for place in ("title", "notes", "upstream", "platform", "message", "found"):
        entry = CHANGES[place](entry, HOSTILE)
    return entry
