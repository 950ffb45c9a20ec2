"""The configuration on the command line: defaults of options, the policy of the oracles, and what doctor says of it."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from harness import events
from harness.cli.configured import check_operator, known_issues, load_configuration, option_defaults, policy_of
from harness.cli.main import cli
from harness.config import Loaded, Settings
from harness.errors import FormatError, UsageError
from harness.reporting.log import LogWriter
from oracles import DEFAULT

ISSUE = '[[issue]]\nlink = "https://example.org/{0}"\nname = "{0}"\ntargets = ["eager:copy"]\noperator = "{1}"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FXDIFF_CONFIG", raising=False)
    return tmp_path


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), standalone_mode=False)


def test_a_file_gives_defaults_and_the_command_line_wins(folder: Path) -> None:
    (folder / "fxdiff.toml").write_text('targets = ["eager:copy"]\njobs = 3\ncase-timeout = "5s"\nmemory-limit = "1G"\ncorpus = "bugs"\n')
    seen: dict[str, object] = {}
    command = cli.get_command(click.Context(cli), "fuzz")
    assert command is not None

    def parse(*arguments: str) -> dict[str, object]:
        context = click.Context(cli)
        context.default_map = option_defaults(load_configuration(None))
        with command.make_context("fuzz", list(arguments), parent=context) as made:
            seen.update(made.params)
        return seen

    params = parse()
    assert (params["targets"], params["jobs"], params["case_timeout"], params["memory_limit"]) == (("eager:copy",), 3, 5.0, 1024)
    assert params["corpus"] == folder / "bugs"
    params = parse("-t", "eager", "--jobs", "1", "--case-timeout", "2m")
    assert (params["targets"], params["jobs"], params["case_timeout"]) == (("eager",), 1, 120.0)


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ('targets = ["onefloww:lockstep"]', ("fuzz",), "fxdiff.toml: targets: unknown target 'onefloww:lockstep': did you mean"),
        ('require-targets = ["eager:kopy"]', ("fuzz",), "fxdiff.toml: require-targets: unknown target 'eager:kopy'"),
        ('profile = "defalt"', ("fuzz",), "fxdiff.toml: profile: unknown profile 'defalt'"),
        ('ops = ["matmull"]', ("fuzz",), "fxdiff.toml: ops: unknown operator 'matmull'"),
        ('dtypes = ["flaot32"]', ("fuzz",), "fxdiff.toml: dtypes: unknown dtype 'flaot32'"),
    ],
)
def test_an_unknown_name_in_a_file_names_the_file_and_the_key(folder: Path, text: str, arguments: tuple[str, ...], said: str) -> None:
    (folder / "fxdiff.toml").write_text(text + "\n")
    assert said in str(invoke(*arguments).exception)


def test_an_unknown_name_on_the_command_line_does_not_blame_a_file(folder: Path) -> None:
    (folder / "fxdiff.toml").write_text('targets = ["nosuch"]\n')
    assert str(invoke("fuzz", "--target", "nosuch").exception).startswith("unknown target 'nosuch'")


def test_the_policy_follows_the_file() -> None:
    assert policy_of(Loaded()) is DEFAULT
    policy = policy_of(Loaded(Settings(ignore=("nan",), judge=("signed-zero", "out-of-range"), tolerance={"matmul": 64.0, "my.op": 2.0})))
    assert not policy.nan
    assert policy.inf
    assert policy.signed_zero
    assert policy.out_of_range
    assert policy.tolerance == {"matmul": 64.0, "my.op": 2.0}


def test_an_operator_that_nothing_goes_by_is_named_with_the_nearest(folder: Path) -> None:
    path = folder / "fxdiff.toml"
    path.write_text("[tolerance]\nmatmull = 64\n")
    result = invoke("doctor", "--config")
    assert isinstance(result.exception, FormatError)
    assert str(result.exception).startswith(f"{path}: tolerance: unknown operator 'matmull': did you mean")
    assert "matmul" in str(result.exception)
    for name in ("add_", "conv2d", "torchvision.nms", "sin+relu"):
        check_operator(name, where="")


def test_doctor_prints_every_value_and_where_it_comes_from(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.fxdiff]\nprofile = "small"\n')
    inner = folder / "inner"
    inner.mkdir()
    found = json.loads(invoke("doctor", "--config", "--json").stdout)
    assert found["path"] == str(folder / "pyproject.toml")
    assert found["values"]["profile"] == {"value": "small", "source": str(folder / "pyproject.toml")}
    assert found["values"]["jobs"] == {"value": "auto", "source": "default"}
    assert set(found["values"]) == {key for key, _, _ in Loaded().rows()}
    assert 'profile          "small"' in invoke("doctor", "--config").stdout


def test_another_file_is_named_by_option_or_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "other.toml").write_text("jobs = 7\n")
    for arguments in (["--config", "other.toml", "doctor", "--config", "--json"], ["doctor", "--config", "--json"]):
        assert json.loads(invoke(*arguments).stdout)["values"]["jobs"]["value"] == "7"
        monkeypatch.setenv("FXDIFF_CONFIG", "other.toml")
    result = invoke("--config", "gone.toml", "doctor", "--config")
    assert isinstance(result.exception, UsageError)
    assert "gone.toml: there is no such file" in str(result.exception)


def test_a_file_of_issues_that_is_named_must_be_there(folder: Path) -> None:
    assert known_issues(Settings(), folder) == ()
    with pytest.raises(FormatError, match=r"issues\.toml: known-issues names this file"):
        known_issues(Settings(known_issues=folder / "issues.toml"), folder)
    (folder / "known_issues.toml").write_text("format_version = 1\n" + ISSUE.format("typo", "cnov2d"))
    with pytest.raises(FormatError, match="issue typo: unknown operator 'cnov2d': did you mean conv2d"):
        known_issues(Settings(), folder)


def test_corpus_check_names_expired_outdated_and_stale_issues(folder: Path) -> None:
    yesterday = datetime.date.today() - datetime.timedelta(days=1)
    (folder / "known_issues.toml").write_text(
        "format_version = 1\n"
        + ISSUE.format("old", "relu")
        + f"expires = {yesterday}\n"
        + ISSUE.format("fixed", "relu")
        + 'until = { torch = "1.0" }\n'
        + ISSUE.format("quiet", "relu")
        + ISSUE.format("busy", "sin")
    )
    run = folder / "run"
    run.mkdir()
    log = LogWriter(run / "events.ndjson")
    log(events.RunStarted(1, "default", "1", ("eager:copy",), 1, "fxdiff fuzz"))
    for name, operator in (("quiet", "relu"), ("busy", "sin")):
        log(events.IssueListed(name, f"https://example.org/{name}", "active", f"issue:{name}", ("eager:copy",), operator))
    for index in range(25):
        rows = ("eager:copy|relu|float32|ok", "eager:copy|sin|float32|ok")
        log(events.CaseFinished(index, f"c{index}", True, {"eager:copy": "ok"}, 2, ("relu", "sin"), rows))
    log(events.KnownHit(3, "c3", "eager:copy", "issue:busy", "https://example.org/busy"))
    log.close()
    result = invoke("corpus", "check", "--corpus", str(folder), "--run", str(run))
    assert result.return_value == 1
    lines = result.stdout.splitlines()
    assert f"expired on {yesterday}: old https://example.org/old" in lines
    assert "outdated, torch 1.0 is here: fixed https://example.org/fixed" in lines
    assert "stale, explained nothing in 25 runs of what it speaks of: quiet https://example.org/quiet" in lines
    assert lines[-1] == "4 known issues, 2 expired or outdated, 1 stale"
