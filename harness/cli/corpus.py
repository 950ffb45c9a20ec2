"""`fxdiff corpus`: list, show, add, check, prune, update."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.exit_codes import ExitCode, epilog

if TYPE_CHECKING:
    from harness.corpus.entry import Entry

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
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from harness.corpus.store import Corpus

    entries = Corpus(corpus).entries()
    if as_json:
        click.echo(json.dumps([_plain(entry) for entry in entries], indent=2))
        return 0
    table = Table(box=None, pad_edge=False)
    for heading in ("entry", "status", "severity", "kind", "title"):
        table.add_column(heading, overflow="fold" if heading == "title" else "ellipsis", no_wrap=heading in ("status", "severity", "kind"))
    for entry in entries:
        severity = entry.severity.name.lower().replace("_", " ")
        table.add_row(entry.slug, entry.status, severity, entry.signature.kind.value, escape(entry.title))
    console = Console()
    console.print(table if entries else f"no entries in {corpus}")
    return 0


@corpus_command.command("show")
@click.argument("entry")
@_FOLDER
@_JSON
def show_command(entry: str, corpus: Path, as_json: bool) -> int:
    """What disagreed, the program, what it needs, and how to run it."""
    from rich.console import Console
    from rich.markup import escape

    from harness.corpus.store import Corpus
    from harness.reproducers.source import case_source

    found = Corpus(corpus).find(entry)
    if as_json:
        click.echo(json.dumps(_plain(found), indent=2))
        return 0
    out = Console()
    out.print(f"[bold]{escape(found.slug)}[/]  {found.status}, {found.severity.name.lower().replace('_', ' ')}", highlight=False)
    out.print(escape(found.title), highlight=False, soft_wrap=True)
    if found.verdict is not None:
        out.print(f"\n{escape(found.verdict.message)}", highlight=False, soft_wrap=True)
    call = found.verdict.call or 0 if found.verdict is not None else 0
    out.print("\n" + escape(case_source(found.case, call=call)), highlight=False, soft_wrap=True)
    needs = ", ".join(found.signature.trigger) or "nothing special"
    out.print(f"needs: {escape(needs)}", highlight=False, soft_wrap=True)
    out.print(f"reproduced: {found.reproduced[0]} of {found.reproduced[1]}", highlight=False)
    versions = ", ".join(f"{name} {version}" for name, version in found.expectation.versions.items())
    out.print(f"with: {escape(versions)} on {found.expectation.platform}", highlight=False, soft_wrap=True)
    if found.upstream:
        out.print(f"upstream: {escape(found.upstream)}", highlight=False, soft_wrap=True)
    if found.path is not None:
        out.print(f"\nfxdiff replay {escape(str(found.path))}", highlight=False, soft_wrap=True)
        if found.repro is not None:
            out.print(f"{escape(str(found.path / 'repro.py'))}  imports only the target; exits 1 while the bug exists", soft_wrap=True)
    return 0


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


def _plain(entry: Entry) -> dict[str, object]:
    return {
        "entry": entry.slug,
        "id": entry.id,
        "status": entry.status,
        "severity": entry.severity.name.lower(),
        "target": entry.target,
        "kind": entry.signature.kind.value,
        "operator": entry.signature.operator,
        "trigger": list(entry.signature.trigger),
        "title": entry.title,
        "upstream": entry.upstream,
        "reproduced": list(entry.reproduced),
        "path": str(entry.path) if entry.path is not None else "",
    }
