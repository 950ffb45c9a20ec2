"""A Worker: run jobs of one target, one after another, and always get an Outcome, whatever the target does."""

from __future__ import annotations

import dataclasses
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from harness.errors import FormatError, HarnessError, TargetUnavailable, WorkerError
from harness.model.codec import from_wire, to_wire
from harness.model.outcome import Job, Outcome, Status
from harness.workers.handle import ZygoteDied, ZygoteHandle
from harness.workers.kernel import MEGABYTE
from harness.workers.process import Ending, WorkerProcess
from harness.workers.settings import WorkerSettings
from harness.workers.worker import START_STAGE

_KILLED = "SIGKILL"


class Closed(WorkerError):
    """The pool was closed, so nothing more can run."""


class Worker:
    """Serves one target with one process at a time, forked when a job needs it and replaced when it is dead or old.

    Calls from several threads wait for one another.
    """

    def __init__(
        self, target: str, zygote: Callable[[], ZygoteHandle], settings: WorkerSettings, *, is_closed: Callable[[], bool] = lambda: False
    ) -> None:
        self.target = target
        self.deaths = 0
        self.versions: Mapping[str, str] = {}
        self._zygote = zygote
        self._settings = settings
        self._is_closed = is_closed
        self._lock = threading.Lock()
        self._process: WorkerProcess | None = None
        self._recent: deque[Job] = deque(maxlen=settings.history)

    def run(self, job: Job, *, patience: float = 1.0) -> Outcome:
        """The Outcome of one job; deadlines are multiplied by `patience`.

        A death is reported as crash, timeout or oom with signal, stage and node. What goes wrong around the target is
        harness_error, or inconclusive where a message is too large or the pool was closed. A job whose zygote was
        killed is tried once more.
        """
        if job.target != self.target:
            raise HarnessError(f"a job for {job.target!r} was given to a worker of {self.target!r}")
        payload = to_wire(job)
        if len(payload) > self._settings.message_mb * MEGABYTE:
            text = f"the job takes {len(payload) / MEGABYTE:.1f} MB; at most {self._settings.message_mb} MB are sent"
            return Outcome(self.target, Status.INCONCLUSIVE, message=text)
        with self._lock:
            try:
                try:
                    return self._serve(job, payload, patience)
                except ZygoteDied:
                    self._drop()
                    return self._serve(job, payload, patience)
            except Closed as error:
                return Outcome(self.target, Status.INCONCLUSIVE, message=str(error))
            except (WorkerError, TargetUnavailable) as error:
                self._drop()
                return Outcome(self.target, Status.HARNESS_ERROR, message=str(error))

    def recent_jobs(self) -> tuple[Job, ...]:
        """The last jobs of the process that served the last one, oldest first, that one included.

        Where a process died, the culprit of a corrupted heap is among them.
        """
        return tuple(self._recent)

    def start(self) -> None:
        """Have a process ready. Raises WorkerError or TargetUnavailable where that fails."""
        with self._lock:
            if self._process is None:
                started = self._spawn()
                if isinstance(started, Ending):
                    raise WorkerError(f"a worker of {self.target} could not start: {started.message}\n{started.death.stderr}".rstrip())

    def close(self) -> None:
        """End the process, if there is one; the next job gets a new one."""
        with self._lock:
            self._drop()

    def _serve(self, job: Job, payload: bytes, patience: float) -> Outcome:
        process = self._process
        if process is not None and (ending := process.ended_idle()) is not None:
            self._process = process = None
            if ending.death.signal != _KILLED:
                self._recent.append(job)
                message = f"{ending.message} after the job before, so that this one never ran"
                return self._outcome(dataclasses.replace(ending, message=message))
        if process is None:
            self._recent.clear()
            started = self._spawn()
            if isinstance(started, Ending):
                return dataclasses.replace(self._outcome(started), status=Status.HARNESS_ERROR, stage=START_STAGE)
            process = started
        self._recent.append(job)
        reply = process.ask(payload, patience=patience)
        if isinstance(reply, Ending):
            self._process = None
            if self._is_closed():
                raise Closed("the pool was closed while the job ran")
            return self._outcome(reply)
        try:
            outcome = from_wire(Outcome, reply)
        except FormatError as error:
            process.kill()
            self._process = None
            return Outcome(self.target, Status.HARNESS_ERROR, message=f"the worker's answer is broken: {error}")
        if outcome.spent or process.worn_out:
            self._drop()
        return outcome

    def _spawn(self) -> WorkerProcess | Ending:
        process = WorkerProcess(self._zygote(), self.target, self._settings)
        if (ending := process.start()) is not None:
            return ending
        self.versions = process.versions
        self._process = process
        return process

    def _outcome(self, ending: Ending) -> Outcome:
        self.deaths += 1
        return Outcome(
            self.target,
            ending.status,
            stage=ending.position.stage,
            node=ending.position.node,
            message=ending.message,
            death=ending.death,
            versions=self.versions,
        )

    def _drop(self) -> None:
        if self._process is not None:
            self._process.retire()
            self._process = None


def replay(worker: Worker, jobs: Sequence[Job], *, patience: float = 1.0) -> tuple[Outcome, ...]:
    """Run jobs in one process, up to the first that ends it; `worker` must be fresh.

    Raises HarnessError where the process was replaced halfway, so that the outcomes would say nothing.
    """
    outcomes: list[Outcome] = []
    for job in jobs:
        outcomes.append(worker.run(job, patience=patience))
        if outcomes[-1].death is not None:
            break
        if len(worker.recent_jobs()) != len(outcomes):
            raise HarnessError(f"{len(jobs)} jobs did not run in one process of {worker.target}")
    return tuple(outcomes)
