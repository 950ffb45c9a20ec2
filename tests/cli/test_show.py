from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from harness.cli.corpus import corpus_command, issue_url
from harness.cli.export import export_command
from harness.cli.locating import Bare, locate, locate_entry
from harness.cli.show import show_command
from harness.corpus import Corpus
from harness.corpus.entry import read
from harness.corpus.files import pack_case
from harness.errors import FormatError, UnknownName, UsageError
from tests.exporting import entries

ROLL, SORT = entries.roll(), entries.sort()


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    Corpus(tmp_path / "corpus").add(ROLL)
    return tmp_path / "corpus"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two earlier runs; the later one's finding is unproven."""
    Corpus(tmp_path / "fxdiff-out" / "20260101-000000" / "findings").add(SORT)
    Corpus(tmp_path / "fxdiff-out" / "20260102-000000" / "unproven").add(entries.norm())
    return tmp_path / "fxdiff-out"


def run(verb: click.Command, *arguments: object) -> Result:
    return CliRunner().invoke(verb, list(map(str, arguments)), standalone_mode=False, catch_exceptions=False)


def test_show_says_what_where_and_how(corpus: Path) -> None:
    shown = run(show_command, ROLL.id[:4], "--corpus", corpus).output
    for said in (
        "worst at [0, 1]: eager 1.0, torch-mlir:linalg 0.0",
        "return torch.roll(x, (0, -6), (0, 1))",
        "expected (eager)        |  actual (torch-mlir:linalg)\n",
        "[0.0, 1.0*, 0.0, 0.0*]  |  [0.0, 0.0*, 0.0, 1.0*]\n",
        "node:      roll_1 (torch.roll)\n",
        "needs:     shifts=negative\n",
        "in 2 of 3 fresh processes",
        "seed 7, case 12, minimized from 9 operators to 1",
        f"fxdiff replay {corpus / ROLL.slug}\n",
        f"fxdiff export {corpus / ROLL.slug} --as issue\n",
    ):
        assert said in shown, shown


def test_show_as_json_says_the_same(corpus: Path) -> None:
    told = json.loads(run(show_command, ROLL.slug, "--corpus", corpus, "--json").output)
    assert told["expected"] == ["float32 [1, 4]", "[0.0, 1.0*, 0.0, 0.0*]"]
    assert told["worst"] == [0, 1]
    assert told["node"] == "roll_1"
    assert told["commands"]["run it"] == f"fxdiff replay {corpus / ROLL.slug}"
    assert told.keys() >= {"entry", "message", "program", "actual", "versions", "trigger", "upstream"}


@pytest.mark.parametrize("make", entries.ALL)
def test_every_kind_can_be_shown(make: entries.Make, tmp_path: Path) -> None:
    path = Corpus(tmp_path).add(make())
    shown = run(show_command, path).output
    assert "expected (eager)" in shown
    assert "actual (" in shown


def test_an_entry_goes_by_folder_file_name_and_beginning_of_its_id(corpus: Path, runs: Path) -> None:
    folder = corpus / ROLL.slug
    for text in (folder, folder / "repro.py", folder / "case.json", folder / "evidence" / "observed.json", ROLL.slug, ROLL.id[:5]):
        found = locate(str(text), corpus, runs=runs)
        assert not isinstance(found, Bare)
        assert found.path == folder


def test_findings_of_earlier_runs_go_by_name_too(corpus: Path, runs: Path) -> None:
    found = locate_entry(SORT.slug, corpus, runs=runs)
    assert found.path == runs / "20260101-000000" / "findings" / SORT.slug
    assert locate_entry(entries.norm().id[:6], corpus, runs=runs).signature == entries.norm().signature
    assert locate_entry(str(runs / "20260101-000000"), corpus, runs=runs).slug == SORT.slug


