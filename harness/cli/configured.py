"""The configuration at work on the command line: defaults for options, and the oracles' policy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.config import ISSUES_FILE, Loaded, Settings, find, load
from harness.config.load import key_of
from harness.errors import FormatError, UnknownName, UsageError

if TYPE_CHECKING:
    from harness.triage.issues import KnownIssue
    from oracles import Policy

# Which option of which verb a configured field is the default of.
_SHARED = {"imports": "imports", "require_targets": "required", "case_timeout": "case_timeout", "memory_limit": "memory_limit"}
_BY_VERB: Mapping[str, Mapping[str, str]] = {
    "fuzz": {
        **_SHARED,
        "targets": "targets",
        "profile": "profile",
        "ops": "ops",
        "exclude_ops": "exclude",
        "dtypes": "dtypes",
        "max_nodes": "max_nodes",
        "jobs": "jobs",
        "corpus": "corpus",
    },
    "check": {**_SHARED, "targets": "targets", "corpus": "corpus"},
    "replay": {**_SHARED, "corpus": "corpus"},
    "show": {"corpus": "corpus"},
    "pipeline": {"imports": "imports", "corpus": "corpus"},
    "minimize": {**{name: option for name, option in _SHARED.items() if option != "required"}, "corpus": "corpus"},
    "export": {"imports": "imports", "corpus": "corpus"},
}
_CORPUS_VERBS = ("list", "show", "add", "link", "check", "prune", "update")


def load_configuration(path: Path | None) -> Loaded:
    """The configuration of `path`, or of the nearest file upward; raises FormatError."""
    if path is not None and not path.is_file():
        raise UsageError(f"--config {path}: there is no such file")
    return load(path if path is not None else find(Path.cwd()))


def option_defaults(loaded: Loaded) -> dict[str, Any]:
    """Click's default_map: what the file sets, as defaults of each verb's options."""
    values = {name: getattr(loaded.settings, name) for name in loaded.given}
    result: dict[str, Any] = {
        verb: {option: values[name] for name, option in options.items() if name in values} for verb, options in _BY_VERB.items()
    }
    if "corpus" in values:
        result["corpus"] = {verb: {"corpus": values["corpus"]} for verb in _CORPUS_VERBS}
    return result


def place_of(loaded: object, name: str) -> str:
    """Which file sets a name, and by which key; empty where none does."""
    if isinstance(loaded, Loaded):
        for field, path in loaded.given.items():
            value = getattr(loaded.settings, field)
            if name == value or (isinstance(value, tuple) and name in value):
                return f"{path}: {key_of(field)}"
    return ""


def configuration() -> Loaded:
    """The configuration of the command that runs; defaults where a verb is called by itself."""
    context = click.get_current_context(silent=True)
    found = context.find_object(Loaded) if context is not None else None
    return found if found is not None else Loaded()


def known_issues(settings: Settings, corpus: Path) -> tuple[KnownIssue, ...]:
    """The known issues of the configured file, which then must be there, else those of the corpus; raises FormatError."""
    from harness.triage.issues import read_issues

    named = settings.known_issues
    if named is not None and not named.is_file():
        raise FormatError("known-issues names this file, which is not there", where=str(named))
    issues = read_issues(named if named is not None else corpus / ISSUES_FILE)
    for issue in issues:
        if issue.operator:
            check_operator(issue.operator, where=f"{named or corpus / ISSUES_FILE}: issue {issue.name}")
    return issues


def check_operator(name: str, *, where: str) -> None:
    """Raise FormatError for an operator that nothing goes by; one of another library keeps its namespace and is taken."""
    from generators.catalogue import catalogue
    from oracles.operators import base_name, known_operators

    known = known_operators() | {spec.name for spec in catalogue()}
    if name not in known and base_name(name) not in known and "." not in name and "+" not in name:
        raise FormatError(str(UnknownName("operator", name, known)), where=where)


def policy_of(loaded: Loaded) -> Policy:
    """The oracles' policy; raises FormatError for a tolerance of an operator that nothing goes by."""
    from oracles import DEFAULT, Policy

    settings = loaded.settings
    for name in settings.tolerance:
        check_operator(name, where=f"{loaded.path}: tolerance")
    switches = {name.replace("-", "_"): value for names, value in ((settings.ignore, False), (settings.judge, True)) for name in names}
    if not switches and not settings.tolerance:
        return DEFAULT
    return Policy(**switches, tolerance=dict(settings.tolerance))  # type: ignore[arg-type]
