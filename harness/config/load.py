"""Finding and reading the configuration: the nearest file upward from the working folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.config import units
from harness.config.settings import ISSUES_FILE, SPECIAL_CLASSES, Settings
from harness.config.toml import Table, read_toml
from harness.errors import FormatError

OWN_FILE = "fxdiff.toml"
PROJECT_FILE = "pyproject.toml"
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration and where it came from: `given` maps each field that a file sets to that file; the rest are defaults."""

    settings: Settings = field(default_factory=Settings)
    path: Path | None = None
    given: Mapping[str, str] = field(default_factory=dict)

    def rows(self) -> tuple[tuple[str, Any, str], ...]:
        """Every key with its value and where the value came from."""
        values = {item.name: getattr(self.settings, item.name) for item in dataclasses.fields(Settings)}
        if values["known_issues"] is None:
            values["known_issues"] = self.settings.corpus / ISSUES_FILE
        return tuple((key_of(name), value, self.given.get(name, DEFAULT)) for name, value in values.items())


def key_of(name: str) -> str:
    """The key of a field."""
    return "import" if name == "imports" else name.replace("_", "-")


def find(folder: Path) -> Path | None:
    """The nearest fxdiff.toml, or pyproject.toml with a table tool.fxdiff, from `folder` upward; fxdiff.toml goes first.

    Raises FormatError where a pyproject.toml on the way cannot be read, or where something of these names is no file.
    """
    for place in (folder, *folder.parents):
        for path in (place / OWN_FILE, place / PROJECT_FILE):
            if path.is_dir():
                raise FormatError("is a folder where a file is needed: rename it, or name a file with --config", where=str(path))
        if (place / OWN_FILE).is_file():
            return place / OWN_FILE
        project = place / PROJECT_FILE
        if project.is_file() and _own_table(project) is not None:
            return project
    return None


def load(path: Path | None) -> Loaded:
    """The configuration of a file, or all defaults for None. Raises FormatError that names the file and the key."""
    if path is None:
        return Loaded()
    if path.name == PROJECT_FILE:
        own = _own_table(path)
        table = Table(own if own is not None else {}, f"{path}: [tool.fxdiff]")
    else:
        table = Table(read_toml(path), str(path))
    values = _values(table, path.parent)
    table.finish()
    return Loaded(Settings(**values), path, dict.fromkeys(values, str(path)))


def _values(table: Table, folder: Path) -> dict[str, Any]:
    """The fields that the table sets, each checked."""
    every: dict[str, Callable[[str], Any]] = {
        "targets": table.texts,
        "require_targets": table.texts,
        "imports": table.texts,
        "profile": table.text,
        "ops": table.texts,
        "exclude_ops": table.texts,
        "dtypes": table.texts,
        "max_nodes": lambda key: table.integer(key, 1, 100),
        "jobs": lambda key: _unit(table, key, _jobs),
        "case_timeout": lambda key: _unit(table, key, units.seconds),
        "memory_limit": lambda key: _unit(table, key, units.megabytes),
        "corpus": lambda key: folder / table.text(key),
        "known_issues": lambda key: folder / table.text(key),
        "ignore": lambda key: table.choices(key, SPECIAL_CLASSES, "special-value class"),
        "judge": lambda key: table.choices(key, SPECIAL_CLASSES, "special-value class"),
        "tolerance": table.numbers,
    }
    found = {}
    for name, take in every.items():
        key = key_of(name)
        value = take(key)
        if key in table:
            found[name] = value
    both = sorted(set(found.get("ignore", ())) & set(found.get("judge", ())))
    if both:
        raise FormatError(f"{both[0]} is both in ignore and in judge", where=table.where)
    return found


def _unit(table: Table, key: str, read: Callable[[str], Any]) -> Any:
    text = table.text_or_number(key)
    if text is None:
        return None
    try:
        return read(text)
    except ValueError as error:
        raise FormatError(f"{key}: {error}", where=table.where) from error


def _jobs(text: str) -> str:
    """The text itself, checked: how many processors `auto` means is asked when it is used."""
    units.jobs(text)
    return text


def _own_table(path: Path) -> object | None:
    """The table tool.fxdiff of a pyproject.toml, whatever it is; None where there is none."""
    tool = read_toml(path).get("tool")
    return tool.get("fxdiff") if isinstance(tool, dict) else None
