"""`fxdiff minimize`: shrink a finding again, or make a finding of a case file."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.exit_codes import ExitCode, epilog
from harness.cli.parameters import Duration, Megabytes

if TYPE_CHECKING:
    from harness.cli.locating import Bare
    from harness.cli.session import Session
    from harness.corpus.entry import Entry


@click.command("minimize", epilog=epilog())
@click.argument("entry", metavar="ENTRY|FINDING|CASE")
@click.option("--budget", type=Duration(), default="5m", show_default=True, help="Wall time to spend.")
@click.option("--corpus", type=click.Path(path_type=Path), default=Path("corpus"), show_default=True, help="Folder to look entries up in.")
@click.option("--target", "-t", "targets", multiple=True, help="Targets for a case file, repeatable. [default: every default target]")
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help="Folder for what a case file shows. [default: fxdiff-out/TIME-minimize]"
)
@click.option("--import", "imports", multiple=True, metavar="MODULE", help="Import this module first; it may register targets.")
@click.option("--case-timeout", type=Duration(), default="20s", show_default=True, help="Deadline of one case on one target.")
@click.option("--memory-limit", type=Megabytes(), default="3G", show_default=True, help="Memory of one worker.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def minimize_command(
    entry: str,
    budget: float,
    corpus: Path,
    targets: tuple[str, ...],
    output: Path | None,
    imports: tuple[str, ...],
    case_timeout: float,
    memory_limit: int,
    as_json: bool,
) -> int:
    """Shrink a finding further: the same target and the same kind of disagreement, in a smaller case.

    What gets smaller is written at once in place of the entry, so that an interrupted run is gone on with by the same
    command; an entry that is minimal already is left as it is. A case file is run first; what disagrees becomes findings.
    """
    from harness.backends.protocol import target as spec_of
    from harness.cli.locating import Bare, locate
    from harness.cli.session import Session, load_plugins
    from harness.errors import UsageError

    load_plugins(imports)
    found = locate(entry, corpus)
    if not isinstance(found, Bare) and targets:
        raise UsageError(f"{found.slug} is of {found.target}; --target is for case files")
    names = list(targets) if isinstance(found, Bare) else [spec_of(found.target).name]
    session = Session.open(names, required=() if isinstance(found, Bare) else names, case_seconds=case_timeout, memory_mb=memory_limit)
    try:
        session.versions()  # waits for every target, and leaves out those that cannot start
        if isinstance(found, Bare):
            return _make_findings(session, found, output, budget, as_json=as_json)
        return _shrink(session, found, budget, as_json=as_json)
    finally:
        session.close()


def _shrink(session: Session, entry: Entry, budget: float, *, as_json: bool) -> int:
    from harness.backends.protocol import target as spec_of
    from harness.cli.configured import configuration, policy_of
    from harness.corpus.store import Corpus
    from harness.engine.evaluate import Evaluator
    from harness.engine.shrink import Shrinker, Shrunk

    assert entry.path is not None
    store = Corpus(entry.path.parent)
    runner = session.runner(0)
    evaluator = Evaluator(runner, policy=policy_of(configuration()))

    def save(smaller: Entry) -> Entry:
        path = store.update(smaller)
        click.echo(f"smaller: {len(smaller.case.program.operators)} operators, {path}", err=True)
        return dataclasses.replace(smaller, path=path)

    keeper = session.keeper(entry.path.parent)
    step = Shrinker(evaluator, runner, keeper, save).shrink(entry, spec_of(entry.target), seconds=budget)
    now = step.entry
    before, after = len(entry.case.program.operators), len(now.case.program.operators)
    if as_json:
        report = {
            "entry": now.slug,
            "path": str(now.path),
            "state": step.state.value,
            "operators": [before, after],
            "message": step.message,
        }
        click.echo(json.dumps(report, indent=2))
    else:
        explained = {
            Shrunk.SMALLER: f"{before} operators before, {after} now" + ("" if step.complete else "; run it again to go on"),
            Shrunk.MINIMAL: "nothing smaller shows the same" + (f"; {step.message}" if step.message else ""),
            Shrunk.OUT_OF_BUDGET: "nothing smaller was found in the time given; --budget gives it longer",
            Shrunk.GONE: step.message,
        }[step.state]
        click.echo(f"{step.state.value}: {now.path}: {explained}")
    return int(ExitCode.NOTHING_TESTED if step.state is Shrunk.GONE else ExitCode.NOTHING_NEW)


def _make_findings(session: Session, bare: Bare, output: Path | None, budget: float, *, as_json: bool) -> int:
    """Run a case file and keep what disagrees, minimized, as findings."""
    from harness.cli.configured import configuration, policy_of
    from harness.engine import check_report
    from harness.engine.check import Checker
    from harness.engine.evaluate import Evaluator
    from harness.engine.investigate import Effort, Investigator
    from harness.engine.keeper import FindingKeeper
    from harness.engine.rundir import RunDirectory
    from harness.engine.shrink import UNBOUNDED
    from harness.triage.known import KnownBugs

    for name, reason in session.missing.items():
        click.echo(f"left out {name}: {reason}", err=True)
    runner = session.runner(0)
    evaluator = Evaluator(runner, policy=policy_of(configuration()))
    known = KnownBugs()
    folders: list[RunDirectory] = []

    def keeper() -> FindingKeeper:
        if not folders:
            folders.append(RunDirectory(output or Path("fxdiff-out") / time.strftime("%Y%m%d-%H%M%S-minimize")))
        return session.keeper(folders[0].findings)

    investigator = Investigator(evaluator, runner, known, Effort(max_executions=UNBOUNDED, seconds=budget))
    try:
        checked = Checker(session.targets, evaluator, investigator, known, keeper).check(str(bare.path), [bare.case])
    finally:
        for folder in folders:
            folder.close()
    click.echo(json.dumps(check_report.data(checked), indent=2) if as_json else "\n".join(check_report.lines(checked)))
    if not checked.tested:
        return int(ExitCode.NOTHING_TESTED)
    return int(ExitCode.NOTHING_NEW if checked.agrees else ExitCode.NEW_FINDING)
