"""The terminal: live progress on stderr, findings and the summary on stdout; words carry the meaning, colour repeats it."""

from __future__ import annotations

import itertools
import time
from collections import Counter

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.syntax import Syntax
from rich.table import Table

from harness import events
from harness.model.outcome import TARGETS_FAULT
from harness.model.parameters import needs
from harness.model.verdict import Severity
from harness.reporting.commands import for_cases
from harness.reporting.tally import Tally

PLAIN_EVERY = 30.0
_SOURCE_LINES = 10
_MEANINGS = {
    Severity.CRASH: "crash, hang or blow-up",
    Severity.INVALID_IR: "invalid IR",
    Severity.WRONG_VALUE: "wrong values",
    Severity.ERROR: "error on a legal program",
    Severity.CONTRACT: "wrong dtype, shape, structure or mutation",
    Severity.SPECIAL_VALUE: "wrong on special values",
    Severity.REFUSAL: "refusal",
}


def _how_many(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


class ConsoleReporter:
    """Shows a run to a person; `verbosity` -1 is quiet, 1 shows every disagreement as it appears."""

    def __init__(self, tally: Tally, *, out: Console, err: Console, verbosity: int = 0, budget: float | None = None) -> None:
        self._tally = tally
        self._out = out
        self._err = err
        self._verbosity = verbosity
        self._budget = budget
        self._begun = self._last_line = time.monotonic()
        self._progress: Progress | None = None

    def __call__(self, event: events.Event) -> None:
        """Show one event; the tally must have seen it already."""
        match event:
            case events.RunStarted():
                self._start(event)
            case events.FindingSaved():
                self._finding(event)
            case events.HarnessFault() if self._verbosity >= 0:
                whose = "target" if TARGETS_FAULT in event.message else "fxdiff"
                on = f" on {escape(event.target)}" if event.target else ""
                self._note(f"[magenta]fault in {whose}[/], case {event.index}{on}: {escape(event.message)}")
                if self._verbosity > 0 and event.traceback:
                    self._note(escape(event.traceback))
            case events.Disagreement() if self._verbosity > 0:
                self._note(f"case {event.index}: {escape(event.message)}")
            case events.Investigating() if self._verbosity > 0:
                self._note(f"case {event.index}: investigating {event.kind} on {event.target}")
            case events.Discarded() if self._verbosity > 0:
                self._note(f"case {event.index}: {event.kind} on {event.target} dropped: {escape(event.reason)}")
            case events.RunFinished():
                self.close()
            case _:
                pass
        self._tick()

    def _start(self, event: events.RunStarted) -> None:
        if self._verbosity < 0:
            return
        versions = ", ".join(f"{name} {version}" for name, version in event.versions.items())
        self._note(f"seed {event.seed}, profile {escape(event.profile.splitlines()[0][:60])}, {event.jobs} jobs; {versions}")
        self._note(f"targets: {', '.join(event.targets)}")
        for target, reason in event.missing.items():
            self._note(f"[yellow]left out[/] {target}: {escape(reason)}")
        if self._err.is_terminal:
            self._progress = Progress(SpinnerColumn(), TextColumn("{task.description}"), console=self._err, transient=True)
            self._progress.add_task("starting")
            self._progress.start()

    def _note(self, text: str) -> None:
        (self._progress.console if self._progress is not None else self._err).print(text, highlight=False, soft_wrap=True)

    def _tick(self) -> None:
        if self._verbosity < 0:
            return
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], description=self._line())
        elif time.monotonic() - self._last_line >= PLAIN_EVERY:
            self._last_line = time.monotonic()
            self._note(self._line())

    def _line(self) -> str:
        tally = self._tally
        elapsed = max(time.monotonic() - self._begun, 0.001)
        budget = f"/{self._budget:.0f}" if self._budget is not None else ""
        rejected = 100 * (tally.cases - tally.valid) / tally.cases if tally.cases else 0.0
        deaths = sum(counts[status] for counts in tally.statuses.values() for status in ("crash", "timeout", "oom"))
        return (
            f"{elapsed:.0f}{budget} s  {tally.cases} cases  {tally.executions / elapsed:.1f} executions/s  {rejected:.1f}% rejected  "
            f"{len(tally.findings)} new  {tally.known_hits} known hits  {deaths} worker deaths"
        )

    def _finding(self, event: events.FindingSaved) -> None:
        if self._verbosity < 0:
            return
        severity = _MEANINGS[Severity(event.severity)]
        self._out.print(f"\n[bold red]NEW[/] [bold]{event.slug}[/]  {severity}, {event.reproduced} times", highlight=False, soft_wrap=True)
        self._out.print(f"  {escape(event.message)}", highlight=False, soft_wrap=True)
        if event.trigger:
            self._out.print(f"  needs: {escape(', '.join(needs(event.trigger, event.operator)))}", highlight=False, soft_wrap=True)
        lines = [line for line in event.source.splitlines() if line.strip() and line != "import torch"]
        if lines:
            shown = "\n".join("  " + line for line in lines[:_SOURCE_LINES])
            if len(lines) > _SOURCE_LINES:
                shown += f"\n  # and {len(lines) - _SOURCE_LINES} lines more"
            self._out.print(Syntax(shown, "python", background_color="default") if self._out.is_terminal else escape(shown), soft_wrap=True)
        if event.note:
            self._out.print(f"  note: {escape(event.note)}", highlight=False, soft_wrap=True)
        if event.path:
            started = self._tally.started
            imports = "".join(f"--import {name} " for name in started.imports) if started is not None else ""
            self._out.print(f"  run it: fxdiff replay {escape(imports + event.path)}", highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Take the live line away."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def summary(self, *, next_commands: list[str]) -> None:
        """The last page: findings by severity, known hits, support, rejections, cost, and how to go on."""
        tally, out = self._tally, self._out
        finished = tally.finished
        out.print()
        reason = finished.reason if finished else "cut short"
        seconds = tally.seconds if finished else time.monotonic() - self._begun
        out.print(
            f"[bold]{_how_many(tally.cases, 'case')}[/] ({tally.valid} valid), {_how_many(tally.executions, 'execution')} in "
            f"{seconds:.0f} s; ended because {reason}",
            highlight=False,
            soft_wrap=True,
        )
        self._findings_table()
        if tally.known:
            hits = _how_many(tally.known_hits, "more disagreement")
            out.print(f"{hits}, explained by bugs that are known or stand above:", highlight=False, soft_wrap=True)
            ranked = sorted(tally.known.items(), key=lambda item: -sum(item[1].values()))
            for signature, counts in ranked[: 10 if self._verbosity < 1 else None]:
                link = tally.links.get(signature, "")
                out.print(f"  {sum(counts.values()):5}  {escape(signature)} {escape(link)}", highlight=False, soft_wrap=True)
            if len(ranked) > 10 and self._verbosity < 1:
                out.print(f"         and {len(ranked) - 10} more; -v lists them", highlight=False)
        self._issues()
        self._status_table()
        self._refusals()
        if tally.discarded:
            for dropped, count in tally.discarded.most_common(5):
                out.print(f"{_how_many(count, 'disagreement')} dropped: {escape(dropped)}", highlight=False, soft_wrap=True)
                self._where_dropped(tally.examples[dropped])
        ours = len(tally.faults) - tally.targets_faults
        for count, whose in ((ours, "fxdiff itself"), (tally.targets_faults, "targets of others")):
            if count:
                out.print(f"[magenta]{_how_many(count, 'fault')} in {whose}[/]; see events.ndjson", highlight=False, soft_wrap=True)
        for text, count in tally.rejected.most_common(3):
            out.print(f"rejected by eager {count}: {escape(text[:110])}", highlight=False, soft_wrap=True)
        if tally.cpu:
            total = sum(tally.cpu.values())
            parts = ", ".join(f"{name} {value:.0f}" for name, value in tally.cpu.most_common())
            out.print(f"CPU seconds: {total:.0f} ({parts})", highlight=False, soft_wrap=True)
        for command in next_commands:
            out.print(f"  {escape(command)}", highlight=False, soft_wrap=True)

    def _where_dropped(self, event: events.Discarded) -> None:
        """Which case it was, and how to see it again."""
        started = self._tally.started
        if started is None:
            return
        again = for_cases(started.command, event.index, event.index)
        self._out.print(f"  {event.kind} on {escape(event.target)}: {escape(again)} -v", highlight=False, soft_wrap=True)

    def _findings_table(self) -> None:
        found = self._tally.new_findings
        if not found:
            self._out.print("no new findings", highlight=False)
            return
        count = "1 new finding" if len(found) == 1 else f"{len(found)} new findings, worst first"
        self._out.print(f"[bold]{count}:[/]", highlight=False)
        for severity, events_of in itertools.groupby(found, key=lambda event: event.severity):
            self._out.print(f"  {_MEANINGS[Severity(severity)]}", highlight=False)
            for event in events_of:
                nodes = "1 node" if event.nodes == 1 else f"{event.nodes} nodes"
                unsaved = "" if event.path else "  [yellow]not saved[/]"
                self._out.print(f"    {event.slug}  ({event.target}, {nodes}){unsaved}", highlight=False, soft_wrap=True)

    def _issues(self) -> None:
        """Known issues that no longer do what they are there for."""
        for issue in self._tally.issues.values():
            said = {"expired": "has expired", "outdated": "is of versions before this one"}.get(issue.standing)
            if said is not None:
                self._out.print(f"known issue {escape(issue.name)} {said}: {escape(issue.link)}", highlight=False, soft_wrap=True)
        for issue, ran in self._tally.stale_issues:
            what = escape(issue.operator or "its target")
            self._out.print(
                f"known issue {escape(issue.name)} explained nothing, though {what} ran {ran} times: {escape(issue.link)}",
                highlight=False,
                soft_wrap=True,
            )

    def _status_table(self) -> None:
        statuses = self._tally.statuses
        if not statuses:
            return
        names = sorted({status for counts in statuses.values() for status in counts})
        table = Table(box=None, pad_edge=False)
        table.add_column("target")
        for name in names:
            table.add_column("ran" if name == "ok" else name, justify="right")  # whether the values are right is said above
        for target, counts in sorted(statuses.items()):
            table.add_row(target, *(str(counts[name]) if counts[name] else "." for name in names))
        self._out.print(table)

    def _refusals(self) -> None:
        refused: dict[str, Counter[str]] = {}
        ran: dict[str, set[str]] = {}
        for (target, operator, _), counts in self._tally.support.items():
            if counts["unsupported"]:
                refused.setdefault(target, Counter())[operator] += counts["unsupported"]
            if counts["ok"]:
                ran.setdefault(target, set()).add(operator)
        for target in sorted({*refused, *ran}):
            worst = ", ".join(f"{name} {count}" for name, count in refused.get(target, Counter()).most_common(6))
            tail = f"; refused most: {worst}" if worst else ""
            self._out.print(f"{target}: {_how_many(len(ran.get(target, ())), 'operator')} ran{tail}", highlight=False, soft_wrap=True)
