"""`fxdiff profile`: how long each node of a program takes in OneFlow."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.exit_codes import ExitCode, epilog

if TYPE_CHECKING:
    from harness.model.case import Case

FORMAT_VERSION = 1
_TARGETS = {"oneflow": "oneflow:fx"}
_FIRST_CALL = 1  # a profile is of one shape: that of the first call


@click.command("profile", epilog=epilog())
@click.argument("subject", metavar="FILE.py|ENTRY|FINDING|CASE")
@click.option("--target", "-t", "name", type=click.Choice(list(_TARGETS)), default="oneflow", show_default=True, help="System to measure.")
@click.option("--runs", type=click.IntRange(2, 10_000), default=20, show_default=True, help="How often to run it; the first warms up.")
@click.option("--case-timeout", type=float, default=120.0, show_default=True, help="Deadline of all runs together, in seconds.")
@click.option("--corpus", type=click.Path(path_type=Path), default=Path("corpus"), show_default=True, help="Folder to look entries up in.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def profile_command(subject: str, name: str, runs: int, case_timeout: float, corpus: Path, as_json: bool) -> int:
    """Print the mean time of every node and its share of the whole, the slowest first.

    Each node is waited for before the next one starts, so that its kernels are measured and not only how long it takes to
    hand them out. FILE.py is what `fxdiff check` takes; of an entry or a case the first call is run, forward only.
    """
    from harness.backends.protocol import target
    from harness.cli.session import run_once
    from harness.model.outcome import Status

    spec = target(_TARGETS[name])
    spec = dataclasses.replace(spec, options={**spec.options, "way": "profile", "runs": str(runs)})
    found: list[dict[str, Any]] = []
    for case in _cases(subject, corpus):
        first = dataclasses.replace(case, calls=case.calls[:_FIRST_CALL], mode="fwd")
        outcome = run_once(first, spec, case_seconds=case_timeout)
        if outcome.status is not Status.OK:
            where = f" at {outcome.node}" if outcome.node else ""
            click.echo(f"fxdiff: {subject} cannot be measured: {outcome.target}{where}: {outcome.message}", err=True)
            return int(ExitCode.INTERNAL if outcome.status is Status.HARNESS_ERROR else ExitCode.NOTHING_TESTED)
        found.append(json.loads(outcome.artifacts["profile.json"]))
    if as_json:
        click.echo(json.dumps({"format_version": FORMAT_VERSION, "target": name, "runs": runs, "graphs": found}, indent=2))
        return 0
    for index, graph in enumerate(found):
        if len(found) > 1:
            click.echo(f"graph {index}:")
        click.echo("\n".join(_lines(graph)))
    return 0


def _cases(subject: str, corpus: Path) -> tuple[Case, ...]:
    """The programs that `subject` names; raises UsageError where a file cannot be captured."""
    from harness.cli.checking import Capturer
    from harness.cli.locating import locate
    from harness.errors import UsageError

    if Path(subject).suffix != ".py":
        return (locate(subject, corpus).case,)
    with Capturer(seconds=60.0, memory_mb=3072) as capturer:
        captured = capturer.capture(Path(subject))
    if not captured.cases:
        raise UsageError(captured.problem)
    return captured.cases


def _lines(graph: dict[str, Any]) -> list[str]:
    rows = [("node", "opcode", "target", "mean ms", "share")]
    rows += [(n["name"], n["op"], n["target"], f"{n['seconds'] * 1e3:.3f}", f"{n['share']:.1%}") for n in graph["nodes"]]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = []
    for row in rows:
        left = [cell.ljust(width) for cell, width in zip(row[:3], widths[:3], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(row[3:], widths[3:], strict=True)]
        lines.append("  ".join([*left, *right]))
    nodes = sum(node["seconds"] for node in graph["nodes"])
    return [*lines, f"all nodes: {nodes * 1e3:.3f} ms; a whole run: {graph['seconds'] * 1e3:.3f} ms"]
