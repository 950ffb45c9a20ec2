"""`fxdiff replay`: run entries, findings or the whole corpus again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.exit_codes import ExitCode, epilog
from harness.cli.parameters import Duration, Megabytes

if TYPE_CHECKING:
    from harness.corpus.entry import Entry
    from harness.engine.replay import Replay


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

    ENTRY is a folder, a folder's name, or the unique beginning of an id; without any, the whole corpus. Exit code 1
    where an entry no longer behaves as its status says.
    """
    from harness.backends.protocol import target as spec_of
    from harness.cli.configured import configuration, policy_of
    from harness.cli.session import Session, consoles, load_plugins
    from harness.corpus.store import Corpus
    from harness.engine.evaluate import Evaluator
    from harness.engine.replay import Replay, State, replay_entry
    from harness.errors import UsageError

    load_plugins(imports)
    store = Corpus(corpus)
    chosen: Sequence[Entry] = [store.find(text) for text in entries] if entries else store.entries()
    chosen = [entry for entry in chosen if not only or entry.target in only]
    if not chosen:
        raise UsageError(f"no entries to replay in {corpus}" if not entries else "no entry is of the targets asked for")
    names = list(dict.fromkeys(spec_of(entry.target).name for entry in chosen))
    session = Session.open(names, required=required, case_seconds=case_timeout, memory_mb=memory_limit)
    out, _ = consoles(no_color=no_color)
    results: list[Replay] = []
    try:
        runner = session.runner(0)
        evaluator = Evaluator(runner, policy=policy_of(configuration()), want=("trace",))
        for entry in chosen:
            if entry.target in session.missing:
                results.append(Replay(entry, State.CANNOT_RUN, session.missing[entry.target]))
            else:
                results.append(replay_entry(entry, spec_of(entry.target), evaluator, runner))
            if not as_json:
                _show(results[-1], out)
    finally:
        session.close()
    if as_json:
        click.echo(json.dumps([_plain(result) for result in results], indent=2))
    else:
        out.print(_count(results), highlight=False)
    if not any(result.conclusive for result in results):
        return int(ExitCode.NOTHING_TESTED)
    surprising = any(result.conclusive and not result.as_expected for result in results)
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


def _count(results: Sequence[Replay]) -> str:
    states: dict[str, int] = {}
    for result in results:
        states[result.state.value] = states.get(result.state.value, 0) + 1
    return ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
