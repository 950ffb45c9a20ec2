"""The pytest plugin: every corpus entry is a test of its target, `pytest --fxdiff-corpus corpus`.

Open bugs are strict xfails for the very disagreement that is stored, so a broken worker or a failed import is an error and
never an xfail, and a fixed bug fails the run until the entry is updated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.errors import FormatError, FxdiffError

if TYPE_CHECKING:
    from harness.cli.checking import PythonChecks
    from harness.cli.session import Session
    from harness.corpus.entry import Entry
    from harness.engine.check import Checked
    from harness.engine.replay import Replay

_CASE_SECONDS = 30.0
_CHECKS = pytest.StashKey["LazyChecks"]()
_SESSION = pytest.StashKey["LazySession"]()


class StillFails(AssertionError):
    """The target disagrees with eager as the entry says."""


class Disagrees(AssertionError):
    """A target disagrees with eager on a module that a test handed to `fxdiff_check`."""


class Changed(AssertionError):
    """The target disagrees with eager in another way than the entry says."""


class ReferenceChanged(AssertionError):
    """Eager no longer gives the values that the entry stores."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, all prefixed, in a group of their own."""
    group = parser.getgroup("fxdiff", "replay of fxdiff corpora")
    group.addoption("--fxdiff-corpus", metavar="DIR", help="replay the entries of this corpus folder")
    group.addoption("--fxdiff-target", metavar="NAME", action="append", default=[], help="only entries of this target, repeatable")
    group.addoption("--fxdiff-require-target", metavar="NAME", action="append", default=[], help="fail where this target is missing")
    group.addoption("--fxdiff-import", metavar="MODULE", action="append", default=[], help="import this module first; it may add targets")


def pytest_configure(config: pytest.Config) -> None:
    """Collect the corpus folder beside whatever else was asked for."""
    folder = config.getoption("--fxdiff-corpus")
    if folder is None:
        return
    path = Path(folder)
    if not path.is_dir():
        raise pytest.UsageError(f"--fxdiff-corpus {folder}: there is no such folder")
    if str(path) not in config.args:
        config.args.append(str(path))
    config.stash[_SESSION] = LazySession(tuple(config.getoption("--fxdiff-import")))


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the workers."""
    for lazy in (config.stash.get(_SESSION, None), config.stash.get(_CHECKS, None)):
        if lazy is not None:
            lazy.close()


@pytest.fixture
def fxdiff_check(pytestconfig: pytest.Config) -> Callable[..., Checked]:
    """A function that checks a module: `fxdiff_check(module, inputs, targets=None, dynamic_shapes=None, mode="fwd")`.

    Raises Disagrees with the report where a target disagrees; else returns what `fxdiff.check` returns. The processes
    are shared by all tests.
    """
    lazy = pytestconfig.stash.setdefault(_CHECKS, LazyChecks(pytestconfig))

    def check(
        module: object,
        inputs: tuple[object, ...],
        *,
        targets: Sequence[str] | None = None,
        dynamic_shapes: object = None,
        mode: str = "fwd",
    ) -> Checked:
        checked = lazy.of(targets)(module, inputs, dynamic_shapes=dynamic_shapes, mode=mode)
        if not checked.agrees:
            raise Disagrees(str(checked))
        return checked

    return check


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Take the `entry.toml` files below the corpus folder."""
    folder = parent.config.getoption("--fxdiff-corpus")
    if folder is None or file_path.name != "entry.toml" or Path(folder).resolve() not in file_path.resolve().parents:
        return None
    collector: pytest.Collector = EntryFile.from_parent(parent, path=file_path)
    return collector


