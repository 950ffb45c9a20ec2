"""The pool: zygotes by name, workers by target and slot, and what they have used."""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType

from harness.backends.protocol import TargetSpec
from harness.errors import TargetUnavailable, UnknownName, UsageError, WorkerError
from harness.model.outcome import Job, Outcome
from harness.workers.handle import ZygoteHandle, by_exec, by_fork
from harness.workers.interpreters import interpreter_for
from harness.workers.settings import WorkerSettings
from harness.workers.supervisor import Closed, Worker, replay

_ATTEMPTS = 2  # at a zygote that has never been warm


class WorkerPool:
    """Owns every process that runs a target; safe to use from many threads, each with a slot of its own.

    Use it as a context manager, or call `close`: it kills what it started.
    """

    def __init__(self, targets: Iterable[TargetSpec], settings: WorkerSettings | None = None) -> None:
        self.settings = settings if settings is not None else WorkerSettings()
        self._specs = {spec.name: spec for spec in targets}
        self._groups: dict[str, list[TargetSpec]] = {}
        for spec in self._specs.values():
            group = self._groups.setdefault(spec.zygote, [])
            group.append(spec)
            if group[0].environment != spec.environment:
                raise UsageError(f"zygote {spec.zygote!r} has targets of two environments: {group[0].name} and {spec.name}")
        self._lock = threading.RLock()
        self._zygotes: dict[str, ZygoteHandle] = {}
        self._failures: dict[str, int] = {}
        self._workers: dict[tuple[str, int], Worker] = {}
        self._past_cpu: dict[str, float] = {}
        self._closed = False

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def start(self) -> None:
        """Begin to warm every zygote, without waiting for any; what cannot be started is told by `check`."""
        for name in self._groups:
            try:
                self._handle(name)
            except TargetUnavailable:
                continue  # raised again, and to the right caller, as soon as one of its targets is wanted

    def check(self, target: str) -> None:
        """Wait until a target is warm. Raises TargetUnavailable, with the reason, where it cannot be."""
        spec = self._spec(target)
        try:
            handle = self._zygote(spec)
        except WorkerError as error:
            raise TargetUnavailable(f"{target}: {error}") from error
        if target in handle.failed:
            raise TargetUnavailable(f"{target} cannot be loaded: {handle.failed[target]}")

    def worker(self, target: str, slot: int = 0) -> Worker:
        """The worker of a target in a slot: the same object each time."""
        spec = self._spec(target)
        with self._lock:
            if (target, slot) not in self._workers:
                self._workers[target, slot] = self._new_worker(spec, self.settings)
            return self._workers[target, slot]

    @contextmanager
    def fresh(self, target: str) -> Iterator[Worker]:
        """A worker whose process has served nothing yet, ended with the block."""
        worker = self._new_worker(self._spec(target), self.settings)
        try:
            yield worker
        finally:
            worker.close()

    def replay(self, target: str, jobs: Sequence[Job], *, patience: float = 1.0) -> tuple[Outcome, ...]:
        """Run jobs one after another in one fresh process, up to the first that ends it."""
        spare = len(jobs) + 1
        settings = dataclasses.replace(self.settings, retire_after=spare, history=spare)
        worker = self._new_worker(self._spec(target), settings)
        try:
            return replay(worker, jobs, patience=patience)
        finally:
            worker.close()

    def versions(self, target: str) -> Mapping[str, str]:
        """The versions behind a target. Raises TargetUnavailable or WorkerError where no worker of it starts."""
        self.check(target)
        worker = self.worker(target)
        if not worker.versions:
            worker.start()
        return worker.versions

    def cpu_seconds(self) -> dict[str, float]:
        """CPU seconds, user and system, by target, over all workers dead and alive; zygotes under `zygote:NAME`.

        Complete after `close`; before, the last ticks of running workers may be missing.
        """
        with self._lock:
            found = dict(self._past_cpu)
            for handle in self._zygotes.values():
                _add(found, handle.cpu_seconds())
        return found

    def processes(self) -> dict[str, int]:
        """The process ids of the living zygotes, by name."""
        with self._lock:
            return {name: handle.pid for name, handle in self._zygotes.items() if handle.pid and not handle.dead}

    def close(self) -> None:
        """Kill every process of the pool and wait for it; a job in flight comes back as inconclusive."""
        with self._lock:
            self._closed = True
            handles = dict(self._zygotes)
        # Children go before their parents, except where they still wait for a parent to be warm.
        unready = [name for name, handle in handles.items() if self._parent(name) is None and not handle.ready]
        children = [name for name in handles if self._parent(name) is not None]
        for name in dict.fromkeys([*unready, *children, *handles]):
            handles[name].close()
        for worker in tuple(self._workers.values()):
            worker.close()

    def _spec(self, target: str) -> TargetSpec:
        if target not in self._specs:
            raise UnknownName("target", target, self._specs)
        return self._specs[target]

    def _new_worker(self, spec: TargetSpec, settings: WorkerSettings) -> Worker:
        return Worker(spec.name, lambda: self._zygote(spec), settings, is_closed=lambda: self._closed)

    def _zygote(self, spec: TargetSpec) -> ZygoteHandle:
        handle = self._handle(spec.zygote)
        handle.wait_ready(self._warm_seconds(handle.name))
        return handle

    def _handle(self, name: str) -> ZygoteHandle:
        with self._lock:
            if self._closed:
                raise Closed("the pool was closed")
            handle = self._zygotes.get(name)
            if handle is not None and not handle.dead:
                return handle
            if handle is not None:
                self._failures[name] = 0 if handle.ready else self._failures.get(name, 0) + 1
                if self._failures[name] >= _ATTEMPTS:
                    return handle  # whose wait_ready says why
                _add(self._past_cpu, handle.cpu_seconds())
            self._zygotes[name] = handle = self._launch(name)
            return handle

    def _launch(self, name: str) -> ZygoteHandle:
        group = self._groups[name]
        parent = self._parent(name)
        environment = group[0].environment
        path = [os.path.abspath(entry) for entry in sys.path] if environment == "main" else []
        if parent is not None:
            launch = by_fork(self._handle(parent), self._warm_seconds(parent))
        else:
            launch = by_exec(*interpreter_for(environment, threads=self.settings.threads))
        return ZygoteHandle(name, {spec.name: spec.entry for spec in group}, launch, path)

    def _warm_seconds(self, name: str) -> float:
        """The deadline of a zygote: that of the most patient of its targets."""
        return self.settings.warm_seconds * max((spec.patience for spec in self._groups.get(name, ())), default=1.0)

    def _parent(self, name: str) -> str | None:
        parent = self._groups[name][0].parent_zygote
        group = self._groups.get(parent)
        return parent if group is not None and group[0].environment == self._groups[name][0].environment else None


def _add(total: dict[str, float], more: Mapping[str, float]) -> None:
    for name, seconds in more.items():
        total[name] = total.get(name, 0.0) + seconds
