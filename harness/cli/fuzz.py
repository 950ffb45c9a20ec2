"""`fxdiff fuzz`: draw, run, judge, investigate, keep."""

from __future__ import annotations

import datetime
import itertools
import json
import os
import random
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from harness.cli.exit_codes import ExitCode, epilog
from harness.cli.parameters import Duration, Jobs, Megabytes, Range

if TYPE_CHECKING:
    from harness.cli.session import Session
    from harness.engine.campaign import Campaign
    from harness.reporting.tally import Tally


@click.command(epilog=epilog())
@click.option("--seed", type=int, help="Number that decides every case; random, and printed, if not given.")
@click.option("--time-budget", type=Duration(), help="Stop after this long: 90s, 30m, 2h. [default: until stopped]")
@click.option("--max-cases", type=click.IntRange(min=1), help="Stop after so many cases.")
@click.option("--max-findings", type=click.IntRange(min=1), help="Stop after so many new findings.")
@click.option("--cases", type=Range(), help="Run only the cases i..j of this seed.")
@click.option("--jobs", "-j", type=Jobs(), default="auto", show_default=True, help="Cases at work at once.")
@click.option("--target", "-t", "targets", multiple=True, help="Target to test, repeatable. [default: every default target]")
@click.option("--require-target", "required", multiple=True, help="Target that must be there, else exit code 4; repeatable.")
@click.option("--op", "ops", multiple=True, help="Draw only operators that match this pattern, repeatable.")
@click.option("--exclude-op", "exclude", multiple=True, help="Leave out operators that match this pattern, repeatable.")
@click.option("--dtype", "dtypes", multiple=True, help="Draw only this dtype, repeatable.")
@click.option("--max-nodes", type=click.IntRange(1, 100), help="At most so many operators a case.")
@click.option("--profile", default="default", show_default=True, help="Kind of cases to draw.")
@click.option("--import", "imports", multiple=True, metavar="MODULE", help="Import this module first; it may register targets.")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Folder for log, summary and findings.")
@click.option("--corpus", type=click.Path(path_type=Path), default=Path("corpus"), show_default=True, help="Folder of known bugs.")
@click.option("--resume", is_flag=True, help="Go on with the run in --output.")
@click.option("--case-timeout", type=Duration(), default="10s", show_default=True, help="Deadline of one case on one target.")
@click.option("--memory-limit", type=Megabytes(), default="3G", show_default=True, help="Memory of one worker.")
@click.option("--no-minimize", is_flag=True, help="Save findings as they were localized.")
@click.option("--fail-on", type=click.Choice(["new", "any", "never"]), default="new", show_default=True, help="When to exit with code 1.")
@click.option("-q", "quiet", count=True, help="Print only the summary.")
@click.option("-v", "verbose", count=True, help="Print every disagreement and what became of it.")
@click.option("--no-color", is_flag=True, help="No colour; NO_COLOR does the same.")
def fuzz_command(
    seed: int | None,
    time_budget: float | None,
    max_cases: int | None,
    max_findings: int | None,
    cases: tuple[int, int] | None,
    jobs: int,
    targets: tuple[str, ...],
    required: tuple[str, ...],
    ops: tuple[str, ...],
    exclude: tuple[str, ...],
    dtypes: tuple[str, ...],
    max_nodes: int | None,
    profile: str,
    imports: tuple[str, ...],
    output: Path | None,
    corpus: Path,
    resume: bool,
    case_timeout: float,
    memory_limit: int,
    no_minimize: bool,
    fail_on: str,
    quiet: int,
    verbose: int,
    no_color: bool,
) -> int:
    """Draw modules and shapes, run each on eager PyTorch and on every target, and keep what disagrees.

    Results go to stdout, progress to stderr. Ctrl-C once stops cleanly, twice at once.
    """
    from generators.catalogue import selection
    from generators.draw import GENERATOR_VERSION, draw_case
    from generators.profile import derive
    from generators.profile import profile as named_profile
    from harness import events
    from harness.cli.configured import configuration, known_issues, policy_of
    from harness.cli.session import Session, consoles
    from harness.engine.campaign import Campaign
    from harness.engine.investigate import Effort
    from harness.engine.rundir import LOG, RunDirectory
    from harness.engine.settings import CampaignSettings
    from harness.errors import UsageError
    from harness.reporting.console import ConsoleReporter
    from harness.reporting.log import LogWriter
    from harness.reporting.tally import Tally
    from harness.triage.issues import Standing

    begun = time.monotonic()
    policy = policy_of(configuration())
    drawn = derive(named_profile(profile), ops=ops, exclude=exclude, dtypes=dtypes, max_nodes=max_nodes)
    selection(drawn)  # an operator that nobody knows is told now, not by every case
    first, tally = 0, Tally()
    out, err = consoles(no_color=no_color)
    verbosity = verbose - quiet
    folder: RunDirectory | None = None
    if resume:
        if output is None:
            raise UsageError("--resume needs the folder of the run to go on with: --output DIR")
        if not (output / LOG).is_file():
            raise UsageError(f"--resume: {output} holds no earlier run")
        folder = RunDirectory(output, resume=True)
        tally = _account(output / LOG)
        assert tally.started is not None
        earlier = tally.started
        _refuse_other("--seed", seed, earlier.seed, output)
        _refuse_other("--target", targets or None, earlier.targets, output)
        seed, drawn, targets, first = earlier.seed, named_profile(earlier.profile), earlier.targets, earlier.first_index
        imports = tuple(dict.fromkeys((*earlier.imports, *imports)))
        if tally.in_flight and verbosity >= 0:
            again = ", ".join(map(str, tally.in_flight))
            err.print(f"cases that the earlier run was at when it ended are run again: {again}", highlight=False, soft_wrap=True)
    if seed is None:
        seed = random.SystemRandom().randrange(2**31)
    if cases is not None:
        first, max_cases = cases[0], cases[1] - cases[0] + 1
    session = Session.open(targets, required=required, imports=imports, case_seconds=case_timeout, memory_mb=memory_limit)
    try:
        if folder is None:
            folder = RunDirectory(output or _default_output(seed))
        versions = session.versions()
        log = LogWriter(folder.log)
        issues = known_issues(configuration().settings, corpus)
        standing = {issue: issue.standing(versions, datetime.date.today()) for issue in issues}
        active = [issue for issue in issues if standing[issue] is Standing.ACTIVE]
        known = session.known_bugs(corpus, folder.findings, folder.unproven, issues=active)
    except BaseException:
        session.close()
        raise
    console = ConsoleReporter(tally, out=out, err=err, verbosity=verbosity, budget=time_budget)

    def listener(event: events.Event) -> None:
        tally(event)
        log(event)
        try:
            console(event)
        except (OSError, SystemExit):  # the reader has gone, as with `| head`; rich ends the thread for it
            campaign.stop("nobody reads the results any more")

    settings = CampaignSettings(
        seed=seed,
        targets=session.targets,
        output=folder.path,
        profile=drawn.text(),
        jobs=jobs,
        time_budget=time_budget,
        first_index=first,
        max_cases=max_cases,
        skip=tally.settled,
        max_findings=max_findings,
        policy=policy,
        effort=Effort(minimize=not no_minimize, seconds=min(60.0, time_budget) if time_budget is not None else 60.0),
        command=tally.started.command if tally.started is not None else _command(seed),
    )
    keeper = session.keeper(folder.findings)
    campaign = Campaign(
        settings,
        draw=lambda index: draw_case(drawn, settings.seed, index),
        runner=session.runner,
        known=known,
        keeper=keeper,
        listener=listener,
    )
    listener(
        events.RunStarted(
            seed,
            settings.profile,
            GENERATOR_VERSION,
            tuple(target.name for target in session.targets),
            jobs,
            settings.command,
            versions,
            session.missing,
            first,
            str(folder.path),
            imports,
        )
    )
    for issue in issues:
        listener(
            events.IssueListed(issue.name, issue.link, standing[issue].value, issue.signature, issue.targets, issue.operator, issue.why)
        )
    reason = "fxdiff failed"
    try:
        with _interrupts(campaign, session):
            reason = campaign.run()
    finally:
        cpu = session.close()
        code = _exit_code(reason, tally, fail_on)
        listener(events.RunFinished(reason, time.monotonic() - begun, cpu, campaign.next_index, int(code)))
        log.close()
        folder.write_summary(json.dumps(tally.summary(), indent=2, sort_keys=True) + "\n")
        folder.close()
    with suppress(BrokenPipeError, SystemExit):
        again = _whole_command(settings.command, tally) if resume else settings.command
        console.summary(next_commands=_next_commands(tally, folder.path, again, imports))
    return int(code)


