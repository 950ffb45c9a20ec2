"""An Entry: a minimized finding with its evidence and expectation, as files for people and for pytest."""

from __future__ import annotations

import dataclasses
import hashlib
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from harness.config.toml import parse_toml
from harness.corpus import files
from harness.corpus.paths import shorten_paths
from harness.corpus.signature import SIGNATURE_VERSION, Signature, kind_of
from harness.errors import FormatError
from harness.minimize.edits import literal_case
from harness.model.case import Case
from harness.model.codec import FORMAT_VERSION, case_id
from harness.model.fill import Literal
from harness.model.outcome import Outcome, Witness
from harness.model.story import FixpointStory
from harness.model.values import Tensor, leaves
from harness.model.verdict import Severity, Verdict

OPEN, FIXED = "open", "fixed"
STATUSES = (OPEN, FIXED)
ROUTES = ("users", "raw", "")
MAX_ARTIFACT = 40_000
MAX_STDERR = 4_000
MAX_TRACE = 20_000  # bytes of tensor data
UPDATE_COMMAND = "fxdiff corpus update {slug}"

_OPTIONAL = ("victim.json", "evidence/verdict.json")
_HASHED = ("case.json", "evidence/reference.json", "evidence/observed.json", *_OPTIONAL)
_REPRO, _REPRO_MLIR, _TOML = "repro.py", "repro.mlir", "entry.toml"


@dataclass(frozen=True, slots=True)
class Expectation:
    """What an entry's status holds for: these versions of the libraries, on this platform."""

    versions: Mapping[str, str] = field(default_factory=dict)
    platform: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """Which drawn case led to an entry, and when; `date` is ISO, `nodes` counts the operators before minimization.

    All of it may be unknown for hand-written entries.
    """

    generator: str = ""
    profile: str = ""
    seed: int | None = None
    index: int | None = None
    fxdiff: str = ""
    date: str = ""
    nodes: int | None = None


@dataclass(frozen=True)
class Entry:
    """One bug on one target: open, with the verdict that was seen, or fixed.

    `reproduced` is how many of how many fresh workers showed it. `route` says how torch-mlir was reached: `users` through
    fx.export_and_import, `raw` only through fxdiff's own import, empty where there is but one way. `reference` and
    `observed` are trimmed when written; `repro` is a script, `repro_mlir` IR under lit's RUN line. `victim` is the later
    case that dies in the same process, where the bug kills another case than its own.
    """

    case: Case
    signature: Signature
    target: str
    severity: Severity
    title: str
    reference: Outcome
    observed: Outcome
    verdict: Verdict | None = None
    status: str = OPEN
    upstream: str = ""
    notes: str = ""
    route: str = ""
    reproduced: tuple[int, int] = (1, 1)
    expectation: Expectation = field(default_factory=Expectation)
    found: Found = field(default_factory=Found)
    victim: Case | None = None
    repro: str | None = None
    repro_mlir: str | None = None
    path: Path | None = field(default=None, compare=False)

    @property
    def id(self) -> str:
        """The signature's digest: one entry a bug."""
        return self.signature.digest

    @property
    def slug(self) -> str:
        """The entry's folder name."""
        return self.signature.slug


def current_platform() -> str:
    """The platform that an expectation holds for, such as `linux-x86_64`."""
    return f"{sys.platform}-{platform.machine()}"


def trim(outcome: Outcome) -> Outcome:
    """An outcome without what replay never asks for: timings, long texts, and node traces that are not small."""
    death = outcome.death
    if death is not None:
        death = dataclasses.replace(death, stderr=shorten_paths(death.stderr[-MAX_STDERR:]))
    return dataclasses.replace(
        outcome,
        message=shorten_paths(outcome.message[:MAX_ARTIFACT]),
        witness=tuple(dataclasses.replace(each, trace=each.trace if _is_small(each) else ()) for each in outcome.witness),
        seconds={},
        artifacts={name: shorten_paths(text) for name, text in outcome.artifacts.items() if len(text) <= MAX_ARTIFACT},
        diagnostics=tuple(dataclasses.replace(each, message=shorten_paths(each.message)) for each in outcome.diagnostics),
        nodes=tuple(dataclasses.replace(each, message=shorten_paths(each.message)) for each in outcome.nodes),
        death=death,
        stories=tuple(_gist(story) for story in outcome.stories if _tells(story))[:1],
    )


def _tells(story: FixpointStory) -> bool:
    """Whether something goes wrong in a story, so far as the story itself knows."""
    return len(story.results) > 1 or any(step.faults for step in story.steps)


