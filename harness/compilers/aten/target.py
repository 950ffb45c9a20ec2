"""`aten:ENGINE`: the aten path without Dynamo as a target, or through torch.compile where the job says `route=dynamo`."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch._dynamo

from harness.backends.protocol import Progress
from harness.backends.torch_compile import warming
from harness.backends.torch_compile.failures import is_failure, message_of, refuse_by_data
from harness.compilers.aten import audit, engines
from harness.compilers.aten.backend import AtenBackend
from harness.compilers.aten.errors import AtenError
from harness.compilers.aten.settings import FIELDS, AtenSettings
from harness.compilers.aten.twin import compile_module
from harness.errors import TargetUnavailable, Unsupported, UsageError
from harness.model.case import Case
from harness.model.outcome import CallResult, Diagnostic, Job, Outcome, Status
from harness.torch_bridge import global_state
from harness.torch_bridge.calling import SavedState, call_result
from harness.torch_bridge.gradients import require_grad
from harness.torch_bridge.module import BuiltModule, build

ROUTES = ("twin", "dynamo")
AUDITS = ("off", "light", "full")
_BOOLEANS = {"true": True, "false": False}


def settings_from(engine: str, options: Mapping[str, Any]) -> AtenSettings:
    """The settings that a target's text options spell; raises UsageError for a value that cannot be."""
    changes: dict[str, Any] = {"engine": engine}
    for name, value in options.items():
        if name not in FIELDS:
            continue
        text, default = str(value), FIELDS[name].default
        if isinstance(default, bool):
            if text.lower() not in _BOOLEANS:
                raise UsageError(f"setting {name} must be true or false, not {text!r}")
            changes[name] = _BOOLEANS[text.lower()]
        elif isinstance(default, int):
            if not text.isdigit():
                raise UsageError(f"setting {name} must be a number, not {text!r}")
            changes[name] = int(text)
        elif isinstance(default, frozenset):
            changes[name] = frozenset(part for part in text.split(",") if part)
        else:
            changes[name] = text
    return AtenSettings(**changes)


class AtenTarget:
    """Compiles each binding of a case, runs its calls, and checks what must hold of the aten path itself.

    Options: every setting by name; `route` twin or dynamo; `audit` off, light or full.
    """

    def __init__(self, engine: str) -> None:
        self.engine = engine

    def warm(self) -> None:
        """Load the engine, and trace and compile something small. Raises TargetUnavailable where its library is missing."""
        warming.prepare()
        backend = AtenBackend(AtenSettings(engine=self.engine))
        inputs = torch.ones(2, 3), torch.ones(3, 2)

        def compile_small() -> None:
            with torch.no_grad():
                compile_module(torch.fx.symbolic_trace(warming.small), inputs, backend)(*inputs)

        if not getattr(backend.engine, "has_threads", False):
            compile_small()
        elif not warming.in_a_child(compile_small):
            raise TargetUnavailable(f"the engine {self.engine} cannot run a matrix product here; its own message is above")

    def start(self) -> None:
        """Nothing to do in a fresh child."""

    def versions(self) -> Mapping[str, str]:
        """Versions of torch and of the engine's libraries."""
        return {"torch": str(torch.__version__), **getattr(engines.engine(self.engine), "versions", dict)()}

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        """Compile and run every call."""
        settings = settings_from(self.engine, job.options)
        route, level = str(job.options.get("route") or "twin"), str(job.options.get("audit") or "light")
        if route not in ROUTES or level not in AUDITS:
            raise UsageError(f"route is one of {', '.join(ROUTES)}, audit one of {', '.join(AUDITS)}; not {route!r} and {level!r}")
        before = global_state.take()
        with warnings.catch_warnings(), torch.set_grad_enabled(case.mode != "fwd"):
            warnings.simplefilter("ignore")
            outcome = _Run(case, job, progress, settings, route, level).outcome(self.versions())
        left = global_state.changes(before, global_state.take())
        global_state.restore(before)
        notes = tuple(Diagnostic("note", text, "state-left") for text in left)
        return Outcome(**{**{name: getattr(outcome, name) for name in outcome.__slots__}, "diagnostics": outcome.diagnostics + notes})