def _account(log: Path) -> Tally:
    """What a run's log amounts to; raises UsageError where no run ever started."""
    from harness.errors import UsageError
    from harness.reporting.log import read_log
    from harness.reporting.tally import Tally

    tally = Tally()
    for event in read_log(log):
        tally(event)
    if tally.started is None:
        raise UsageError(f"{log} holds no started run")
    return tally


def _refuse_other(option: str, given: object, earlier: object, output: Path) -> None:
    """Raise UsageError where a resumed run is asked to change what decides its cases."""
    from harness.errors import UsageError

    if given is not None and given != earlier:
        shown = [", ".join(value) if isinstance(value, tuple) else value for value in (given, earlier)]
        raise UsageError(f"{option} {shown[0]}, but the run in {output} has {shown[1]}")


def _default_output(seed: int) -> Path:
    """A folder named for the time and the seed that no run has used, whatever the clock says."""
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-seed{seed}"
    folders = (Path("fxdiff-out") / f"{name}{suffix}" for suffix in itertools.chain([""], (f"-{number}" for number in itertools.count(2))))
    return next(folder for folder in folders if not folder.exists())


def _command(seed: int) -> str:
    """The command line that repeats the run: what was typed, with the seed that was drawn."""
    from harness.reporting.commands import without

    arguments = sys.argv[1:]
    if not any(argument == "--seed" or argument.startswith("--seed=") for argument in arguments):
        arguments = [*arguments, "--seed", str(seed)]
    return "fxdiff " + shlex.join(without(arguments, ("--output", "-o"), flags=("--resume",)))


