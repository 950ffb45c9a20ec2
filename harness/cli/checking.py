"""What `fxdiff check`, `fxdiff.check` and the pytest fixture share: capture of files, a checker, and where findings go."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.backends.protocol import TargetSpec
from harness.cli.configured import known_issues, load_configuration, policy_of
from harness.cli.session import Session
from harness.config import Loaded
from harness.engine.check import Checked, Checker
from harness.engine.evaluate import Evaluator
from harness.engine.investigate import Effort, Investigator
from harness.engine.keeper import FindingKeeper
from harness.engine.rundir import RunDirectory
from harness.errors import HarnessError, UsageError
from harness.model.case import Call, Case
from harness.model.codec import from_json, to_wire
from harness.model.outcome import Job, Outcome, Status
from harness.model.program import Node, Program
from harness.triage.issues import active
from harness.workers.pool import WorkerPool
from harness.workers.settings import WorkerSettings

CAPTURE = TargetSpec(
    "capture", "harness.capture.worker:CaptureBackend", "capture of users' files", zygote="capture", modes=("fwd", "grad", "train")
)
CASE_SECONDS = 30.0
_NOTHING = to_wire(Case(Program((Node("output", "output", "output", (None,)),)), (Call(),)))
_STAGES = {
    "import": "while it is imported",
    "build": "in build()",
    "inputs": "in inputs()",
    "forward": "when its module is run on inputs()",
    "capture": "while its module is captured",
}


@dataclass(frozen=True, slots=True)
class Captured:
    """A user's file as cases: how they were captured; `problem` where there are none, `usable` False where the file is at fault."""

    path: Path
    how: str = ""
    cases: tuple[Case, ...] = ()
    problem: str = ""
    usable: bool = True


class Capturer:
    """Runs users' files, each in a fresh process with a deadline; a context manager."""

    def __init__(self, *, seconds: float, memory_mb: int) -> None:
        self._seconds = seconds
        self._pool = WorkerPool([CAPTURE], WorkerSettings(case_seconds=seconds, memory_mb=memory_mb))
        self._pool.start()

    def __enter__(self) -> Capturer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._pool.close()

    def capture(self, path: Path) -> Captured:
        """The cases of a file, or one sentence on why there are none. Raises HarnessError for a fault of ours."""
        if not path.is_file():
            raise UsageError(f"{path} is {'a folder' if path.is_dir() else 'not there'}; name a Python file with build() and inputs()")
        self._pool.check(CAPTURE.name)
        with self._pool.fresh(CAPTURE.name) as worker:
            outcome = worker.run(Job(_NOTHING, CAPTURE.name, options={"path": str(path.absolute())}))
        if outcome.status is Status.OK:
            texts = [outcome.artifacts[f"case/{index}"] for index in range(len(outcome.artifacts) - 1)]
            cases = tuple(from_json(Case, text.encode("ascii"), where=f"{path}, graph {index}") for index, text in enumerate(texts))
            return Captured(path, outcome.artifacts["how"], cases)
        if outcome.status is Status.HARNESS_ERROR:
            raise HarnessError(f"{path} could not be captured: {outcome.message}")
        return Captured(path, problem=self._problem(path, outcome), usable=outcome.status in (Status.UNSUPPORTED, Status.INCONCLUSIVE))

    def _problem(self, path: Path, outcome: Outcome) -> str:
        where = _STAGES.get(outcome.stage, f"at {outcome.stage}")
        if outcome.status is Status.TIMEOUT:
            return f"{path} does not come back {where}: it was given {self._seconds:.0f} s; --capture-timeout gives it longer"
        if outcome.status is Status.OOM:
            return f"{path} takes too much memory {where}: {outcome.message}; --memory-limit gives it more"
        if outcome.status is Status.CRASH:
            said = _last_line(outcome.death.stderr if outcome.death is not None else "")
            return f"{path}: its process {outcome.message} {where}" + (f"; the last it printed: {said}" if said else "")
        return outcome.message.replace(str(path.absolute()), str(path))


class Checking:
    """A session with all that checking needs; findings go to a folder that is made with the first of them."""

    def __init__(
        self,
        session: Session,
        *,
        output: Path | None = None,
        loaded: Loaded,
        corpus: Path | None = None,
        minimize: bool = True,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.session = session
        self._output = output
        self._folder: RunDirectory | None = None
        self._keeper: FindingKeeper | None = None
        folder = corpus if corpus is not None else loaded.settings.corpus
        issues = active(known_issues(loaded.settings, folder), session.versions(), datetime.date.today())
        runner = session.runner(0)
        # A user asks what a target does by its own front door, also where fxdiff has a faster one.
        front_door = {spec.name: spec.users_route for spec in session.targets if spec.users_route}
        evaluator = Evaluator(runner, policy=policy_of(loaded), options=front_door)
        known = session.known_bugs(folder, issues=issues)
        investigator = Investigator(evaluator, runner, known, Effort(minimize=minimize))
        self.checker = Checker(session.targets, evaluator, investigator, known, self._keep, tell=tell)

    @property
    def findings(self) -> Path | None:
        """Where findings were put; None where there were none."""
        return self._folder.findings if self._folder is not None else None

    def _keep(self) -> FindingKeeper:
        if self._keeper is None:
            self._folder = RunDirectory(self._output or Path("fxdiff-out") / time.strftime("%Y%m%d-%H%M%S-check"))
            self._keeper = self.session.keeper(self._folder.findings)
        return self._keeper

    def close(self) -> None:
        """End every process."""
        self.session.close()
        if self._folder is not None:
            self._folder.close()


def open_session(
    targets: Iterable[str],
    *,
    required: Iterable[str] = (),
    imports: Iterable[str] = (),
    case_seconds: float = CASE_SECONDS,
    memory_mb: int = 3072,
) -> Session:
    """The session of a check. Raises UnknownName, TargetUnavailable."""
    return Session.open(targets, required=required, imports=imports, case_seconds=case_seconds, memory_mb=memory_mb)


class PythonChecks:
    """Checks modules that live in this process: they are captured here and run in workers. A context manager."""

    def __init__(self, checking: Checking) -> None:
        self._checking = checking

    def __call__(self, module: Any, inputs: tuple[Any, ...], *, dynamic_shapes: Any = None, mode: str = "fwd") -> Checked:
        """Capture a module and check it; raises CaptureError, UsageError."""
        from harness.capture.any_way import capture_any

        how, cases = capture_any(module, inputs, dynamic_shapes=dynamic_shapes, mode=mode)
        return self._checking.checker.check(type(module).__name__, cases, how=how)

    def __enter__(self) -> PythonChecks:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End every process."""
        self._checking.close()


def python_checks(targets: Iterable[str] | None = None, *, imports: Iterable[str] = (), output: Path | None = None) -> PythonChecks:
    """Checks as configured by the nearest file upward; `targets`, where given, win over it."""
    loaded = load_configuration(None)
    settings = loaded.settings
    session = open_session(
        settings.targets if targets is None else targets,
        required=settings.require_targets,
        imports=(*settings.imports, *imports),
        case_seconds=settings.case_timeout or CASE_SECONDS,
        memory_mb=settings.memory_limit,
    )
    try:
        return PythonChecks(Checking(session, output=output, loaded=loaded))
    except BaseException:
        session.close()
        raise


def _last_line(text: str) -> str:
    lines: list[str] = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
