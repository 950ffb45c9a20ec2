"""`fxdiff check`: the user's own modules on every target."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.exit_codes import ExitCode, epilog
from harness.cli.parameters import Duration, Megabytes

_COLOURS = {"agrees": "green", "refuses": "yellow", "undecided": "yellow", "disagrees": "bold red"}

if TYPE_CHECKING:
    from rich.console import Console

    from harness.cli.checking import Captured
    from harness.engine.check import Checked


@click.command("check", epilog=epilog())
@click.argument("files", nargs=-1, required=True, metavar="FILE.py...", type=click.Path(path_type=Path))
@click.option("--target", "-t", "targets", multiple=True, help="Target to check, repeatable. [default: every default target]")
@click.option("--require-target", "required", multiple=True, help="Target that must be there, else exit code 4; repeatable.")
@click.option("--import", "imports", multiple=True, metavar="MODULE", help="Import this module first; it may register targets.")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Folder for findings. [default: fxdiff-out/TIME-check]")
@click.option("--corpus", type=click.Path(path_type=Path), default=Path("corpus"), show_default=True, help="Folder of known bugs.")
@click.option("--case-timeout", type=Duration(), default="30s", show_default=True, help="Deadline of one graph on one target.")
@click.option("--capture-timeout", type=Duration(), default="60s", show_default=True, help="Deadline of importing and capturing one file.")
@click.option("--memory-limit", type=Megabytes(), default="3G", show_default=True, help="Memory of one worker.")
@click.option("--no-minimize", is_flag=True, help="Save findings as they were localized.")
@click.option("--fail-on", type=click.Choice(["any", "new", "never"]), default="any", show_default=True, help="When to exit with code 1.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-q", "quiet", is_flag=True, help="Say nothing of the progress.")
@click.option("--no-color", is_flag=True, help="No colour; NO_COLOR does the same.")
def check_command(
    files: tuple[Path, ...],
    targets: tuple[str, ...],
    required: tuple[str, ...],
    imports: tuple[str, ...],
    output: Path | None,
    corpus: Path,
    case_timeout: float,
    capture_timeout: float,
    memory_limit: int,
    no_minimize: bool,
    fail_on: str,
    as_json: bool,
    quiet: bool,
    no_color: bool,
) -> int:
    """Run your own modules on eager PyTorch and on every target, and say where they disagree.

    FILE.py defines build(), which returns a torch.nn.Module, and inputs(), which returns the tuple of forward's
    arguments. It may define MODE ("fwd", "grad" or "train") and DYNAMIC_SHAPES, as torch.export takes them. Each file
    runs in a process of its own.
    """
    from harness.cli.checking import Capturer, Checking, open_session
    from harness.cli.configured import configuration, policy_of
    from harness.cli.session import consoles
    from harness.engine import check_report

    loaded = configuration()
    policy_of(loaded)  # complains now rather than after the capture
    out, err = consoles(no_color=no_color)

    def tell(text: str) -> None:
        if not quiet:
            err.print(text, markup=False, highlight=False, soft_wrap=True)

    with Capturer(seconds=capture_timeout, memory_mb=memory_limit) as capturer:
        captured = [capturer.capture(path) for path in files]
    results: list[Checked] = []
    missing: dict[str, str] = {}
    for each in captured:
        if each.problem:
            click.echo(f"fxdiff: {each.problem}", err=True)
    if any(each.cases for each in captured):
        session = open_session(targets, required=required, imports=imports, case_seconds=case_timeout, memory_mb=memory_limit)
        missing = dict(session.missing)
        checking = Checking(session, output=output, loaded=loaded, corpus=corpus, minimize=not no_minimize, tell=tell)
        try:
            for target, reason in missing.items():
                tell(f"left out {target}: {reason}")
            for each in captured:
                if each.cases:
                    begun = time.monotonic()
                    checked = checking.checker.check(str(each.path), each.cases, how=each.how)
                    results.append(dataclasses.replace(checked, seconds=time.monotonic() - begun))
                    if not as_json:
                        _show(results[-1], out)
        finally:
            checking.close()
    if as_json:
        problems = [{"module": str(each.path), "problem": each.problem} for each in captured if each.problem]
        report = {
            "format_version": check_report.FORMAT_VERSION,
            "modules": [check_report.data(checked) for checked in results],
            "problems": problems,
            "missing": missing,
        }
        click.echo(json.dumps(report, indent=2))
    return int(_exit_code(captured, results, fail_on))


def _show(checked: Checked, out: Console) -> None:
    """Print the report of one module; words carry the meaning, colour repeats it."""
    from rich.markup import escape

    from harness.engine.check_report import lines

    for line in lines(checked):
        text = escape(line)
        for result in checked.targets:
            if line.startswith(f"  {result.target} "):
                word = result.answer.value
                text = text.replace(f" {word}", f" [{_COLOURS[word]}]{word}[/]", 1)
        out.print(text, highlight=False, soft_wrap=True)


def _exit_code(captured: Sequence[Captured], results: Sequence[Checked], fail_on: str) -> ExitCode:
    """A disagreement counts most, then a file that is at fault, then a fault of ours, then that nothing was compared."""
    if fail_on != "never" and any(
        not checked.agrees if fail_on == "any" else any(result.is_new for result in checked.targets) for checked in results
    ):
        return ExitCode.NEW_FINDING
    if not all(each.usable for each in captured):
        return ExitCode.USAGE
    if any(result.internal for checked in results for result in checked.targets):
        return ExitCode.INTERNAL
    return ExitCode.NOTHING_NEW if any(checked.tested for checked in results) else ExitCode.NOTHING_TESTED
