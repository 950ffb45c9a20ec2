"""`fxdiff doctor`: what is installed, what is missing, why it matters, and the command that mends it."""

from __future__ import annotations

import json
import platform
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.backends.protocol import TargetSpec, target, targets
from harness.cli.configured import configuration, policy_of
from harness.config import Loaded
from harness.environments import python310
from harness.environments.availability import installed, missing, other_version
from harness.environments.cache import cache_dir, environment_dir, outdated
from harness.environments.cuda_stubs import NO_COMPILER, find_compiler
from harness.environments.missing import Missing
from harness.environments.oneflow_build import no_python310
from harness.environments.oneflow_env import read
from harness.environments.versions import pins
from harness.reporting.escaping import EscapingConsole

UNAVAILABLE = 4
_OWN_PACKAGES = ("hypothesis", "msgspec", "numpy", "pytest", "pytest-xdist", "click", "rich")

Smoke = Callable[[TargetSpec], str | None]
"""Runs one small case in a worker of the target; None where it is right, else what went wrong."""


@dataclass(frozen=True, slots=True)
class PackageReport:
    """An installed package beside its pin; `pinned` is None where any version will do."""

    name: str
    environment: str
    installed: str | None
    pinned: str | None

    @property
    def note(self) -> str:
        """What a reader should make of it."""
        if self.installed is None:
            return "missing"
        if self.pinned is not None and other_version(self.environment, self.name, self.installed):
            return f"not the pinned {self.pinned}: known bugs were recorded with that"
        return "ok"


