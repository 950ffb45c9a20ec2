"""What every verb that runs targets shares: which targets, a pool of workers, a runner for each job slot, proofs."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.backends.protocol import TargetSpec, target, targets
from harness.corpus.entry import OPEN, Entry
from harness.corpus.store import Corpus
from harness.engine.evaluate import REFERENCE, Evaluator
from harness.engine.keeper import FindingKeeper, Proof
from harness.environments.availability import missing
from harness.errors import TargetUnavailable, UsageError, WorkerError
from harness.model.case import Case
from harness.model.outcome import Job, Outcome, Status
from harness.reporting.escaping import EscapingConsole
from harness.reproducers.render import Script
from harness.reproducers.run import run_source
from harness.triage.issues import KnownIssue
from harness.triage.known import KnownBug, KnownBugs
from harness.workers.interpreters import interpreter_for
from harness.workers.pool import WorkerPool
from harness.workers.settings import WorkerSettings

ENTRY_POINTS = "fxdiff.targets"
NO_PLUGINS = "FXDIFF_NO_PLUGINS"
WARM_SECONDS = 90.0  # torch-mlir takes 3 s, 30 on a machine that is busy with other things
TELL_SECONDS = 10.0  # how long a target may take to start before it is said that it is waited for


class SlotRunner:
    """Runs jobs in one slot of a pool, and remembers what a worker that died had served."""

    def __init__(self, pool: WorkerPool, slot: int) -> None:
        self._pool = pool
        self._slot = slot
        self._recent: dict[str, tuple[Job, ...]] = {}

    def run(self, job: Job, *, fresh: bool = False, patience: float = 1.0) -> Outcome:
        """Run `job`; `fresh` takes a newly forked worker, `patience` multiplies every deadline.

        A job whose process somebody killed is run once more: no program does that to itself, so the death says nothing.
        """
        outcome = self._run(job, fresh=fresh, patience=patience)
        return self._run(job, fresh=True, patience=patience) if _was_killed(outcome) else outcome

    def _run(self, job: Job, *, fresh: bool, patience: float) -> Outcome:
        if fresh:
            with self._pool.fresh(job.target) as worker:
                return worker.run(job, patience=patience)
        worker = self._pool.worker(job.target, self._slot)
        outcome = worker.run(job, patience=patience)
        if outcome.death is not None:
            self._recent[job.target] = worker.recent_jobs()
        return outcome

    def recent(self, target: str) -> tuple[Job, ...]:
        """The jobs that the last dead worker of `target` had served, oldest first, the fatal one last."""
        return self._recent.get(target, ())

    def replay(self, jobs: Sequence[Job]) -> Outcome:
        """Run `jobs` one after another in one fresh worker; the outcome of the last one, or of the first death."""
        return self._pool.replay(jobs[0].target, jobs)[-1]


@contextlib.contextmanager
def _telling(spec: TargetSpec) -> Iterator[None]:
    """Say on stderr whom everybody waits for, where that takes long: a library may hang in its import."""

    def tell() -> None:
        patience = f"after {WARM_SECONDS * spec.patience:.0f} s it is given up"
        said = f"waiting for {spec.name} ({spec.entry}), whose libraries are being imported; {patience}\n"
        with contextlib.suppress(OSError):
            sys.stderr.write(said)

    timer = threading.Timer(TELL_SECONDS, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _was_killed(outcome: Outcome) -> bool:
    """Whether a process ended by a signal that comes from outside, such as a person's or the kernel's when memory runs out."""
    return outcome.status is Status.CRASH and outcome.death is not None and outcome.death.signal == "SIGKILL"


@dataclass
class Session:
    """The targets at hand and the processes behind them."""

    targets: tuple[TargetSpec, ...]
    pool: WorkerPool
    missing: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    _proving: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def open(
        cls,
        names: Iterable[str] = (),
        *,
        required: Iterable[str] = (),
        imports: Iterable[str] = (),
        case_seconds: float = 10.0,
        memory_mb: int = 3072,
        warm: bool = True,
    ) -> Session:
        """Import plugins, choose targets and begin to warm them; with `warm=False` each is warmed when it is first wanted.

        Without `names`, every default target that can run here. Raises UnknownName; TargetUnavailable for a required
        target that cannot run, or where no target is left.
        """
        load_plugins(imports)
        required = tuple(required)
        wanted = [target(name) for name in dict.fromkeys([*names, *required])] or [spec for spec in targets() if spec.default]
        absent: dict[str, str] = {}
        for spec in wanted:
            lack = missing(spec.zygote)
            if lack is not None:
                absent[spec.name] = f"{lack.what}; mend it with: {lack.mend}"
        for name in required:
            if name in absent:
                raise TargetUnavailable(f"required target {name} cannot run here: {absent[name]}")
        present = tuple(spec for spec in wanted if spec.name not in absent and spec.name != REFERENCE)
        lack = missing(target(REFERENCE).zygote)
        if lack is not None:
            raise TargetUnavailable(f"the reference cannot run here: {lack.what}; mend it with: {lack.mend}")
        if not present:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in absent.items()) or "only the reference was named"
            raise TargetUnavailable(f"no target can run here: {reasons}")
        settings = WorkerSettings(case_seconds=case_seconds, memory_mb=memory_mb, warm_seconds=WARM_SECONDS)
        pool = WorkerPool((target(REFERENCE), *present), settings)
        if warm:
            pool.start()
        return cls(present, pool, absent, required)

    def runner(self, slot: int) -> SlotRunner:
        """The runner of one job slot."""
        return SlotRunner(self.pool, slot)

    def versions(self) -> dict[str, str]:
        """The versions behind all targets; a target that cannot start is left out of the session and named in `missing`.

        Raises TargetUnavailable for the reference, for a required target, and where no target is left.
        """
        with _telling(target(REFERENCE)):
            found: dict[str, str] = dict(self.pool.versions(REFERENCE))
        present = []
        for spec in self.targets:
            try:
                with _telling(spec):
                    found.update(self.pool.versions(spec.name))
                present.append(spec)
            except (TargetUnavailable, WorkerError) as error:
                if spec.name in self.required:
                    raise TargetUnavailable(f"required target {spec.name} cannot start here: {error}") from error
                self.missing = {**self.missing, spec.name: str(error)}
        self.targets = tuple(present)
        if not present:
            raise TargetUnavailable("no target can start here: " + "; ".join(f"{name}: {why}" for name, why in self.missing.items()))
        return dict(sorted(found.items()))

    def keeper(self, folder: Path) -> FindingKeeper:
        """A keeper that proves reproducers in clean processes, one at a time."""
        return FindingKeeper(folder, prove=self.prove, versions=self.pool.versions)

    def prove(self, script: Script) -> Proof:
        """Run a reproducer in a clean process of the interpreter that it is for."""
        python, env = interpreter_for(script.environment)
        path = () if script.bare else tuple(os.path.abspath(entry) for entry in sys.path)
        with self._proving:
            ran = run_source(script.text, python=python, env=env, timeout=180.0, path=path)
        return Proof(ran.shows_the_bug, ran.output or f"exit code {ran.exit_code}")

    def known_bugs(self, *folders: Path, issues: Iterable[KnownIssue] = ()) -> KnownBugs:
        """The open bugs of corpus folders, which need not exist, and `issues`; an entry that cannot be read is an error."""
        bugs = (
            KnownBug(
                entry.slug,
                name,
                entry.signature.kind.value,
                entry.signature.operator,
                frozenset(entry.signature.trigger),
                entry.upstream,
                str(entry.path),
            )
            for folder in folders
            for entry in Corpus(folder).entries()
            if entry.status == OPEN
            for name in (entry.target, *self._sharing(entry))
        )
        return KnownBugs(bugs, issues=issues)

    def _sharing(self, entry: Entry) -> Iterator[str]:
        """The further targets of the session that go through the stage in which the entry's bug is."""
        for spec in self.targets:
            if spec.family == entry.signature.family and spec.name != entry.target and entry.signature.stage in spec.shared_stages:
                yield spec.name

    def close(self) -> dict[str, float]:
        """End every process; the CPU seconds that each target and the engine itself took."""
        self.pool.close()
        own = os.times()
        return {**self.pool.cpu_seconds(), "engine": own.user + own.system}

    def kill(self) -> None:
        """End every process at once; jobs in flight come back as inconclusive."""
        self.pool.close()


