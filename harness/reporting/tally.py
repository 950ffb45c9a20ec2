"""What a run amounts to: a pure account of its events, from which the summary and the terminal's last page are made."""

from __future__ import annotations

import dataclasses
import fnmatch
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from harness import events
from harness.model.outcome import TARGETS_FAULT
from harness.model.verdict import Severity

SUMMARY_VERSION = 1
STALE_AFTER = 20  # runs of what a known issue speaks of, after which its silence says something


@dataclass(slots=True)
class Tally:
    """Counts and findings so far; feed it every event in order."""

    started: events.RunStarted | None = None
    finished: events.RunFinished | None = None
    cases: int = 0
    valid: int = 0
    executions: int = 0
    statuses: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    operators: Counter[str] = field(default_factory=Counter)
    support: dict[tuple[str, str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    disagreements: Counter[str] = field(default_factory=Counter)
    findings: list[events.FindingSaved] = field(default_factory=list)
    issues: dict[str, events.IssueListed] = field(default_factory=dict)
    known: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    links: dict[str, str] = field(default_factory=dict)
    discarded: Counter[str] = field(default_factory=Counter)
    examples: dict[str, events.Discarded] = field(default_factory=dict)  # the first that was discarded, by reason
    faults: list[events.HarnessFault] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    cpu: Counter[str] = field(default_factory=Counter)
    begun: float = field(default_factory=time.monotonic)
    _started: set[int] = field(default_factory=set)
    _finished: set[int] = field(default_factory=set)
    _open: Counter[int] = field(default_factory=Counter)  # disagreements of a case of which nothing was said yet

    def __call__(self, event: events.Event) -> None:
        """Account for one event."""
        match event:
            case events.RunStarted():
                first = self.started.first_index if self.started is not None else event.first_index
                self.started = dataclasses.replace(event, first_index=first)
            case events.IssueListed():
                self.issues[event.name] = event
            case events.CaseStarted():
                self._started.add(event.index)
                del self._open[event.index]
            case events.CaseFinished():
                self._case(event)
            case events.Disagreement():
                self.disagreements[event.target] += 1
                self._open[event.index] += 1
            case events.FindingSaved():
                self.findings.append(event)
                self._open[event.index] -= 1
            case events.KnownHit():
                self.known[event.signature][event.target] += 1
                self.links[event.signature] = event.link
                self._open[event.index] -= 1
            case events.Discarded():
                self.discarded[event.reason] += 1
                self.examples.setdefault(event.reason, event)
                self._open[event.index] -= not event.reason.startswith(events.NOT_INVESTIGATED)
            case events.HarnessFault():
                self.faults.append(event)
                self._open[event.index] -= bool(event.kind)
            case events.RunFinished():
                self.finished = event
                self.seconds += event.seconds
                self.cpu.update(event.cpu)

    @property
    def targets_faults(self) -> int:
        """How many faults are those of targets of somebody else's."""
        return sum(TARGETS_FAULT in fault.message for fault in self.faults)

    @property
    def finished_cases(self) -> frozenset[int]:
        """The numbers of the cases that ran."""
        return frozenset(self._finished)

    @property
    def settled(self) -> frozenset[int]:
        """The cases that ran and whose every disagreement was settled: a resumed run need not run them again."""
        return frozenset(index for index in self._finished if self._open[index] <= 0)

    @property
    def in_flight(self) -> list[int]:
        """The cases that were begun and never finished, or whose disagreements were never settled."""
        return sorted((self._started | self._finished) - self.settled)

    def _case(self, event: events.CaseFinished) -> None:
        if event.index in self._finished:
            return  # run again by a resumed run; counted already
        self._finished.add(event.index)
        self.cases += 1
        self.valid += event.valid
        self.executions += event.executions
        for target, status in event.statuses.items():
            self.statuses[target][status] += 1
        if not event.valid:
            self.rejected[event.message or "rejected"] += 1
            return
        self.operators.update(event.operators)
        for row in event.support:
            target, operator, dtype, status = row.split("|")
            self.support[target, operator, dtype][status] += 1

    @property
    def new_findings(self) -> list[events.FindingSaved]:
        """Findings whose reproducer was saved, worst first."""
        return sorted(self.findings, key=lambda found: (-found.severity, found.target, found.operator, found.signature))

    @property
    def known_hits(self) -> int:
        """How many disagreements known bugs explained."""
        return sum(sum(counter.values()) for counter in self.known.values())

    @property
    def stale_issues(self) -> list[tuple[events.IssueListed, int]]:
        """Known issues that explained nothing although what they speak of ran, and how often it ran."""
        found = [(issue, self._ran(issue)) for issue in self.issues.values() if issue.standing == "active"]
        return [(issue, ran) for issue, ran in found if ran >= STALE_AFTER and issue.signature not in self.known]

    def _ran(self, issue: events.IssueListed) -> int:
        targets = [name for name in self.statuses if any(fnmatch.fnmatchcase(name, glob) for glob in issue.targets)]
        if not issue.operator:
            return sum(self.tested(target) for target in targets)
        return sum(
            count
            for (target, operator, _), counts in self.support.items()
            if target in targets and operator == issue.operator
            for status, count in counts.items()
            if status not in ("unsupported", "refused-whole")
        )

    def tested(self, target: str) -> int:
        """How many cases a target really ran to an answer."""
        counts = self.statuses.get(target, Counter())
        return sum(counts[status] for status in ("ok", "error", "crash", "timeout", "oom"))

    def summary(self) -> dict[str, Any]:
        """The run as plain data, for summary.json."""
        started, finished = self.started, self.finished
        stale = [issue for issue, _ in self.stale_issues]
        return {
            "format_version": SUMMARY_VERSION,
            "seed": started.seed if started else None,
            "profile": started.profile if started else None,
            "generator": started.generator if started else None,
            "command": started.command if started else None,
            "targets": list(started.targets) if started else [],
            "versions": dict(started.versions) if started else {},
            "missing": dict(started.missing) if started else {},
            "reason": finished.reason if finished else "cut short",
            "seconds": round(self.seconds, 2) if finished else None,
            "cpu_seconds": {"total": round(sum(self.cpu.values()), 2), **{name: round(value, 2) for name, value in self.cpu.items()}},
            "next_index": finished.next_index if finished else None,
            "cases": self.cases,
            "valid": self.valid,
            "executions": self.executions,
            "statuses": {target: dict(sorted(counts.items())) for target, counts in sorted(self.statuses.items())},
            "disagreements": dict(sorted(self.disagreements.items())),
            "findings": [
                {
                    "signature": found.signature,
                    "slug": found.slug,
                    "severity": Severity(found.severity).name.lower(),
                    "target": found.target,
                    "kind": found.kind,
                    "operator": found.operator,
                    "trigger": list(found.trigger),
                    "nodes": found.nodes,
                    "path": found.path,
                    "message": found.message,
                    "reproduced": found.reproduced,
                    "case_index": found.index,
                    "note": found.note,
                }
                for found in self.new_findings
            ],
            "known_issues": [
                {
                    "name": issue.name,
                    "link": issue.link,
                    "standing": "stale" if issue in stale else issue.standing,
                    "hits": sum(self.known[issue.signature].values()) if issue.signature in self.known else 0,
                }
                for issue in self.issues.values()
            ],
            "known": [
                {"signature": signature, "hits": sum(counts.values()), "targets": sorted(counts), "link": self.links.get(signature, "")}
                for signature, counts in sorted(self.known.items())
            ],
            "discarded": dict(self.discarded),
            "discarded_first": {
                reason: {"case_index": event.index, "target": event.target, "kind": event.kind} for reason, event in self.examples.items()
            },
            "harness_faults": len(self.faults) - self.targets_faults,
            "target_faults": self.targets_faults,
            "rejected": dict(self.rejected.most_common(20)),
            "support": [
                {"target": target, "operator": operator, "dtype": dtype, **dict(sorted(counts.items()))}
                for (target, operator, dtype), counts in sorted(self.support.items())
            ],
        }
