"""Compare fxdiff's verdicts with those recorded for modules of public bug reports.

    python -m tests.external.public_reports REPORTS.jsonl [--only ID] [--json FILE]

Each line of REPORTS.jsonl holds `id`, `module` (source with build() and inputs()), `mode`, `dynamic`, `checks` and `today`, the
recorded verdicts by system. Every module is checked as `fxdiff check` does it, without minimizing. A verdict must agree with
`today`, or stand with its reason in public_reports_exceptions.toml. Exit code 0: all agree or are excepted; 1: some do not,
or an exception is no longer needed; 3: fxdiff itself failed on some module.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.cli.checking import Captured, Capturer, Checking, open_session
from harness.config import Loaded, Settings
from harness.config.toml import Table, read_toml
from harness.engine.check import Answer, Checked, TargetResult
from harness.errors import FxdiffError
from harness.model.verdict import Kind

EXCEPTIONS = Path(__file__).with_name("public_reports_exceptions.toml")
NO_STRIDES = "neither OneFlow nor linalg-on-tensors promises a layout, and results travel as values"
TARGETS = ("oneflow:lockstep", "oneflow:eager", "torch-mlir:linalg")
SYSTEM_OF = {"oneflow:lockstep": "oneflow", "oneflow:eager": "oneflow", "torch-mlir:linalg": "torch_mlir"}


@dataclass(frozen=True)
class Row:
    """One module on one target: our verdict beside the recorded one."""

    id: str
    target: str
    ours: str
    theirs: str
    ours_detail: str
    theirs_detail: str
    excepted: str = ""

    @property
    def agrees(self) -> bool:
        # `lowered` there: compiled, its declared types right, and not executed by them.
        return self.ours == self.theirs or (self.theirs == "lowered" and self.ours == "pass")


def source_of(report: Mapping[str, Any]) -> str:
    """The module's file with its mode and dynamic sizes in fxdiff's form."""
    lines = [report["module"], f"MODE = {report['mode']!r}"]
    if report["dynamic"]:
        names = sorted({name for axes in report["dynamic"].values() for name in axes.values()})
        lines += ["from torch.export import Dim", *(f"_{name} = Dim({name!r})" for name in names)]
        shapes = [
            "{" + ", ".join(f"{axis}: _{name}" for axis, name in report["dynamic"].get(str(position), {}).items()) + "}"
            for position in range(1 + max(map(int, report["dynamic"])))
        ]
        lines.append(f"DYNAMIC_SHAPES = ({', '.join(shapes)},)")
    return "\n".join(lines) + "\n"


def settings_of(report: Mapping[str, Any]) -> Settings:
    """The special values that this report is about; an argument that was mutated is always compared."""
    return Settings(judge=("out-of-range", *(("signed-zero",) if report["checks"]["signed_zero"] else ())))


def recorded(report: Mapping[str, Any], system: str) -> tuple[str, str]:
    """The recorded status and detail: for torch-mlir those of its linalg-on-tensors output."""
    found = report["today"][system]
    if system == "torch_mlir":
        found = found.get("per_output_type", {}).get("linalg-on-tensors", found)
    return found["status"], found.get("detail") or ""


def verdict_of(result: TargetResult) -> tuple[str, str]:
    """Our answer in the words of the reports."""
    counted = [dispute for dispute in result.disputes if not dispute.dropped]
    if result.answer is Answer.DISAGREES:
        worst = counted[0].verdict
        return ("crash" if worst.kind in (Kind.CRASH, Kind.TIMEOUT, Kind.OOM) else "fail"), worst.message
    if result.answer is Answer.REFUSES:
        return "unsupported", "; ".join(result.refusals)
    if result.answer is Answer.UNDECIDED:
        return "undecided", "; ".join([*result.faults, *(dispute.dropped for dispute in result.disputes)])
    return "pass", ""


def exceptions(path: Path = EXCEPTIONS) -> dict[tuple[str, str], tuple[str, str]]:
    """By module and target: the verdict that ours is expected to be, and why it is not the recorded one."""
    data = read_toml(path)
    found = {}
    for number, item in enumerate(data.get("exception", []), start=1):
        table = Table(item, f"{path.name}: exception {number}")
        ids, targets, ours, why = table.texts("modules"), table.texts("targets"), table.text("ours"), table.text("why")
        table.finish()
        for module in ids:
            for target in targets:
                found[module, target] = (ours, why)
    return found


def check_all(reports: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], Checked | FxdiffError | Captured]]:
    """Every report, captured and checked."""
    with tempfile.TemporaryDirectory() as folder:
        captured: dict[str, Captured | FxdiffError] = {}
        with Capturer(seconds=120, memory_mb=3072) as capturer:
            for report in reports:
                path = Path(folder) / f"{report['id']}.py"
                path.write_text(source_of(report), encoding="utf-8")
                try:
                    captured[report["id"]] = capturer.capture(path)
                except FxdiffError as error:
                    captured[report["id"]] = error
        session = open_session(TARGETS, required=TARGETS, case_seconds=60.0)
        try:
            for report in reports:
                found = captured[report["id"]]
                if isinstance(found, FxdiffError) or not found.cases:
                    yield report, found
                    continue
                checking = Checking(
                    session, output=Path(folder) / report["id"], loaded=Loaded(settings_of(report)), corpus=Path(folder), minimize=False
                )
                yield report, checking.checker.check(report["id"], found.cases, how=found.how)
        finally:
            session.close()


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison and print its table."""
    parser = argparse.ArgumentParser(description="Compare fxdiff's verdicts with those recorded for public bug reports.")
    parser.add_argument("reports", type=Path)
    parser.add_argument("--only", action="append", help="only this id, repeatable")
    parser.add_argument("--json", type=Path, help="write every row to this file")
    options = parser.parse_args(arguments)
    reports = [json.loads(line) for line in options.reports.read_text(encoding="utf-8").splitlines() if line.strip()]
    if options.only:
        reports = [report for report in reports if report["id"] in options.only]
    excepted, rows, failures = exceptions(), [], []
    for report, outcome in check_all(reports):
        if isinstance(outcome, Captured) and outcome.usable:  # refused by name: a Program cannot hold it
            for target, system in SYSTEM_OF.items():
                rows.append(_row(report["id"], target, ("not captured", outcome.problem), recorded(report, system), excepted))
            continue
        if not isinstance(outcome, Checked):
            failures.append(f"{report['id']}: {outcome.problem if isinstance(outcome, Captured) else outcome}")
            continue
        if outcome.rejected:
            failures.append(f"{report['id']}: eager refuses what was captured: {outcome.rejected}")
        for result in outcome.targets:
            if result.internal:
                failures.append(f"{report['id']}: {result.target}: {'; '.join(result.faults)}")
            if result.target in SYSTEM_OF:
                found = recorded(report, SYSTEM_OF[result.target])
                rows.append(_row(report["id"], result.target, verdict_of(result), found, excepted))
    if options.json:
        options.json.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1), encoding="utf-8")
    asking = [report["id"] for report in reports if report["checks"]["strides"]]
    if asking:
        print(f"not compared: strides of results, which {', '.join(asking)} asks for: {NO_STRIDES}")
    return report_on(rows, failures)