def run_once(case: Case, spec: TargetSpec, *, case_seconds: float = 30.0) -> Outcome:
    """One case on one target in workers of its own; a lockstep target is handed what eager does. Raises TargetUnavailable."""
    lack = missing(spec.zygote)
    if lack is not None:
        raise lack.unavailable()
    reference = target(REFERENCE)
    with WorkerPool({spec.name: spec, REFERENCE: reference}.values(), WorkerSettings(case_seconds=case_seconds)) as pool:
        pool.check(spec.name)
        evaluator = Evaluator(SlotRunner(pool, 0), want=("trace",))
        first = evaluator.reference(case)
        if spec.name == REFERENCE or first.status is not Status.OK:
            return first
        return evaluator.observe(case, spec, first)


def load_plugins(imports: Iterable[str]) -> None:
    """Import what registers targets: installed entry points, then the modules that the user names.

    Raises UsageError that names the module which cannot be imported.
    """
    if not os.environ.get(NO_PLUGINS):
        for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
            try:
                point.load()
            except Exception as error:
                raise UsageError(
                    f"the installed plugin {point.name} ({point.value}) cannot be imported: {type(error).__name__}: {error}; "
                    f"set {NO_PLUGINS}=1 to leave plugins out"
                ) from error
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    for name in imports:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:
            raise UsageError(f"--import {name}: {type(error).__name__}: {error}") from error


def consoles(*, no_color: bool = False) -> tuple[EscapingConsole, EscapingConsole]:
    """Consoles for results (stdout) and for progress (stderr)."""
    plain = True if no_color else None
    return EscapingConsole(no_color=plain), EscapingConsole(stderr=True, no_color=plain)
