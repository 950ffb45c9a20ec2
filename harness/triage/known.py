"""Which bugs are known: by trigger, confirmed by neutralizing it."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from harness.minimize.passes import Traces
from harness.model.case import Case
from harness.model.opnames import canonical
from harness.triage.features import node_features
from harness.triage.issues import KnownIssue


@dataclass(frozen=True, slots=True)
class KnownBug:
    """A bug by its trigger: the operator and the features that it needs, on one target in one kind.

    `is_issue` where it is nothing that fxdiff minimized, but what known_issues.toml says.
    """

    signature: str
    target: str
    kind: str
    operator: str
    trigger: frozenset[str]
    link: str = ""
    path: str = ""
    is_issue: bool = False


class KnownBugs:
    """The bugs that this run need not investigate again; safe to use from several threads."""

    def __init__(self, bugs: Iterable[KnownBug] = (), *, issues: Iterable[KnownIssue] = ()) -> None:
        self._issues = tuple(issues)
        self._lock = threading.Lock()
        self._bugs: dict[str, KnownBug] = {}
        self._elsewhere: dict[tuple[str, str], KnownBug] = {}  # the same bugs, met on further targets of their family
        self._aliases: dict[tuple[str, str, str, frozenset[str]], str] = {}
        for bug in bugs:
            self.add(bug)

    def add(self, bug: KnownBug) -> bool:
        """Add a bug; False where its signature is there already, be it on another target, which then knows it too."""
        with self._lock:
            first = self._bugs.get(bug.signature)
            if first is not None:
                if first.target != bug.target:
                    self._elsewhere[bug.signature, bug.target] = replace(bug, link=first.link, path=first.path)
                return False
            self._bugs[bug.signature] = bug
            return True

    def get(self, signature: str) -> KnownBug | None:
        """The bug of this signature."""
        with self._lock:
            return self._bugs.get(signature)

    def remember(self, target: str, kind: str, operator: str, features: frozenset[str], signature: str) -> None:
        """Note that a node with these very features was minimized to `signature`."""
        with self._lock:
            self._aliases[target, kind, operator, features] = signature

    def match(self, target: str, kind: str, operator: str, features: frozenset[str]) -> KnownBug | None:
        """The known bug whose trigger holds in such a node; the most specific one, and a known issue before all others."""
        issue = max(
            (each for each in self._issues if each.holds_at(target, kind, operator, features)),
            key=lambda each: (len(each.features), each.name),
            default=None,
        )
        if issue is not None:
            return _bug_of(issue, target, kind, operator)
        with self._lock:
            alias = self._aliases.get((target, kind, operator, features))
            if alias is not None and alias in self._bugs:
                return self._bugs[alias]
            found = [
                bug
                for bug in (*self._bugs.values(), *self._elsewhere.values())
                if bug.target == target and bug.kind == kind and bug.operator == operator and bug.trigger <= features
            ]
        return max(found, key=lambda bug: (len(bug.trigger), bug.signature), default=None)

    def told(self, target: str, kind: str, message: str, operators: Collection[str]) -> KnownBug | None:
        """The known issue that speaks of this very message."""
        issue = next((each for each in self._issues if each.is_told_by(target, kind, message, operators)), None)
        return _bug_of(issue, target, kind, issue.operator) if issue is not None else None


def _bug_of(issue: KnownIssue, target: str, kind: str, operator: str) -> KnownBug:
    return KnownBug(issue.signature, target, kind, operator, issue.features, issue.link, is_issue=True)


def suspects(case: Case, traces: Traces, known: KnownBugs, target: str, kind: str) -> dict[str, KnownBug]:
    """The nodes of a case in which a known trigger of this target and kind holds, in any call."""
    found: dict[str, KnownBug] = {}
    for node in case.program.operators:
        operator = canonical(node, case.program)
        for trace in traces or ({},):
            bug = known.match(target, kind, operator, node_features(case, node, trace))
            if bug is not None:
                found[node.name] = bug
                break
    return found


def operators_of(case: Case) -> Mapping[str, str]:
    """The canonical operator of every operator node."""
    return {node.name: canonical(node, case.program) for node in case.program.operators}