def _row(
    module: str, target: str, ours: tuple[str, str], theirs: tuple[str, str], excepted: Mapping[tuple[str, str], tuple[str, str]]
) -> Row:
    expected, why = excepted.get((module, target), ("", ""))
    return Row(module, target, ours[0], theirs[0], ours[1], theirs[1], why if expected == ours[0] else "")


def report_on(rows: list[Row], failures: list[str]) -> int:
    """Print what agrees, what is excepted, and what is left; the exit code."""
    code = 0
    for target in TARGETS:
        own = [row for row in rows if row.target == target]
        agreeing = sum(row.agrees for row in own)
        excepted = sum(not row.agrees and bool(row.excepted) for row in own)
        print(f"{target:20} {len(own)} modules: {agreeing} agree, {excepted} excepted, {len(own) - agreeing - excepted} unexplained")
    for row in rows:
        if row.agrees and row.excepted:
            print(f"exception not needed: {row.id} {row.target}")
            code = 1
        elif not row.agrees and not row.excepted:
            print(f"{row.id} {row.target}: ours {row.ours}: {row.ours_detail[:150]} | recorded {row.theirs}: {row.theirs_detail[:150]}")
            code = 1
    for failure in failures:
        print(f"FAILED {failure[:400]}")
    return 3 if failures else code


if __name__ == "__main__":
    sys.exit(main())
