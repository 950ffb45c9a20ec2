from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.cli.corpus import corpus_command
from harness.cli.exit_codes import ExitCode
from harness.corpus import Corpus
from harness.corpus.entry import FIXED, read
from harness.errors import UnknownName
from tests.doubles.entries import entry

STILL, FIXED_ONE = entry("still", "wrong:value"), entry("mended", "wrong:nothing", status=FIXED)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    made = Corpus(tmp_path / "corpus")
    for each in (STILL, FIXED_ONE):
        made.add(each)
    return made


def run(verb: str, *arguments: object, corpus: Corpus) -> Result:
    return CliRunner().invoke(
        corpus_command,
        [verb, *map(str, arguments), "--corpus", str(corpus.root)],
        standalone_mode=False,
        catch_exceptions=False,
    )


def test_list_names_every_entry_for_people_and_for_programs(corpus: Corpus) -> None:
    text = run("list", corpus=corpus)
    assert text.return_value == 0 and "open" in text.output and "fixed" in text.output
    listed = json.loads(run("list", "--json", corpus=corpus).output)
    assert {each["entry"]: each["status"] for each in listed} == {STILL.slug: "open", FIXED_ONE.slug: "fixed"}
    assert {"id", "severity", "target", "kind", "operator", "trigger", "title", "upstream", "path"} <= listed[0].keys()


def test_an_empty_corpus_is_said_to_be_empty(tmp_path: Path) -> None:
    assert "no entries" in run("list", corpus=Corpus(tmp_path / "none")).output


def test_show_tells_the_whole_story(corpus: Corpus) -> None:
    shown = run("show", STILL.id[:5], corpus=corpus).output
    for said in (STILL.slug, "eager 0.0, wrong 1.0", "torch.sin(x)", "https://example.org/issues/7", "fxdiff replay"):
        assert said in shown
    assert json.loads(run("show", STILL.slug, "--json", corpus=corpus).output)["entry"] == STILL.slug
    with pytest.raises(UnknownName, match="did you mean"):
        run("show", STILL.slug[:-1] + "z", corpus=corpus)


def test_add_copies_findings_and_leaves_those_that_are_there(corpus: Corpus, tmp_path: Path) -> None:
    other = Corpus(tmp_path / "findings").add(entry("other", "wrong:value"))
    result = run("add", other, corpus.root / STILL.slug, corpus=corpus)
    assert "added: " in result.output and f"there already: {STILL.slug}" in result.output
    assert len(corpus.paths()) == 3
    assert dataclasses.replace(read(corpus.root / other.name), path=None) == dataclasses.replace(read(other), path=None)


def test_check_names_what_is_broken(corpus: Corpus) -> None:
    assert run("check", corpus=corpus).return_value == 0
    (corpus.root / STILL.slug / "case.json").write_text("{}")
    result = run("check", corpus=corpus)
    assert result.return_value == ExitCode.USAGE
    assert "broken: " in result.output and "case.json" in result.output and "2 entries, 1 broken" in result.output


def test_prune_takes_the_fixed_ones_only(corpus: Corpus) -> None:
    dry = run("prune", "--dry-run", corpus=corpus)
    assert "would remove" in dry.output and len(corpus.paths()) == 2
    assert "removed: " in run("prune", corpus=corpus).output
    assert [path.name for path in corpus.paths()] == [STILL.slug]
