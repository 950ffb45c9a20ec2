"""Known issues: a team's own word that a disagreement is accounted for, with a link, and for how long that holds."""

from __future__ import annotations

import datetime
import enum
import fnmatch
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.version import InvalidVersion, Version

from harness.config.toml import Table, read_toml
from harness.errors import FormatError
from harness.model.parameters import positional
from harness.model.verdict import Kind

FORMAT_VERSION = 1
MAX_ISSUES = 10_000
_MAX_PATTERN = 200
_MAX_MESSAGE = 2_000
# A repeated group that repeats inside, or a reference back to a group: what makes a pattern take for ever.
_EXPLOSIVE = re.compile(r"[*+}]\??\)[*+{]|\([^()]*[*+}][^()]*\)[*+{]|\\[1-9]|\(\?P=|\(\?[(<][=!]?.*[*+]")


class Standing(str, enum.Enum):
    """Whether an issue still speaks."""

    ACTIVE = "active"
    EXPIRED = "expired"  # its date has passed
    OUTDATED = "outdated"  # the version that fixes it is here


@dataclass(frozen=True, slots=True)
class KnownIssue:
    """One accepted disagreement.

    It speaks of `targets` (globs) and `kinds` (empty: any), and either of a trigger, `operator` with `features` that must
    all hold at the guilty node, or of a `message`, a regular expression searched for in the verdict's sentence; with
    `operator` too, the program must hold that operator. `until` names by package the first version without it.
    """

    name: str
    link: str
    targets: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    operator: str = ""
    features: frozenset[str] = frozenset()
    message: str = ""
    until: Mapping[str, str] = field(default_factory=dict, hash=False)
    expires: datetime.date | None = None
    why: str = ""

    @property
    def signature(self) -> str:
        """How reports call it."""
        return f"issue:{self.name}"

    def speaks_of(self, target: str, kind: str) -> bool:
        """Whether target and kind are its own."""
        return (not self.kinds or kind in self.kinds) and any(fnmatch.fnmatchcase(target, glob) for glob in self.targets)

    def holds_at(self, target: str, kind: str, operator: str, features: frozenset[str]) -> bool:
        """Whether its trigger holds in a node of this operator and these features."""
        held = all(feature in features or positional(feature, operator) in features for feature in self.features)
        return not self.message and operator == self.operator and held and self.speaks_of(target, kind)

    def is_told_by(self, target: str, kind: str, message: str, operators: Collection[str]) -> bool:
        """Whether its message is in this one."""
        if not self.message or not self.speaks_of(target, kind) or (self.operator and self.operator not in operators):
            return False
        return re.search(self.message, message[:_MAX_MESSAGE]) is not None

    def standing(self, versions: Mapping[str, str], today: datetime.date) -> Standing:
        """Whether it still holds for installed `versions`; a package that is not among them decides nothing."""
        if self.expires is not None and today > self.expires:
            return Standing.EXPIRED
        for package, fixed_in in self.until.items():
            if package in versions and _version(versions[package]) >= _version(fixed_in):
                return Standing.OUTDATED
        return Standing.ACTIVE


def read_issues(path: Path) -> tuple[KnownIssue, ...]:
    """The issues of a file; none where there is no such file. Raises FormatError that names the issue and the key."""
    if not path.exists():
        return ()
    data = read_toml(path)
    top = Table(data, str(path))
    version = top.integer("format_version", 0, 1 << 31)
    if version != FORMAT_VERSION:
        raise FormatError(f"format_version is {version}; this fxdiff reads {FORMAT_VERSION}", where=str(path))
    items = data.get("issue", [])
    if not isinstance(items, list) or len(items) > MAX_ISSUES:
        raise top.wrong("issue", f"a list of at most {MAX_ISSUES} tables, each headed [[issue]],")
    Table({key: value for key, value in data.items() if key not in ("issue", "format_version")}, str(path)).finish()
    issues = tuple(_read(Table(item, f"{path}: issue {number}")) for number, item in enumerate(items, start=1))
    names = [issue.name for issue in issues]
    for number, name in enumerate(names, start=1):
        if name in names[: number - 1]:
            raise FormatError(f"the name {name!r} is taken by an earlier one; give it a name of its own", where=f"{path}: issue {number}")
    return issues


def _read(table: Table) -> KnownIssue:
    link = table.text("link")
    issue = KnownIssue(
        table.text("name") or _short_name(link),
        link,
        table.texts("targets"),
        table.choices("kinds", [kind.value for kind in Kind], "kind"),
        table.text("operator"),
        frozenset(table.texts("features")),
        table.text("message"),
        table.words("until"),
        table.date("expires"),
        table.text("why"),
    )
    table.finish()
    if not link:
        raise FormatError("'link' is missing: where it is reported, or why it is accepted", where=table.where)
    if not issue.targets:
        raise FormatError("'targets' is missing", where=table.where)
    if not issue.operator and not issue.message:
        raise FormatError("it needs an 'operator' with its 'features', or a 'message'", where=table.where)
    if issue.message and issue.features:
        raise FormatError("'features' belong to a trigger; with a 'message' they would never be looked at", where=table.where)
    _check_pattern(issue.message, table.where)
    for package, version in issue.until.items():
        try:
            Version(version)
        except InvalidVersion as error:
            raise FormatError(f"until.{package} is {version!r}, which is no version", where=table.where) from error
    return issue


def _check_pattern(pattern: str, where: str) -> None:
    if len(pattern) > _MAX_PATTERN:
        raise FormatError(f"message is longer than {_MAX_PATTERN} characters", where=where)
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise FormatError(f"message is no regular expression: {error}", where=where) from error
    if _EXPLOSIVE.search(pattern):
        raise FormatError("message repeats what repeats, or refers back to a group: that can take for ever; write it plainer", where=where)


def _short_name(link: str) -> str:
    """`owner/name#number` of an issue's address, else its last 40 characters."""
    found = re.search(r"([\w.-]+/[\w.-]+)/(?:issues|pull)/(\d+)", link)
    return f"{found[1]}#{found[2]}" if found else link[-40:]


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")


def active(issues: Sequence[KnownIssue], versions: Mapping[str, str], today: datetime.date) -> tuple[KnownIssue, ...]:
    """Those that still speak."""
    return tuple(issue for issue in issues if issue.standing(versions, today) is Standing.ACTIVE)