@dataclass(frozen=True, slots=True)
class TargetReport:
    """A target and what it lacks. `check` is what a small case in its worker gave: `passed`, a failure, or `not run`."""

    name: str
    summary: str
    missing: Missing | None
    check: str

    @property
    def available(self) -> bool:
        """Whether the target can be used."""
        return self.missing is None and self.check in ("passed", "not run")


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that `fxdiff doctor` knows."""

    fxdiff: str
    python: str
    python_path: str
    packages: tuple[PackageReport, ...]
    python310: python310.Search
    compiler: tuple[str, ...] | None
    cache: Path
    oneflow: Path | None
    outdated: tuple[Path, ...]
    targets: tuple[TargetReport, ...]


def examine(*, smoke: Smoke | None = None) -> Report:
    """Look at this machine; with `smoke`, every target that lacks nothing also runs a small case."""
    environment = read(environment_dir("oneflow"))
    inside = environment.versions if environment is not None else {}
    packages = [PackageReport(name, "main", installed(name), pin) for name, pin in pins("main").items()]
    packages += [PackageReport(name, "main", installed(name), None) for name in _OWN_PACKAGES]
    packages += [PackageReport(name, "oneflow", inside.get(name), pin) for name, pin in pins("oneflow").items()]
    return Report(
        fxdiff=installed("fxdiff") or "not installed",
        python=platform.python_version(),
        python_path=sys.executable,
        packages=tuple(packages),
        python310=python310.search(),
        compiler=find_compiler(),
        cache=cache_dir(),
        oneflow=environment.launcher if environment is not None else None,
        outdated=outdated("oneflow"),
        targets=tuple(_examine_target(spec, smoke) for spec in targets()),
    )


def _examine_target(spec: TargetSpec, smoke: Smoke | None) -> TargetReport:
    problem = missing(spec.zygote)
    failure = smoke(spec) if smoke is not None and problem is None else None
    check = "not run" if smoke is None or problem is not None else failure or "passed"
    return TargetReport(spec.name, spec.summary, problem, check)


def mends(report: Report) -> tuple[Missing, ...]:
    """Everything missing, once each; where OneFlow is not built, first what its build would lack."""
    problems: list[Missing] = []
    if report.oneflow is None:
        if report.python310.found is None:
            problems.append(no_python310(report.python310))
        if report.compiler is None:
            problems.append(NO_COMPILER)
    problems += [item.missing for item in report.targets if item.missing is not None]
    return tuple(dict.fromkeys(problems))


def as_data(report: Report) -> dict[str, object]:
    """The report as plain data for `--json`."""
    found = report.python310.found
    return {
        "format_version": 1,
        "fxdiff": report.fxdiff,
        "python": {"version": report.python, "path": report.python_path},
        "packages": [asdict(package) | {"note": package.note} for package in report.packages],
        "python310": {"found": asdict(found) if found else None, "refused": [asdict(refusal) for refusal in report.python310.refused]},
        "compiler": list(report.compiler) if report.compiler else None,
        "cache": {
            "path": str(report.cache),
            "oneflow": str(report.oneflow) if report.oneflow else None,
            "outdated": [str(path) for path in report.outdated],
        },
        "targets": [asdict(item) | {"available": item.available} for item in report.targets],
        "missing": [asdict(problem) for problem in mends(report)],
    }


def show(report: Report, console: Console) -> None:
    """Print the report for people: tables on a terminal, plain lines elsewhere."""
    _section(console, "Interpreters", ("what", "version", "where"), _interpreters(report))
    _section(
        console,
        "Packages",
        ("environment", "package", "installed", "pinned", "note"),
        [(item.environment, item.name, item.installed or "-", item.pinned or "any", item.note) for item in report.packages],
    )
    _section(
        console,
        "Targets",
        ("target", "available", "check", "what it is"),
        [(item.name, "yes" if item.available else "no", item.check, item.summary) for item in report.targets],
    )
    if report.python310.found is not None:  # otherwise the refusals are told as the reason
        for refusal in report.python310.refused:
            _say(console, f"Passed over as Python 3.10: {refusal.path} ({refusal.source}): {refusal.reason}")
    for path in report.outdated:
        _say(console, f"Built for other pins, perhaps for another checkout: rm -r {shlex.quote(str(path))}")
    problems = mends(report)
    for problem in problems:
        _say(console, f"\nMissing: {problem.what}\n  Why it matters: {problem.why}\n  To mend it:     {problem.mend}")
    failed = [item for item in report.targets if item.missing is None and not item.available]
    for item in failed:
        _say(console, f"\nBroken: {item.name}: {item.check}")
    if not problems and not failed:
        _say(console, "Nothing is missing.")


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _interpreters(report: Report) -> list[tuple[str, ...]]:
    found = report.python310.found
    return [
        ("fxdiff", report.fxdiff, str(Path(__file__).resolve().parents[2])),
        ("Python", report.python, report.python_path),
        ("Python 3.10 for OneFlow", found.version if found else "-", f"{found.path} ({found.source})" if found else "not found"),
        (
            "OneFlow's interpreter",
            pins("oneflow")["oneflow"] if report.oneflow else "-",
            str(report.oneflow or f"not built; cache: {report.cache}"),
        ),
        ("C compiler", "", shlex.join(report.compiler) if report.compiler else "not found"),
    ]


def _section(console: Console, title: str, columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
    if console.is_terminal:
        table = Table(title=title, title_justify="left")
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)
        return
    widths = [max(len(line[index]) for line in (columns, *rows)) for index in range(len(columns))]
    _say(console, f"{title}:")
    for row in rows:
        _say(console, "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def doctor(as_json: bool, *, require: Sequence[str] = (), smoke: Smoke | None = None, console: Console | None = None) -> int:
    """Print what is there and what is missing; 0, or 4 where a target named in `require` is not available.

    Raises UnknownName for a required target that does not exist.
    """
    required = {target(name).name for name in require}
    report = examine(smoke=smoke)
    if as_json:
        click.echo(json.dumps(as_data(report), indent=2))
    else:
        show(report, console or EscapingConsole())
    lacking = sorted(item.name for item in report.targets if item.name in required and not item.available)
    if lacking:
        click.echo(f"error: required but not available: {', '.join(lacking)}", err=True)
    return UNAVAILABLE if lacking else 0


def print_configuration(loaded: Loaded, *, as_json: bool) -> None:
    """Print every key, its value, and the file or `default` that it comes from."""
    policy_of(loaded)  # complains of what no table knows
    rows = [(key, _configured(value), source) for key, value, source in loaded.rows()]
    if as_json:
        path = str(loaded.path) if loaded.path is not None else None
        values = {key: {"value": value, "source": source} for key, value, source in rows}
        click.echo(json.dumps({"format_version": 1, "path": path, "values": values}, indent=2))
        return
    width = max(len(key) for key, _, _ in rows)
    for key, value, source in rows:
        click.echo(f"{key:{width}}  {json.dumps(value)}  ({source})")
    click.echo(
        f"read from {loaded.path}" if loaded.path is not None else "no fxdiff.toml and no [tool.fxdiff] in a pyproject.toml, here or above"
    )


def _configured(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value


def command(smoke: Smoke | None = None) -> click.Command:
    """The click command; `smoke` lets it also run a small case through each target's worker."""

    @click.command("doctor", help="Say what is installed, what is missing, why it matters, and the command that mends it.")
    @click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
    @click.option("--require-target", "require", multiple=True, metavar="NAME", help="Exit with 4 where this target is not available.")
    @click.option("--config", "show_config", is_flag=True, help="Print every configured value and where it comes from, and nothing else.")
    @click.pass_context
    def run(context: click.Context, as_json: bool, require: tuple[str, ...], show_config: bool) -> None:
        if show_config:
            print_configuration(configuration(), as_json=as_json)
            return
        context.exit(doctor(as_json, require=require, smoke=smoke))

    return run


doctor_command = command()