def test_what_is_named_wrongly_is_answered_with_the_nearest_name(corpus: Path, runs: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=f"did you mean.*{SORT.slug}"):
        locate(SORT.slug[:-2] + "zz", corpus, runs=runs)
    with pytest.raises(UsageError, match="there are no entries"):
        locate("deadbeef", tmp_path / "none", runs=tmp_path / "none")
    with pytest.raises(UsageError, match="neither a corpus entry nor a finding"):
        locate(str(tmp_path), corpus, runs=runs)
    Corpus(corpus).add(SORT)
    with pytest.raises(UsageError, match="holds 2 findings; name one of them: oneflow-sort"):
        locate(str(corpus), corpus, runs=runs)


def test_a_case_file_without_an_entry_is_a_bare_case(corpus: Path, tmp_path: Path) -> None:
    path = tmp_path / "elsewhere" / "case.json"
    path.parent.mkdir()
    path.write_bytes(pack_case(ROLL.case))
    found = locate(str(path), corpus)
    assert isinstance(found, Bare)
    assert found.case.program == ROLL.case.program
    assert "torch.roll(x, (0, -6), (0, 1))" in run(show_command, path).output
    with pytest.raises(UsageError, match="a case without an entry"):
        locate_entry(str(path), corpus)
    path.write_text("{}")
    with pytest.raises(FormatError, match=r"case\.json"):
        locate(str(path), corpus)


def test_link_is_kept_shown_and_taken_away(corpus: Path) -> None:
    run(corpus_command, "link", ROLL.id, "llvm/torch-mlir#4242", "--corpus", corpus)
    link = "https://github.com/llvm/torch-mlir/issues/4242"
    assert read(corpus / ROLL.slug).upstream == link
    assert f"upstream:  {link}\n" in run(show_command, ROLL.slug, "--corpus", corpus).output
    run(corpus_command, "link", ROLL.id, "--remove", "--corpus", corpus)
    assert read(corpus / ROLL.slug).upstream == ""
    assert "not reported" in run(show_command, ROLL.slug, "--corpus", corpus).output


def test_a_link_is_a_link() -> None:
    assert issue_url("https://example.org/42") == "https://example.org/42"
    for wrong in ("42", "javascript:alert(1)", "https://", "a b#1"):
        with pytest.raises(UsageError, match="is no link"):
            issue_url(wrong)
    with pytest.raises(UsageError, match="give a URL, or --remove"):
        run(corpus_command, "link", "x")


def test_export_writes_a_file_or_to_standard_output(corpus: Path, tmp_path: Path) -> None:
    text = run(export_command, ROLL.slug, "--as", "issue", "--no-run", "--corpus", corpus).output
    assert text.startswith("# roll: wrong result")
    path = tmp_path / "issue.md"
    run(export_command, ROLL.slug, "--as", "issue", "--no-run", "--corpus", corpus, "-o", path)
    assert path.read_text(encoding="utf-8") == text
    with pytest.raises(UsageError, match="cannot write"):
        run(export_command, ROLL.slug, "--as", "issue", "--no-run", "--corpus", corpus, "-o", tmp_path / "no" / "issue.md")


def test_a_target_of_somebody_elses_is_exported_once_its_module_is_named(tmp_path: Path) -> None:
    from tests.doubles.entries import entry as wrong

    entry = dataclasses.replace(wrong("a", "stranger:value"), repro="try:\n    from harness.x import y\n")
    path = Corpus(tmp_path / "corpus").add(entry)
    with pytest.raises(UsageError, match="the module that registers stranger:value is named by --import"):
        run(export_command, path, "--as", "issue", "--no-run")
    (tmp_path / "stranger_target.py").write_text(
        "from harness.backends.protocol import TargetSpec, register\n"
        "register(TargetSpec('stranger:value', 'nowhere:Nothing', 'x', family='wrong'))\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        text = run(export_command, path, "--as", "issue", "--no-run", "--import", "stranger_target").output
    assert "No script that imports stranger:value alone shows it." in text
