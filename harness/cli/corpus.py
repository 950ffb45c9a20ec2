"""`fxdiff corpus`: list, show, add, link, check, prune, update."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import click

from harness.cli.exit_codes import ExitCode, epilog

_FOLDER = click.option("--corpus", type=click.Path(path_type=Path), default=Path("corpus"), show_default=True, help="The corpus folder.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("corpus", epilog=epilog())
def corpus_command() -> None:
    """Look after the entries of a corpus."""


@corpus_command.command("list")
@_FOLDER
@_JSON
def list_command(corpus: Path, as_json: bool) -> int:
    """One line an entry: status, severity, target, operator, title."""
    from harness.cli.show import summary_data
    from harness.corpus.store import Corpus

    entries = Corpus(corpus).entries()
    if as_json:
        click.echo(json.dumps([summary_data(entry) for entry in entries], indent=2))
        return 0
    rows = [("entry", "status", "severity", "kind", "title")]
    for entry in entries:
        severity = entry.severity.name.lower().replace("_", " ")
        rows.append((entry.slug, entry.status, severity, entry.signature.kind.value, entry.title))
    # Never cut nor folded, whatever the terminal's width: the first column is what other verbs are given.
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows if entries else ():
        click.echo("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    if not entries:
        click.echo(f"no entries in {corpus}")
    return 0


@corpus_command.command("show")
@click.argument("entry")
@_FOLDER
@_JSON
def show_command(entry: str, corpus: Path, as_json: bool) -> int:
    """What disagreed, the program, what it needs, and how to run it."""
    from harness.cli.show import show_entry
    from harness.corpus.store import Corpus

    show_entry(Corpus(corpus).find(entry), as_json=as_json)
    return 0


@corpus_command.command("link")
@click.argument("entry")
@click.argument("url", required=False)
@_FOLDER
@click.option("--remove", is_flag=True, help="Take the link away.")
def link_command(entry: str, url: str | None, corpus: Path, remove: bool) -> int:
    """Say where an entry was reported: a URL, or OWNER/REPOSITORY#NUMBER on GitHub."""
    from harness.cli.locating import locate_entry
    from harness.corpus.store import Corpus
    from harness.errors import UsageError

    if remove == (url is not None):
        raise UsageError("give a URL, or --remove")
    found = locate_entry(entry, corpus)
    assert found.path is not None
    path = Corpus(found.path.parent).update(dataclasses.replace(found, upstream=issue_url(url) if url is not None else ""))
    click.echo(f"{path}: {'no link' if url is None else issue_url(url)}")
    return 0


def issue_url(text: str) -> str:
    """The address of an issue; raises UsageError for what is none."""
    from harness.errors import UsageError

    short = re.fullmatch(r"([\w.-]+/[\w.-]+)#(\d+)", text)
    if short is not None:
        return f"https://github.com/{short[1]}/issues/{short[2]}"
    if re.fullmatch(r"https?://[^\s/]+/\S+", text) is None:
        raise UsageError(f"{text!r} is no link: give https://... or OWNER/REPOSITORY#NUMBER")
    return text


