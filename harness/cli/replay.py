"""`fxdiff replay`: run entries, findings, case files or the whole corpus again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.exit_codes import ExitCode, epilog
from harness.cli.parameters import Duration, Megabytes

if TYPE_CHECKING:
    from harness.cli.locating import Bare
    from harness.corpus.entry import Entry
    from harness.engine.replay import CaseReplay, Replay


@click.command(epilog=epilog())
@click.argument("entries", nargs=-1, metavar="[ENTRY]...")
@click.option("--corpus", type=click.Path(path_type=Path), default=Path("corpus"), show_default=True, help="Folder to look entries up in.")
@click.option("--target", "-t", "only", multiple=True, help="Only entries of this target, repeatable.")
@click.option("--require-target", "required", multiple=True, help="Target that must be there, else exit code 4; repeatable.")
@click.option("--import", "imports", multiple=True, metavar="MODULE", help="Import this module first; it may register targets.")
@click.option("--case-timeout", type=Duration(), default="20s", show_default=True, help="Deadline of one case on one target.")
@click.option("--memory-limit", type=Megabytes(), default="3G", show_default=True, help="Memory of one worker.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--no-color", is_flag=True, help="No colour; NO_COLOR does the same.")
def replay_command(
    entries: tuple[str, ...],
    corpus: Path,
    only: tuple[str, ...],
    required: tuple[str, ...],
    imports: tuple[str, ...],
    case_timeout: float,
    memory_limit: int,
    as_json: bool,
    no_color: bool,
) -> int:
    """Run entries again: FIXED, STILL FAILS, CHANGED, REFUSES, REFERENCE CHANGED or CANNOT RUN.

    ENTRY is a folder or a file in it, a name, or the unique beginning of an id, of the corpus or of an earlier run;
    without any, the whole corpus. A case file without an entry runs on every target asked for and says DISAGREES,
    AGREES, REFUSES or CANNOT RUN. Exit code 1 where an entry no longer behaves as its status says, or a case disagrees.
    """
    from harness.backends.protocol import target as spec_of
    from harness.backends.protocol import targets as all_targets
    from harness.cli.configured import configuration, policy_of
    from harness.cli.locating import Bare, locate
    from harness.cli.session import Session, consoles, load_plugins
    from harness.corpus.store import Corpus
    from harness.engine.evaluate import Evaluator
    from harness.engine.replay import Replay, State, replay_case, replay_entry
    from harness.errors import UsageError

    load_plugins(imports)
    store = Corpus(corpus)
    found: Sequence[Entry | Bare] = [locate(text, corpus) for text in entries] if entries else store.entries()
    bare = [each for each in found if isinstance(each, Bare)]
    chosen = [each for each in found if not isinstance(each, Bare) and (not only or each.target in only)]
    if not chosen and not bare:
        raise UsageError(f"no entries to replay in {corpus}" if not entries else "no entry is of the targets asked for")
    names = list(dict.fromkeys(spec_of(entry.target).name for entry in chosen))
    if bare:
        names = list(dict.fromkeys([*names, *(only or [spec.name for spec in all_targets() if spec.default])]))
    session = Session.open(names, required=required, case_seconds=case_timeout, memory_mb=memory_limit)
    out, _ = consoles(no_color=no_color)
    results: list[Replay] = []
    cases: list[tuple[Bare, CaseReplay]] = []
    try:
        session.versions()  # waits for every target, and leaves out those that cannot start
        runner = session.runner(0)
        evaluator = Evaluator(runner, policy=policy_of(configuration()), want=("trace",))
        for entry in chosen:
            if entry.target in session.missing:
                results.append(Replay(entry, State.CANNOT_RUN, session.missing[entry.target]))
            else:
                results.append(replay_entry(entry, spec_of(entry.target), evaluator, runner))
            if not as_json:
                _show(results[-1], out)
        wanted = [spec for spec in session.targets if not only or spec.name in only]
        for each in bare:
            cases += [(each, ran) for ran in replay_case(each.case, wanted, evaluator)]
    finally:
        session.close()
    if as_json:
        click.echo(json.dumps([_plain(result) for result in results] + [_plain_case(each, ran) for each, ran in cases], indent=2))
    else:
        for each, ran in cases:
            out.print(f"{ran.state:12} {each.path} on {ran.target}  {ran.message}", markup=False, highlight=False, soft_wrap=True)
        for name, reason in session.missing.items() if bare else ():
            out.print(f"{'CANNOT RUN':12} {name}  {reason}", markup=False, highlight=False, soft_wrap=True)
        if results:
            out.print(_count(results), highlight=False)
    if not any(result.conclusive for result in results) and not any(ran.conclusive for _, ran in cases):
        return int(ExitCode.NOTHING_TESTED)
    surprising = any(result.conclusive and not result.as_expected for result in results) or any(ran.disagrees for _, ran in cases)
    return int(ExitCode.NEW_FINDING if surprising else ExitCode.NOTHING_NEW)


def _show(result: Replay, out: object) -> None:
    from rich.console import Console
    from rich.markup import escape

    assert isinstance(out, Console)
    colour = "green" if result.as_expected else "red" if result.conclusive else "yellow"
    out.print(
        f"[{colour}]{result.state.value:12}[/] {escape(result.entry.slug)}  {escape(result.message)}", highlight=False, soft_wrap=True
    )


def _plain(result: Replay) -> dict[str, object]:
    return {
        "entry": result.entry.slug,
        "target": result.entry.target,
        "status": result.entry.status,
        "state": result.state.value,
        "as_expected": result.as_expected,
        "message": result.message,
    }


def _plain_case(bare: Bare, ran: CaseReplay) -> dict[str, object]:
    return {"case": str(bare.path), "target": ran.target, "state": ran.state, "message": ran.message}


def _count(results: Sequence[Replay]) -> str:
    states: dict[str, int] = {}
    for result in results:
        states[result.state.value] = states.get(result.state.value, 0) + 1
    return ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