def _whole_command(command: str, tally: Tally) -> str:
    """The command line that runs in one go the cases of a run that was gone on with, each time with other limits."""
    from harness.reporting.commands import for_cases

    first = tally.started.first_index if tally.started is not None else 0
    return for_cases(command, first, max(tally.finished_cases, default=first))


def _exit_code(reason: str, tally: Tally, fail_on: str) -> ExitCode:
    if reason == "interrupted":
        return ExitCode.INTERRUPTED
    started = tally.started
    if started is not None and not any(tally.tested(target) for target in started.targets if target != "eager"):
        return ExitCode.NOTHING_TESTED
    disputed = bool(tally.findings) or (fail_on == "any" and bool(tally.known))
    return ExitCode.NEW_FINDING if disputed and fail_on != "never" else ExitCode.NOTHING_NEW


def _next_commands(tally: Tally, folder: Path, command: str, imports: Sequence[str]) -> list[str]:
    lines = []
    saved = [found.path for found in tally.new_findings if found.path]
    if saved:
        options = "".join(f"--import {shlex.quote(name)} " for name in imports)
        lines.append(f"look at one:   fxdiff replay {options}{shlex.quote(saved[0])}")
        lines.append(f"keep it:       fxdiff corpus add {shlex.quote(saved[0])}")
    lines.append(f"everything:    {shlex.quote(str(folder))}")
    lines.append(f"repeat:        {command}")
    return lines


@contextmanager
def _interrupts(campaign: Campaign, session: Session) -> Iterator[None]:
    """Ctrl-C once stops after the cases at work, twice kills the workers and leaves at once."""
    pressed = 0

    def handler(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed += 1
        if pressed == 1:
            campaign.stop("interrupted")
            with suppress(OSError):  # the terminal may be closed, or Ctrl-C have ended `| tee` as well
                os.write(2, b"\nstopping after the cases at work; press Ctrl-C again to stop at once\n")
        else:
            session.kill()
            campaign.abandon()

    installed: list[tuple[signal.Signals, Callable[..., object] | int | None]] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
            continue  # as nohup has it
        installed.append((number, signal.signal(number, handler)))
    try:
        yield
    finally:
        for number, old in installed:
            signal.signal(number, old)
