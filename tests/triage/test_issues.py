from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from harness.errors import FormatError
from harness.triage.issues import KnownIssue, Standing, active, read_issues
from harness.triage.known import KnownBug, KnownBugs

TODAY = datetime.date(2026, 6, 1)
GOOD = """
format_version = 1
[[issue]]
link = "https://github.com/Oneflow-Inc/oneflow/issues/10467"
targets = ["oneflow:*"]
kinds = ["special"]
operator = "clamp"
features = ["max=nan"]
until = { oneflow = "0.10" }
expires = 2026-12-31
why = "a bound that is NaN is ignored"
[[issue]]
name = "cumsum"
link = "not ours to mend"
targets = ["torch-mlir:linalg"]
message = "failed to legalize .*cumsum"
"""


@pytest.fixture
def issues(tmp_path: Path) -> tuple[KnownIssue, ...]:
    return read_issues(write(tmp_path, GOOD))


def write(folder: Path, text: str) -> Path:
    path = folder / "known_issues.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_an_issue_says_whom_it_speaks_of(issues: tuple[KnownIssue, ...]) -> None:
    first, second = issues
    assert first.name == "Oneflow-Inc/oneflow#10467"
    assert second.name == "cumsum"
    features = frozenset({"max=nan", "dtype:float64"})
    assert first.holds_at("oneflow:eager", "special", "clamp", features)
    assert not first.holds_at("oneflow:eager", "special", "clamp", frozenset())
    assert not first.holds_at("oneflow:eager", "value", "clamp", features)
    assert not first.holds_at("oneflow:eager", "special", "relu", features)
    assert not first.holds_at("torch-mlir:linalg", "special", "clamp", features)
    assert second.is_told_by("torch-mlir:linalg", "error", "stage linalg: failed to legalize operation 'torch.aten.cumsum'", ())
    assert not second.is_told_by("oneflow:eager", "error", "failed to legalize cumsum", ())
    assert not first.is_told_by("oneflow:eager", "special", "", ("clamp",))


def test_a_message_with_an_operator_needs_both() -> None:
    issue = KnownIssue("n", "l", ("*",), operator="conv2d", message="boom")
    assert issue.is_told_by("t", "error", "boom", ("relu", "conv2d"))
    assert not issue.is_told_by("t", "error", "boom", ("relu",))
    assert not issue.holds_at("t", "error", "conv2d", frozenset()), "a message is not also a trigger"


@pytest.mark.parametrize(
    ("versions", "today", "standing"),
    [
        ({}, TODAY, Standing.ACTIVE),
        ({"oneflow": "0.9.0"}, TODAY, Standing.ACTIVE),
        ({"oneflow": "0.9.0+cpu"}, TODAY, Standing.ACTIVE),
        ({"oneflow": "0.10.0"}, TODAY, Standing.OUTDATED),
        ({"oneflow": "not a version"}, TODAY, Standing.ACTIVE),
        ({"oneflow": "0.9.0"}, datetime.date(2026, 12, 31), Standing.ACTIVE),
        ({"oneflow": "0.9.0"}, datetime.date(2027, 1, 1), Standing.EXPIRED),
    ],
)
def test_an_issue_speaks_until_its_version_or_its_date(
    issues: tuple[KnownIssue, ...], versions: dict[str, str], today: datetime.date, standing: Standing
) -> None:
    assert issues[0].standing(versions, today) is standing
    assert (issues[0] in active(issues, versions, today)) == (standing is Standing.ACTIVE)


def test_known_bugs_ask_issues_first_and_the_most_specific_one(issues: tuple[KnownIssue, ...]) -> None:
    broad = KnownIssue("broad", "link", ("*",), operator="clamp")
    bug = KnownBug("minimized", "oneflow:eager", "special", "clamp", frozenset({"max=nan"}))
    known = KnownBugs([bug], issues=[broad, issues[0], issues[1]])
    found = known.match("oneflow:eager", "special", "clamp", frozenset({"max=nan"}))
    assert found is not None
    assert (found.signature, found.link, found.is_issue) == ("issue:Oneflow-Inc/oneflow#10467", issues[0].link, True)
    other = known.match("eager:copy", "value", "clamp", frozenset())
    assert other is not None
    assert other.signature == "issue:broad"
    told = known.told("torch-mlir:linalg", "error", "failed to legalize cumsum", ("cumsum",))
    assert told is not None
    assert told.signature == "issue:cumsum"
    assert known.told("torch-mlir:linalg", "error", "something else", ()) is None
    assert KnownBugs([bug]).match("oneflow:eager", "special", "clamp", frozenset({"max=nan"})) is bug


ONE = 'format_version = 1\n[[issue]]\nlink = "l"\ntargets = ["t"]\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "format_version is None"),
        ("format_version = 2", "format_version is 2; this fxdiff reads 1"),
        ("format_version = 1\nissues = []", "unknown key 'issues'"),
        ("format_version = 1\nissue = 3", "issue is 3 where a list"),
        ("format_version = 1\nissue = [3]", "issue 1: is 3 where a table is needed"),
        ("format_version = 1\n[[issue]]\ntargets = ['t']\noperator = 'o'", "issue 1: 'link' is missing"),
        ("format_version = 1\n[[issue]]\nlink = 'l'\noperator = 'o'", "issue 1: 'targets' is missing"),
        (ONE, "it needs an 'operator' with its 'features', or a 'message'"),
        (ONE + "operater = 'conv2d'", "unknown key 'operater': did you mean operator"),
        (ONE + "operator = 'o'\nkinds = ['valeu']", "unknown kind 'valeu': did you mean value"),
        (ONE + "operator = 'o'\nexpires = '2026-01-01'", "expires is '2026-01-01' where a date such as 2027-01-31, without quotes"),
        (ONE + "operator = 'o'\nuntil = { torch = 'next' }", "until.torch is 'next', which is no version"),
        (ONE + "message = '('", "message is no regular expression"),
        (ONE + "message = '(a+)+$'", "that can take for ever"),
        (ONE + "message = '(a|a*)*b'", "that can take for ever"),
        (ONE + "message = '(.*)x\\1'", "that can take for ever"),
        (ONE + f"message = '{'a' * 201}'", "longer than 200 characters"),
        (ONE + "message = 'm'\nfeatures = ['f']", "'features' belong to a trigger"),
        (ONE + "operator = 'o'\n[[issue]]\nlink = 'l'\ntargets = ['t']\noperator = 'o'", "issue 2: the name 'l' is taken"),
    ],
)
def test_what_is_wrong_is_said_with_file_issue_and_key(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(FormatError) as caught:
        read_issues(path)
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)


def test_no_file_is_no_issues(tmp_path: Path) -> None:
    assert read_issues(tmp_path / "known_issues.toml") == ()