class _Run:
    def __init__(self, case: Case, job: Job, progress: Progress, settings: AtenSettings, route: str, level: str) -> None:
        self.case, self.job, self.progress, self.settings, self.route, self.level = case, job, progress, settings, route, level
        self.backend = AtenBackend(settings)
        self.calls: list[CallResult] = []
        self.defects: list[audit.Defect] = []

    def outcome(self, versions: Mapping[str, str]) -> Outcome:
        compiled: dict[tuple[tuple[str, int], ...], tuple[BuiltModule, SavedState, Callable[..., Any]]] = {}
        index = 0
        try:
            for index, call in enumerate(self.case.calls):
                key = tuple(sorted(call.binding.items()))
                if key not in compiled:
                    compiled[key] = self.compile(index)
                built, saved, function = compiled[key]
                self.progress.stage("run")
                torch.default_generator.manual_seed(0)
                self.calls.append(call_result(built, index, function))
                if not saved.put_back():
                    del compiled[key]
            if self.level != "off":
                self.audit(compiled)
        except AtenError as error:
            node = getattr(error, "node", "") or None
            return self.result(Status.ERROR, versions, message=f"{type(error).__name__}: {error}", call=index, node=node)
        except Exception as error:
            if not is_failure(error):
                raise
            refuse_by_data(error)
            return self.result(Status.ERROR, versions, message=message_of(error), call=index)
        return self.result(Status.OK, versions)

    def compile(self, index: int) -> tuple[BuiltModule, SavedState, Callable[..., Any]]:
        self.progress.stage("build")
        built = build(self.case)
        inputs = built.inputs(index)
        if self.case.mode != "fwd":
            require_grad(self.case.program, built.arguments(inputs))
        saved = SavedState(built.module)
        self.progress.stage("compile")
        if self.route == "dynamo":
            torch._dynamo.reset()
            return built, saved, torch.compile(built.module, backend=self.backend)
        if self.case.mode != "fwd" and not all(isinstance(value, torch.Tensor) for value in inputs):
            raise Unsupported("a size that no tensor carries: without Dynamo, it cannot be an input of a graph for training")
        function = compile_module(built.module, inputs, self.backend, training=self.case.mode != "fwd")
        saved.put_back()
        return built, saved, function

    def audit(self, compiled: Mapping[Any, tuple[BuiltModule, SavedState, Callable[..., Any]]]) -> None:
        """Checks on the first call; what is random or written with one's own state is left to the oracles."""
        if self.route == "dynamo" or not compiled or self.case.mode != "fwd":
            self.defects += audit.of_reports(self.backend)
            return
        self.progress.stage("audit")
        subject = audit.Subject(lambda: build(self.case).module, lambda: build(self.case).inputs(0))
        if self.level == "full":
            self.defects += audit.full(subject, self.settings)
            return
        _, saved, function = next(iter(compiled.values()))
        self.defects += audit.light(subject, self.backend, function)
        saved.put_back()

    def result(
        self, status: Status, versions: Mapping[str, str], *, message: str = "", call: int | None = None, node: str | None = None
    ) -> Outcome:
        counts: Counter[str] = Counter()
        for report in self.backend.reports:
            counts.update(report.counts())
        refused = getattr(self.backend.engine, "refused", 0)
        if refused:
            counts["refused-by-engine"] = refused
        known = {each.name for each in self.case.program}
        return Outcome(
            self.job.target,
            status,
            calls=tuple(self.calls) if status is Status.OK else (),
            diagnostics=tuple(Diagnostic("note", str(defect), "audit") for defect in self.defects),
            message=message,
            node=node if node in known else None,
            call=call,
            versions=versions,
            counts=dict(counts),
        )