@corpus_command.command("add")
@click.argument("findings", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@_FOLDER
def add_command(findings: tuple[Path, ...], corpus: Path) -> int:
    """Copy findings of a run into the corpus; those that are there already are left alone."""
    from harness.corpus.entry import read
    from harness.corpus.store import Corpus

    store = Corpus(corpus)
    there = {path.name for path in store.paths()}
    for path in findings:
        entry = read(path)
        if entry.slug in there:
            click.echo(f"there already: {entry.slug}")
            continue
        click.echo(f"added: {store.add(dataclasses.replace(entry, path=None))}")
    return 0


@corpus_command.command("check")
@click.option(
    "--run", "runs", multiple=True, type=click.Path(path_type=Path), help="Folder of a run: known issues that hit nothing in it are named."
)
@_FOLDER
def check_command(corpus: Path, runs: tuple[Path, ...]) -> int:
    """Read every entry and name each one that is broken, and known issues that are expired, outdated or stale; runs nothing.

    Exit code 2 where an entry or the file of known issues is broken, 1 where a known issue has expired or is outdated.
    """
    from harness.corpus.entry import read
    from harness.corpus.store import Corpus
    from harness.errors import FormatError

    paths = Corpus(corpus).paths()
    broken = 0
    for path in paths:
        try:
            read(path)
        except FormatError as error:
            broken += 1
            click.echo(f"broken: {error}")
    click.echo(f"{len(paths)} entries, {broken} broken")
    settled = _check_issues(corpus, runs)
    if broken:
        return int(ExitCode.USAGE)
    return int(ExitCode.NEW_FINDING if settled else ExitCode.NOTHING_NEW)


def _check_issues(corpus: Path, runs: tuple[Path, ...]) -> int:
    """Name the known issues that have had their day; how many those are, stale ones left out."""
    import datetime

    from harness.cli.configured import configuration, known_issues
    from harness.environments.availability import installed_versions
    from harness.triage.issues import Standing

    issues = known_issues(configuration().settings, corpus)
    versions = installed_versions()
    settled = 0
    for issue in issues:
        standing = issue.standing(versions, datetime.date.today())
        if standing is Standing.EXPIRED:
            click.echo(f"expired on {issue.expires}: {issue.name} {issue.link}")
        elif standing is Standing.OUTDATED:
            fixed = ", ".join(f"{name} {version}" for name, version in issue.until.items())
            click.echo(f"outdated, {fixed} is here: {issue.name} {issue.link}")
        settled += standing is not Standing.ACTIVE
    stale = _stale(runs)
    for name, (link, ran) in stale.items():
        click.echo(f"stale, explained nothing in {ran} runs of what it speaks of: {name} {link}")
    click.echo(f"{len(issues)} known issues, {settled} expired or outdated" + (f", {len(stale)} stale" if runs else ""))
    return settled


def _stale(runs: tuple[Path, ...]) -> dict[str, tuple[str, int]]:
    """Known issues that explained nothing in any of the runs that listed them: their links, and how often they might have."""
    from harness.engine.rundir import LOG
    from harness.reporting.log import read_log
    from harness.reporting.tally import Tally

    quiet: dict[str, tuple[str, int]] = {}
    hit: set[str] = set()
    for run in runs:
        tally = Tally()
        for event in read_log(run / LOG):
            tally(event)
        for issue, ran in tally.stale_issues:
            quiet[issue.name] = (issue.link, quiet.get(issue.name, ("", 0))[1] + ran)
        hit |= {issue.name for issue in tally.issues.values() if issue.signature in tally.known}
    return {name: found for name, found in quiet.items() if name not in hit}


@corpus_command.command("prune")
@_FOLDER
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
def prune_command(corpus: Path, dry_run: bool) -> int:
    """Remove entries whose bug is fixed."""
    from harness.corpus.store import Corpus

    gone = Corpus(corpus).prune(dry_run=dry_run)
    for path in gone:
        click.echo(f"{'would remove' if dry_run else 'removed'}: {path}")
    click.echo(f"{len(gone)} fixed entries")
    return 0


@corpus_command.command("update")
@click.argument("entries", nargs=-1, required=True)
@_FOLDER
@click.option("--import", "imports", multiple=True, metavar="MODULE", help="Import this module first; it may register targets.")
def update_command(entries: tuple[str, ...], corpus: Path, imports: tuple[str, ...]) -> int:
    """Run entries and store what is true now: open or fixed, and the values, versions and platform of this machine."""
    from harness.backends.protocol import target as spec_of
    from harness.cli.session import Session, load_plugins
    from harness.corpus.entry import FIXED, OPEN, Expectation, current_platform
    from harness.corpus.store import Corpus
    from harness.engine.evaluate import Evaluator
    from harness.engine.replay import State, replay_entry

    load_plugins(imports)
    store = Corpus(corpus)
    found = [store.find(text, check_hashes=False) for text in entries]
    session = Session.open(dict.fromkeys(entry.target for entry in found), case_seconds=20.0)
    stuck = False
    try:
        session.versions()  # waits for every target, and leaves out those that cannot start
        runner = session.runner(0)
        evaluator = Evaluator(runner, want=("trace",))
        for entry in found:
            result = replay_entry(entry, spec_of(entry.target), evaluator, runner, against_stored=False)
            if result.state not in (State.STILL_FAILS, State.FIXED) or result.reference is None or result.observed is None:
                click.echo(f"left as it was: {entry.slug}: {result.state.value}: {result.message}")
                stuck = True
                continue
            status = OPEN if result.state is State.STILL_FAILS else FIXED
            versions = session.pool.versions(entry.target)
            updated = dataclasses.replace(
                entry,
                status=status,
                reference=result.reference,
                observed=result.observed,
                verdict=result.verdict or entry.verdict,
                expectation=Expectation(versions, current_platform()),
            )
            click.echo(f"{status}: {store.update(updated)}")
    finally:
        session.close()
    return int(ExitCode.NEW_FINDING if stuck else ExitCode.NOTHING_NEW)
