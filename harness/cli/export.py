"""`fxdiff export`: a finding as a script, an issue, a pytest file, MLIR, or a test of the system's own suite."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.exit_codes import epilog

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.corpus.entry import Entry

FORMS = ("script", "issue", "pytest", "mlir", "e2e")


@click.command("export", epilog=epilog())
@click.argument("entry", metavar="ENTRY|FINDING")
@click.option("--as", "form", type=click.Choice(FORMS), required=True, help="What to make of it.")
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), help="File to write. [default: standard output]")
@click.option("--corpus", type=click.Path(path_type=Path), default=Path("corpus"), show_default=True, help="Folder to look entries up in.")
@click.option("--import", "imports", multiple=True, metavar="MODULE", help="Import this module first; it may register targets.")
@click.option("--no-run", is_flag=True, help="Do not run the script in a clean process first.")
def export_command(entry: str, form: str, output: Path | None, corpus: Path, imports: tuple[str, ...], no_run: bool) -> int:
    """Write a finding in a form that somebody without fxdiff can use; what is exported was run first and shows the bug.

    Scripts are made anew from the entry's case.json: the repro.py that lies beside it is never run, since anybody may have
    changed it.

    script: repro.py. issue: Markdown to paste, with a script of at most 40 lines. pytest: a file with one test that is
    expected to fail. mlir: input for torch-mlir-opt under lit's RUN line. e2e: a test in the manner of torch-mlir's
    end-to-end suite, or of OneFlow's unit tests.
    """
    from harness.cli.locating import locate_entry
    from harness.cli.session import load_plugins
    from harness.errors import UnknownName, UsageError
    from harness.exporting import export
    from harness.exporting.fresh import fresh
    from harness.torch_bridge.closed import check_closed

    load_plugins(imports)
    found = locate_entry(entry, corpus)
    for case in (found.case, found.victim):
        if case is not None:
            check_closed(case, where=str(found.path))
    try:
        made_anew = fresh(found)
    except UnknownName as error:
        raise UsageError(f"{error}; the module that registers {found.target} is named by --import") from error
    for name in made_anew.differing:
        click.echo(
            f"fxdiff: {found.path}/{name} is not what fxdiff makes of case.json (it was changed by hand, or written by another "
            "version): it is neither run nor exported",
            err=True,
        )
    made = export(made_anew.entry, form, shows=None if no_run else prover(made_anew.entry))
    if output is None:
        click.echo(made.text, nl=False)
        return 0
    try:
        output.write_text(made.text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from error
    click.echo(str(output), err=True)
    return 0


def prover(entry: Entry) -> Callable[[str], bool]:
    """Runs a script in the interpreter of the entry's target, and says whether it shows the bug."""
    from harness.exporting.forms import environment_of, needs_fxdiff
    from harness.exporting.proof import shows_bug
    from harness.reproducers.run import run_source
    from harness.workers.interpreters import interpreter_for

    verdict = entry.verdict
    shown, runs = entry.reproduced
    tries = 1 if shown == runs else 2 * runs

    def shows(script: str) -> bool:
        python, env = interpreter_for(environment_of(entry))
        path = tuple(os.path.abspath(each) for each in sys.path) if needs_fxdiff(entry) else ()
        ran = (run_source(script, python=python, env=env, timeout=90.0, path=path) for _ in range(tries))
        return verdict is not None and any(shows_bug(verdict, each) for each in ran)

    return shows
