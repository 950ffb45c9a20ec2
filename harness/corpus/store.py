"""The corpus: a folder of entries, changed only by whole folders that are renamed into place."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from harness.corpus import files
from harness.corpus.entry import FIXED, Entry, read, render
from harness.errors import FormatError, UnknownName, UsageError

# Both start with a dot, so that neither people nor readers take them for entries.
_NEW, _OLD = ".new-", ".old-"


class Corpus:
    """The entries below one folder, which need not exist yet."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)

    def paths(self) -> tuple[Path, ...]:
        """The folders of all entries, by name; raises UsageError where the corpus is no folder."""
        if not self.root.is_dir():
            self._refuse_a_file()
            return ()
        names = os.listdir(self.root)
        if any(name.startswith(_OLD) for name in names):
            with _locked(self.root):
                _recover(self.root)
            names = os.listdir(self.root)
        return tuple(self.root / name for name in sorted(names) if not name.startswith(".") and (self.root / name / "entry.toml").is_file())

    def _refuse_a_file(self) -> None:
        if os.path.lexists(self.root) and not self.root.is_dir():
            raise UsageError(f"{self.root} is no folder; a corpus is a folder of entries")

    def entries(self) -> tuple[Entry, ...]:
        """Every entry, by name; raises FormatError for the first that cannot be read."""
        return tuple(read(path) for path in self.paths())

    def find(self, text: str, *, check_hashes: bool = True) -> Entry:
        """The entry that a path, a folder's name or the unique beginning of an id names.

        Raises UnknownName with the nearest names, UsageError where several match, FormatError where it cannot be read.
        """
        path = Path(text)
        if (path / "entry.toml").is_file():
            return read(path, check_hashes=check_hashes)
        paths = self.paths()
        named = [path for path in paths if path.name == text] or [path for path in paths if path.name.rpartition("-")[2].startswith(text)]
        if text and len(named) == 1:
            return read(named[0], check_hashes=check_hashes)
        if text and named:
            raise UsageError(f"{text!r} is the beginning of {len(named)} ids: {', '.join(path.name for path in named)}")
        raise UnknownName("corpus entry", text, [path.name for path in paths])

    def add(self, entry: Entry) -> Path:
        """Put a new entry on disk, whole or not at all; returns its folder.

        Raises UsageError where the bug has an entry already.
        """
        contents = render(entry)
        self._refuse_a_file()
        self.root.mkdir(parents=True, exist_ok=True)
        with _locked(self.root):
            _recover(self.root)
            final = self.root / entry.slug
            if final.exists():
                raise UsageError(f"{entry.slug} is in the corpus already: {final}")
            os.rename(_build(self.root, contents), final)
            files.sync_folder(self.root)
        return final

    def update(self, entry: Entry) -> Path:
        """Replace the entry in `entry.path` (by default of the same slug); it moves where its signature changed.

        Raises UsageError where there is no such entry, or the new slug is another one's.
        """
        contents = render(entry)
        old = entry.path if entry.path is not None else self.root / entry.slug
        if not old.is_dir() or old.parent.resolve() != self.root.resolve():
            raise UsageError(f"{old} is no entry of {self.root}")
        with _locked(self.root):
            _recover(self.root)
            final = self.root / entry.slug
            if final.exists() and not final.samefile(old):
                raise UsageError(f"{entry.slug} is in the corpus already: {final}")
            new = _build(self.root, contents)
            aside = self.root / f"{_OLD}{final.name}"
            os.rename(old, aside)  # from here to the next rename a crash is mended by _recover
            os.rename(new, final)
            files.sync_folder(self.root)
            shutil.rmtree(aside)
        return final

    def remove(self, path: Path) -> None:
        """Delete one entry; raises UsageError for anything that is not an entry of this corpus."""
        if path.parent.resolve() != self.root.resolve() or not (path / "entry.toml").is_file():
            raise UsageError(f"{path} is no entry of {self.root}")
        with _locked(self.root):
            aside = self.root / f"{_NEW}removed-{path.name}"
            os.rename(path, aside)
            shutil.rmtree(aside)

    def prune(self, unwanted: Callable[[Entry], bool] = lambda entry: entry.status == FIXED, *, dry_run: bool = False) -> tuple[Path, ...]:
        """Delete the entries that are `unwanted`, by default the fixed ones; returns their folders."""
        gone = tuple(entry.path for entry in self.entries() if entry.path is not None and unwanted(entry))
        if not dry_run:
            for path in gone:
                self.remove(path)
        return gone


def _build(root: Path, contents: dict[str, bytes]) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=_NEW, dir=root))
    folder.chmod(0o755)
    for name in sorted(contents):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        files.write_bytes(path, contents[name])
    for inner in {(folder / name).parent for name in contents}:
        files.sync_folder(inner)
    return folder


def _recover(root: Path) -> None:
    """Clear away what a writer that died left behind; call with the lock held, so that no live one is disturbed."""
    for name in os.listdir(root):
        if name.startswith(_OLD):
            final = root / name.removeprefix(_OLD)
            if final.exists():
                shutil.rmtree(root / name)
            else:
                os.rename(root / name, final)
        elif name.startswith(_NEW):
            shutil.rmtree(root / name)


@contextlib.contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Hold the folder's lock, which the system releases when its holder dies."""
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise FormatError(f"cannot be opened: {error.strerror}", where=str(root)) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
