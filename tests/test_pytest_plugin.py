from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib

from harness.corpus import Corpus, Entry
from harness.corpus.entry import FIXED
from tests.doubles.entries import entry

ROOT = Path(__file__).resolve().parents[1]
IMPORTS = ("--fxdiff-import", "tests.doubles.wrong", "--fxdiff-import", "tests.doubles.broken")


# The operator that an entry pretends to be of: the entry, and what pytest is to say of it.
ENTRIES: dict[str, tuple[Entry, str]] = {
    "still": (entry("still", "wrong:value"), "XFAIL"),
    "mended": (entry("mended", "wrong:nothing"), "FAILED"),
    "older": (entry("older", "wrong:nothing", torch="1.0"), "XPASS"),
    "refuses": (entry("refuses", "wrong:refuse"), "SKIPPED"),
    "othervalues": (entry("othervalues", "wrong:value", stored=0.5), "FAILED"),
    "nobodyknows": (entry("nobodyknows", "wrong:harness"), "FAILED"),
    "otherkind": (entry("otherkind", "wrong:dtype"), "FAILED"),
    "fixed": (entry("fixed", "wrong:nothing", status=FIXED), "PASSED"),
    "regressed": (entry("regressed", "wrong:value", status=FIXED), "FAILED"),
    "noimport": (entry("noimport", "broken:WarmFails"), "FAILED"),
    "absent": (entry("absent", "oneflow:lockstep"), "SKIPPED"),
    "notarget": (entry("notarget", "no:such"), "FAILED"),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugin") / "corpus"
    for made, _ in ENTRIES.values():
        Corpus(folder).add(made)
    return folder


def run_pytest(folder: Path, *arguments: str) -> tuple[int, str]:
    """pytest in a clean process and folder, where OneFlow's environment was never built."""
    cache = folder.parent / "cache"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache), "FXDIFF_CACHE": str(cache), "COLUMNS": "300"}
    env.pop("PYTEST_ADDOPTS", None)
    (folder.parent / "pytest.ini").write_text("[pytest]\n")
    place = [str(folder)] if not any(each.endswith(".py") for each in arguments) else []
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "--fxdiff-corpus", str(folder), *IMPORTS, "-rA", "-vv", *place, *arguments],
        cwd=folder.parent,
        env=env,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return process.returncode, process.stdout + process.stderr


@pytest.fixture(scope="module")
def replayed(corpus: Path) -> str:
    code, text = run_pytest(corpus)
    assert code == 1, text
    return text


def results(text: str) -> dict[str, str]:
    """What pytest said of each entry, by the operator that it pretends to be of."""
    found = re.findall(
        r"^(?:\[gw\d\] \[[ \d]+%\] )?(PASSED|FAILED|XFAIL|XPASS|SKIPPED|ERROR)?.*::wrong-(\w+)-value-[^\s]*\[[^\]]*\] ?(\w*)", text, re.M
    )
    said = {
        name: before or after
        for before, name, after in found
        if (before or after) in ("PASSED", "FAILED", "XFAIL", "XPASS", "SKIPPED", "ERROR")
    }
    return said


def test_the_plugin_is_installed_with_fxdiff() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert declared == {"fxdiff": "harness.pytest_plugin"}
    assert [point.value for point in importlib.metadata.entry_points(group="pytest11", name="fxdiff")] == ["harness.pytest_plugin"]


def test_every_entry_comes_out_as_it_should(replayed: str) -> None:
    assert results(replayed) == {name: expected for name, (_, expected) in ENTRIES.items()}


def section(text: str, name: str) -> str:
    """What the failures' section says of one entry."""
    match = re.search(rf"^_+ wrong-{name}-value.*?(?=^_{{3,}} |^=+ )", text, re.M | re.S)
    assert match is not None, text
    return match[0]


def test_a_mended_bug_fails_with_the_command_that_updates_the_entry(replayed: str) -> None:
    said = section(replayed, "mended")
    slug = ENTRIES["mended"][0].slug
    assert "XPASS(strict)" in said and f"fxdiff corpus update {slug}" in said and "https://example.org/issues/7" in said


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("othervalues", "ReferenceChanged: .*eager gives other values than stored"),
        ("nobodyknows", "FxdiffError: .*CANNOT RUN.*wrong on purpose"),
        ("otherkind", "Changed: .*was value, is dtype"),
        ("regressed", "StillFails: .*STILL FAILS"),
        ("noimport", "no library on purpose"),
        ("notarget", "unknown target 'no:such'"),
    ],
)
def test_a_failure_says_what_it_is_and_never_xfails(replayed: str, name: str, expected: str) -> None:
    said = section(replayed, name)
    assert re.search(expected, said, re.S), said
    assert "Traceback" not in said or name == "noimport"  # whose own library says where it failed


def test_a_failure_says_how_to_run_the_entry_alone(replayed: str, corpus: Path) -> None:
    slug = ENTRIES["regressed"][0].slug
    assert f"run it alone: fxdiff replay {corpus / slug}" in section(replayed, "regressed")


def test_skips_have_their_reasons(replayed: str) -> None:
    skipped = " ".join(line for line in replayed.splitlines() if line.startswith("SKIPPED"))
    assert "oneflow:lockstep cannot run here" in skipped
    assert "inconclusive: wrong:refuse now refuses" in skipped


def test_a_required_target_fails_where_it_is_missing(corpus: Path) -> None:
    code, text = run_pytest(corpus, "--fxdiff-target", "oneflow:lockstep", "--fxdiff-require-target", "oneflow:lockstep")
    assert code == 1
    assert results(text) == {"absent": "FAILED"}
    assert "TargetUnavailable" in section(text, "absent")


def test_the_same_under_xdist(corpus: Path) -> None:
    code, text = run_pytest(corpus, "-n", "2")
    assert code == 1
    assert results(text) == {name: expected for name, (_, expected) in ENTRIES.items()}


def test_a_broken_entry_is_one_clear_collection_error(tmp_path: Path) -> None:
    path = Corpus(tmp_path / "corpus").add(entry("broken", "wrong:value"))
    (path / "case.json").write_text("{")
    code, text = run_pytest(tmp_path / "corpus")
    assert code == 2
    assert "case.json: changed since fxdiff wrote it" in text and "Traceback" not in text


def test_an_entry_of_a_later_fxdiff_is_refused_by_name(tmp_path: Path) -> None:
    path = Corpus(tmp_path / "corpus").add(entry("later", "wrong:value"))
    toml = path / "entry.toml"
    toml.write_text(toml.read_text().replace("format_version = 1", "format_version = 99"))
    code, text = run_pytest(tmp_path / "corpus")
    assert code == 2 and "later fxdiff" in text


def test_a_corpus_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    code, text = run_pytest(tmp_path / "corpus", "--co")
    assert code == 4 and "there is no such folder" in text


def test_without_its_option_the_plugin_does_nothing(tmp_path: Path, corpus: Path) -> None:
    (tmp_path / "test_nothing.py").write_text("import sys\ndef test_nothing():\n    assert 'torch' not in sys.modules\n")
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(tmp_path), str(corpus)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 0 and "1 passed" in process.stdout, process.stdout