def _gist(story: FixpointStory) -> FixpointStory:
    """A story without the passes that changed nothing."""
    steps = [step for step in story.steps if step.changed or step.faults or step.change or not step.iteration]
    return dataclasses.replace(story, steps=tuple(steps))


def _is_small(witness: Witness) -> bool:
    """Whether a trace may be kept, so that a reproducer can be written again from the entry alone."""
    values = [[*trace.args, *trace.kwargs.values(), trace.output] for trace in witness.trace]
    sizes = (len(leaf.data.data) for _, leaf in leaves(values) if isinstance(leaf, Tensor) and isinstance(leaf.data, Literal))
    return sum(sizes) <= MAX_TRACE


def render(entry: Entry) -> dict[str, bytes]:
    """The entry's files by relative path; the same entry gives the same bytes.

    Raises FormatError for an entry that could not be read back.
    """
    _check(entry, where=entry.slug)
    case = literal_case(entry.case)
    case.validate()
    result = {
        "case.json": files.pack_case(case),
        "evidence/reference.json": files.pack_outcome(trim(entry.reference)),
        "evidence/observed.json": files.pack_outcome(trim(entry.observed)),
    }
    if entry.verdict is not None:
        result["evidence/verdict.json"] = files.pack_verdict(entry.verdict)
    if entry.victim is not None:
        result["victim.json"] = files.pack_case(literal_case(entry.victim))
    if entry.repro is not None:
        result[_REPRO] = entry.repro.encode("utf-8")
    if entry.repro_mlir is not None:
        result[_REPRO_MLIR] = entry.repro_mlir.encode("utf-8")
    result[_TOML] = _toml(entry, case, result).encode("utf-8")
    return result


def _toml(entry: Entry, case: Case, contents: Mapping[str, bytes]) -> str:
    signature = entry.signature
    head = {
        "format_version": FORMAT_VERSION,
        "id": entry.id,
        "case": case_id(case),
        "title": entry.title,
        "status": entry.status,
        "upstream": entry.upstream,
        "notes": entry.notes,
        "target": entry.target,
        "severity": entry.severity.name.lower().replace("_", "-"),
        "route": entry.route,
        "reproduced": list(entry.reproduced),
    }
    tables: dict[str, Any] = {
        "signature": {
            "version": SIGNATURE_VERSION,
            "family": signature.family,
            "kind": signature.kind.value,
            "stage": signature.stage,
            "operator": signature.operator,
            "dtype": signature.dtype,
            "trigger": list(signature.trigger),
        },
        "expectation": {"platform": entry.expectation.platform, "versions": dict(sorted(entry.expectation.versions.items()))},
        "found": {key: value for key, value in dataclasses.asdict(entry.found).items() if value not in ("", None)},
        "sha256": {name: hashlib.sha256(contents[name]).hexdigest() for name in _HASHED if name in contents},
    }
    about = (
        "# An entry of fxdiff's corpus. title, status, upstream and notes are yours to edit;\n"
        f"# after any other change run: {UPDATE_COMMAND.format(slug=entry.slug)}\n"
    )
    return about + tomli_w.dumps(head | tables)


def _check(entry: Entry, *, where: str) -> None:
    if entry.status not in STATUSES:
        raise FormatError(f"status {entry.status!r} is none of {', '.join(STATUSES)}", where=where)
    if entry.route not in ROUTES:
        raise FormatError(f"route {entry.route!r} is none of users, raw", where=where)
    shown, runs = entry.reproduced
    if not 0 <= shown <= runs:
        raise FormatError(f"reproduced {_short(shown)} of {_short(runs)} times", where=where)
    if entry.status == OPEN and entry.verdict is None:
        raise FormatError("an open entry needs the verdict that was seen", where=where)


