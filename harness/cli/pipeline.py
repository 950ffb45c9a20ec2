"""`fxdiff pipeline`: one program on its way through torch-mlir, pass by pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.exit_codes import ExitCode, epilog
from harness.cli.parameters import Duration

if TYPE_CHECKING:
    from harness.engine.evaluate import Evaluator
    from harness.model.case import Case
    from harness.model.outcome import Outcome
    from harness.model.verdict import Verdict
    from harness.triage.guilt import Guilt

TARGET = "torch-mlir:fixpoint"


@click.command("pipeline", epilog=epilog())
@click.argument("entry", metavar="ENTRY|FINDING|CASE")
@click.option("--route", type=click.Choice(["raw", "decomposed", "export"]), help="How to import it. [default: decomposed and raw]")
@click.option("--pipeline", type=click.Choice(["fx", "simplification"]), help="Which pipeline to follow. [default: both]")
@click.option("--all", "every", is_flag=True, help="Show passes that changed nothing, too.")
@click.option("--diff", is_flag=True, help="Show every change of the IR, not only the one at fault.")
@click.option("--corpus", type=click.Path(path_type=Path), default=Path("corpus"), show_default=True, help="Folder to look entries up in.")
@click.option("--import", "imports", multiple=True, metavar="MODULE", help="Import this module first; it may register targets.")
@click.option("--target", "-t", default=TARGET, show_default=True, help="Target that follows the pipeline.")
@click.option("--case-timeout", type=Duration(), default="30s", show_default=True, help="Deadline of one pass.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--no-color", is_flag=True, help="No colour; NO_COLOR does the same.")
def pipeline_command(
    entry: str,
    route: str | None,
    pipeline: str | None,
    every: bool,
    diff: bool,
    corpus: Path,
    imports: tuple[str, ...],
    target: str,
    case_timeout: float,
    as_json: bool,
    no_color: bool,
) -> int:
    """Follow one program through torch-mlir: passes, what each changed, types, and where it went wrong.

    ENTRY is what `fxdiff show` takes. Each pass runs by itself, is verified, and what it leaves is run with eager operators
    and compared; the pipelines are repeated until nothing changes. Exit code 1 where something is wrong.
    """
    from rich.markup import escape

    from harness.backends.protocol import target as spec_of
    from harness.cli.configured import configuration, policy_of
    from harness.cli.locating import locate
    from harness.cli.session import Session, consoles, load_plugins
    from harness.corpus.entry import Entry
    from harness.engine.evaluate import Evaluator
    from harness.model.outcome import Status
    from harness.reporting.stories import story_data, story_lines
    from harness.reproducers.source import case_source
    from harness.triage import guilt

    load_plugins(imports)
    found = locate(entry, corpus)
    spec = spec_of(target)
    session = Session.open([spec.name], required=[spec.name], case_seconds=case_timeout)
    try:
        session.versions()  # waits until the target is there
        evaluator = Evaluator(session.runner(0), policy=policy_of(configuration()), want=("trace",))
        case = found.case
        options = {key: value for key, value in (("route", route), ("pipeline", pipeline)) if value is not None}
        reference = evaluator.reference(case)
        observed = evaluator.observe(case, spec, reference, want=("ir",), options=options)
        verdicts = evaluator.judge(case, reference, observed) if reference.status is Status.OK else ()
        guilty = _guilty(evaluator, case, target, reference, verdicts)
        if isinstance(found, Entry) and found.verdict is not None and found.verdict.oracle != guilt.ORACLE:
            lowering = spec_of(found.target).voter
            if lowering:
                told = guilt.of_followed(found.verdict, observed, verdicts, lowering=lowering)
                guilty = _with_pattern(evaluator, case, target, reference, told)
    finally:
        session.close()
    if as_json:
        data = {
            "status": observed.status.value,
            "stage": observed.stage,
            "message": observed.message,
            "verdicts": [{"kind": verdict.kind.value, "pass": verdict.stage, "message": verdict.message} for verdict in verdicts],
            "guilty": guilt.plain(guilty) if guilty is not None else None,
            "stories": [story_data(story) for story in observed.stories],
        }
        click.echo(json.dumps(data, indent=2))
        return ExitCode.NEW_FINDING if verdicts else ExitCode.NOTHING_NEW
    out, _ = consoles(no_color=no_color)

    def say(text: str) -> None:
        out.print(escape(text), highlight=False, soft_wrap=True)

    say(case_source(case).rstrip("\n"))
    if reference.status is not Status.OK:
        say(f"eager PyTorch itself does not run it: {reference.message}")
    for story in observed.stories:
        say("")
        for line in story_lines(story, verdicts, observed.artifacts, every=every, diff=diff):
            say(line)
    say("")
    if not observed.stories:
        say(f"{observed.status.value} in {observed.stage}: {observed.message}")
    for line in observed.artifacts.get("other_routes", "").splitlines():
        say(f"not imported: {line}")
    if guilty is not None:
        say(f"guilty: {guilt.in_a_line(guilty)}")
    elif observed.stories:
        say("nothing is wrong")
    return ExitCode.NEW_FINDING if verdicts else ExitCode.NOTHING_NEW


def _guilty(evaluator: Evaluator, case: Case, target: str, reference: Outcome, verdicts: tuple[Verdict, ...]) -> Guilt | None:
    """Who is guilty of the worst that was found, down to the pattern."""
    from harness.triage import guilt

    if not verdicts:
        return None
    worst = verdicts[0]
    if worst.oracle != guilt.ORACLE:
        return guilt.Guilt(worst.stage, worst.message)
    return _with_pattern(evaluator, case, target, reference, guilt.of_verdict(worst))


def _with_pattern(evaluator: Evaluator, case: Case, target: str, reference: Outcome, guilty: Guilt) -> Guilt:
    from harness.backends.protocol import target as spec_of
    from harness.triage import guilt

    if not guilty.address:
        return guilty
    return guilt.with_pattern(guilty, evaluator.observe(case, spec_of(target), reference, options=guilty.search))