class LazyChecks:
    """The sessions behind `fxdiff_check`, by the targets asked for; `--fxdiff-target` names those of tests that name none."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._open: dict[tuple[str, ...] | None, PythonChecks] = {}

    def of(self, targets: Sequence[str] | None) -> PythonChecks:
        """The checks of some targets, or of the default ones."""
        from harness.cli.checking import python_checks

        names = tuple(targets) if targets is not None else tuple(self._config.getoption("--fxdiff-target")) or None
        if names not in self._open:
            self._open[names] = python_checks(names, imports=self._config.getoption("--fxdiff-import"))
        return self._open[names]

    def close(self) -> None:
        """End every process."""
        for checks in self._open.values():
            checks.close()
        self._open.clear()


class LazySession:
    """The targets' processes, started by the first entry that needs them and shared by all others of this pytest process."""

    def __init__(self, imports: tuple[str, ...]) -> None:
        self._imports = imports
        self._targets: dict[str, None] = {}
        self._session: Session | None = None

    def expect(self, target: str) -> None:
        """Note that a collected entry is of this target."""
        self._targets[target] = None

    def of(self, target: str) -> Session:
        """The session that serves a target, and every other one that was collected."""
        from harness.backends.protocol import targets
        from harness.cli.session import Session

        if self._session is None or target not in {spec.name for spec in self._session.targets}:
            self.close()
            known = {spec.name for spec in targets()}
            names = [name for name in (*self._targets, target) if name in known]
            self._session = Session.open(names, case_seconds=_CASE_SECONDS, warm=False)
        return self._session

    def load(self) -> None:
        """Import the modules that register targets."""
        from harness.cli.session import load_plugins

        load_plugins(self._imports)

    def close(self) -> None:
        """End every process."""
        if self._session is not None:
            self._session.close()
            self._session = None


class EntryFile(pytest.File):
    """One entry on disk."""

    def collect(self) -> Iterator[pytest.Item]:
        """One item for the entry on its target; a broken entry is a collection error that says what is wrong."""
        from harness.corpus.entry import read

        try:
            entry = read(self.path.parent)
        except FormatError as error:
            raise self.CollectError(str(error)) from error
        only = self.config.getoption("--fxdiff-target")
        if only and entry.target not in only:
            return
        self.config.stash[_SESSION].expect(entry.target)
        item: pytest.Item = EntryItem.from_parent(self, name=f"{entry.slug}[{entry.target}]", entry=entry)
        yield item


class EntryItem(pytest.Item):
    """Replays one entry."""

    def __init__(self, *, entry: Entry, **rest: object) -> None:
        super().__init__(**rest)  # type: ignore[arg-type]
        self.entry = entry

    def runtest(self) -> None:
        """Run the entry; the exception says what became of its bug."""
        from harness.backends.protocol import target as spec_of
        from harness.corpus.entry import OPEN
        from harness.engine.evaluate import Evaluator
        from harness.engine.replay import State, replay_entry
        from harness.environments.availability import missing

        lazy = self.config.stash[_SESSION]
        lazy.load()
        spec = spec_of(self.entry.target)
        lack = missing(spec.zygote)
        if lack is not None:
            if spec.name in self.config.getoption("--fxdiff-require-target"):
                raise lack.unavailable()
            pytest.skip(f"{spec.name} cannot run here: {lack}")
        session = lazy.of(spec.name)
        if self.entry.status == OPEN:
            self._expect_failure(session.pool.versions(spec.name))
        runner = session.runner(0)
        result = replay_entry(self.entry, spec, Evaluator(runner, want=("trace",)), runner)
        match result.state:
            case State.STILL_FAILS:
                raise StillFails(_said(result))
            case State.CHANGED:
                raise Changed(_said(result))
            case State.REFERENCE_CHANGED:
                raise ReferenceChanged(_said(result))
            case State.CANNOT_RUN:
                raise FxdiffError(_said(result))
            case State.REFUSES:
                pytest.skip(f"inconclusive: {result.message}")

    def _expect_failure(self, versions: Mapping[str, str]) -> None:
        """Mark an open bug as xfail: strictly where the entry's expectation holds, else without insisting."""
        from harness.corpus.entry import current_platform

        expectation = self.entry.expectation
        holds = expectation.platform == current_platform() and all(
            versions.get(name) == version for name, version in expectation.versions.items()
        )
        where = self.entry.upstream or self.entry.title
        reason = f"{where}; if this passes the bug is fixed: fxdiff corpus update {self.entry.slug}"
        self.add_marker(pytest.mark.xfail(strict=holds, raises=StillFails, reason=reason))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        """The sentence of one of our own errors; anything else as pytest shows it."""
        if isinstance(excinfo.value, StillFails | Changed | ReferenceChanged | FxdiffError):
            return f"{type(excinfo.value).__name__}: {excinfo.value}"
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where pytest says the item is."""
        return self.path, None, self.name


def _said(result: Replay) -> str:
    folder = result.entry.path if result.entry.path is not None else result.entry.slug
    return f"{result.entry.slug}: {result.state.value}: {result.message}\nrun it alone: fxdiff replay {folder}"
