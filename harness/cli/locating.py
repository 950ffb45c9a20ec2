"""What ENTRY, FINDING and CASE mean on the command line: a folder, a file in it, a name, the beginning of an id, a case file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.corpus import files
from harness.corpus.entry import Entry, read
from harness.corpus.store import Corpus
from harness.engine.rundir import FINDINGS, UNPROVEN
from harness.errors import UnknownName, UsageError
from harness.model.case import Case

RUNS = Path("fxdiff-out")


@dataclass(frozen=True, slots=True)
class Bare:
    """A case file that belongs to no entry."""

    path: Path
    case: Case


def locate(text: str, corpus: Path, *, runs: Path = RUNS) -> Entry | Bare:
    """The entry or case that `text` names: in the corpus first, then among the findings of earlier runs.

    Raises UnknownName with the nearest names, UsageError where several match, FormatError where a file is broken.
    """
    path = Path(text)
    if path.exists():
        return _at(path)
    try:
        return Corpus(corpus).find(text)
    except UnknownName as unknown:
        folders = [folder for run in _newest(runs) for folder in (run / FINDINGS, run / UNPROVEN) if folder.is_dir()]
        for folder in folders:
            try:
                return Corpus(folder).find(text)
            except UnknownName:
                continue  # another run may have it
        names = [entry.name for folder in (corpus, *folders) for entry in Corpus(folder).paths()]
        if not names:
            raise UsageError(f"{text} is neither a file nor a folder, and there are no entries in {corpus} or {runs}") from unknown
        raise UnknownName("entry, finding or case file", text, names) from unknown


def locate_entry(text: str, corpus: Path, *, runs: Path = RUNS) -> Entry:
    """The entry that `text` names; raises as `locate` does, and UsageError for a bare case file."""
    found = locate(text, corpus, runs=runs)
    if isinstance(found, Bare):
        raise UsageError(f"{found.path} is a case without an entry; `fxdiff minimize {found.path}` makes one")
    return found


def _at(path: Path) -> Entry | Bare:
    for folder in (path, path.parent, path.parent.parent):
        if (folder / "entry.toml").is_file():
            return read(folder)
    if path.is_file():
        return Bare(path, files.unpack_case(files.read_bytes(path), where=str(path)))
    for inner in (path / FINDINGS, path):
        names = [entry.name for entry in Corpus(inner).paths()]
        if len(names) == 1:
            return read(inner / names[0])
        if names:
            shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
            raise UsageError(f"{inner} holds {len(names)} findings; name one of them: {shown}")
    raise UsageError(f"{path} holds no entry.toml: it is neither a corpus entry nor a finding")


def _newest(runs: Path) -> list[Path]:
    if not runs.is_dir():
        return []
    return sorted((path for path in runs.iterdir() if path.is_dir()), key=lambda path: path.name, reverse=True)