def read(folder: Path, *, check_hashes: bool = True) -> Entry:
    """The entry in a folder; nothing in it is executed.

    Raises FormatError that names the file for anything missing, broken, foreign or of a later format, and for files
    that were changed by hand, with the command that accepts the change; `check_hashes=False` accepts it.
    """
    table = _Table(_load_toml(folder / _TOML), str(folder / _TOML))
    files.check_version(table.get("format_version", int), where=table.where)
    signature = _read_signature(table.table("signature"))
    if check_hashes:
        _check_hashes(folder, table.table("sha256"), signature.slug)
    if table.get("id", str) != signature.digest or (check_hashes and folder.name != signature.slug):
        command = UPDATE_COMMAND.format(slug=folder.name)
        raise FormatError(
            f"its signature is that of {signature.slug}: changed by hand or by a later fxdiff; run {command}", where=table.where
        )
    verdict, victim = folder / "evidence/verdict.json", folder / "victim.json"
    expectation = table.table("expectation")
    entry = Entry(
        case=files.unpack_case(files.read_bytes(folder / "case.json"), where=str(folder / "case.json")),
        signature=signature,
        target=table.get("target", str),
        severity=_severity(table.get("severity", str), table.where),
        title=table.get("title", str),
        reference=_outcome(folder / "evidence/reference.json"),
        observed=_outcome(folder / "evidence/observed.json"),
        verdict=files.unpack_verdict(files.read_bytes(verdict), where=str(verdict)) if verdict.exists() else None,
        status=table.get("status", str),
        upstream=table.get("upstream", str, ""),
        notes=table.get("notes", str, ""),
        route=table.get("route", str, ""),
        reproduced=_pair(table.get("reproduced", list, [1, 1]), table.where),
        expectation=Expectation(expectation.table("versions").texts(), expectation.get("platform", str)),
        found=_read_found(table.table("found")),
        victim=files.unpack_case(files.read_bytes(victim), where=str(victim)) if victim.exists() else None,
        repro=_text(folder / _REPRO),
        repro_mlir=_text(folder / _REPRO_MLIR),
        path=folder,
    )
    _check(entry, where=table.where)
    if check_hashes and case_id(entry.case) != table.get("case", str):
        raise FormatError("`case` is not the id of case.json", where=table.where)
    return entry


class _Table:
    """A TOML table whose keys are taken with their types."""

    def __init__(self, data: Mapping[str, Any], where: str) -> None:
        self.data = data
        self.where = where

    def get(self, key: str, kind: type[Any], default: Any = None) -> Any:
        value = self.data.get(key, default)
        if value is None:
            raise FormatError(f"{key!r} is missing", where=self.where)
        if type(value) is not kind:
            raise FormatError(f"{key!r} is {_short(value)} where {kind.__name__} is needed", where=self.where)
        return value

    def table(self, key: str) -> _Table:
        return _Table(self.get(key, dict, {}), f"{self.where}: {key}")

    def texts(self) -> dict[str, str]:
        return {key: self.get(key, str) for key in self.data}


def _load_toml(path: Path) -> dict[str, Any]:
    return parse_toml(files.read_bytes(path), where=str(path))


def _check_hashes(folder: Path, hashes: _Table, slug: str) -> None:
    for name in _HASHED:
        if name not in hashes.data:
            if name in _OPTIONAL and not (folder / name).exists():
                continue
            raise FormatError(f"{name!r} has no hash", where=hashes.where)
        found = hashlib.sha256(files.read_bytes(folder / name)).hexdigest()
        if found != hashes.get(name, str):
            command = UPDATE_COMMAND.format(slug=slug)
            raise FormatError(f"changed since fxdiff wrote it; to accept the change run: {command}", where=str(folder / name))


def _read_signature(table: _Table) -> Signature:
    version = table.get("version", int)
    if version != SIGNATURE_VERSION:
        raise FormatError(f"a signature of version {_short(version)}; this fxdiff signs with {SIGNATURE_VERSION}", where=table.where)
    trigger = table.get("trigger", list, [])
    if not all(isinstance(feature, str) for feature in trigger):
        raise FormatError("'trigger' must list texts", where=table.where)
    return Signature(
        table.get("family", str),
        kind_of(table.get("kind", str), where=table.where),
        table.get("stage", str),
        table.get("operator", str),
        table.get("dtype", str),
        tuple(trigger),
    )


def _read_found(table: _Table) -> Found:
    kinds = {"seed": int, "index": int, "nodes": int}
    values = {item.name: table.get(item.name, kinds.get(item.name, str)) for item in dataclasses.fields(Found) if item.name in table.data}
    return Found(**values)


def _severity(name: str, where: str) -> Severity:
    try:
        return Severity[name.upper().replace("-", "_")]
    except KeyError as error:
        known = ", ".join(each.name.lower().replace("_", "-") for each in Severity)
        raise FormatError(f"severity {name!r} is none of {known}", where=where) from error


def _outcome(path: Path) -> Outcome:
    return files.unpack_outcome(files.read_bytes(path), where=str(path))


def _pair(value: list[Any], where: str) -> tuple[int, int]:
    if len(value) != 2 or not all(type(item) is int for item in value):
        raise FormatError(f"reproduced {_short(value)} is not two integers", where=where)
    return value[0], value[1]


def _short(value: object) -> str:
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested deeply, or an int of more digits than Python prints
        return f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def _text(path: Path) -> str | None:
    if not path.exists():
        return None
    try:
        return files.read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"not UTF-8: {error}", where=str(path)) from error
