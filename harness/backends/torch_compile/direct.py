"""`backend:NAME`: a torch.compile backend's own function, given the graph of the Program; Dynamo has no part in it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch._dynamo

from harness.backends.protocol import Progress
from harness.backends.torch_compile import warming
from harness.backends.torch_compile.failures import is_failure, message_of, refuse_by_data
from harness.backends.torch_compile.lookup import backend_named
from harness.errors import Unsupported
from harness.model.case import Case
from harness.model.outcome import CallResult, Job, Outcome, Status
from harness.torch_bridge.calling import SavedState, call_result
from harness.torch_bridge.flat import flat_outputs
from harness.torch_bridge.gradients import require_grad
from harness.torch_bridge.module import BuiltModule, build


class DirectBackend:
    """Calls the backend as Dynamo would, once for each binding, and runs whatever callable comes back."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._backend: Callable[..., Any] | None = None

    def warm(self) -> None:
        """Find the backend and see that it compiles something small."""
        warming.prove(self.name)
        self._backend = backend_named(self.name)

    def start(self) -> None:
        """Nothing to do in a fresh child."""

    def versions(self) -> Mapping[str, str]:
        """The version of torch."""
        return {"torch": str(torch.__version__)}

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        """Compile for each binding and run its calls."""
        compiled: dict[tuple[tuple[str, int], ...], tuple[BuiltModule, SavedState, Callable[..., Any]]] = {}
        calls: list[CallResult] = []
        index = 0
        with warnings.catch_warnings(), torch.set_grad_enabled(case.mode != "fwd"):
            warnings.simplefilter("ignore")
            try:
                for index, call in enumerate(case.calls):
                    key = tuple(sorted(call.binding.items()))
                    if key not in compiled:
                        compiled[key] = self._compile(case, index, progress)
                    progress.stage("run")
                    built, saved, function = compiled[key]
                    torch.default_generator.manual_seed(0)
                    calls.append(call_result(built, index, function))
                    if not saved.put_back():
                        del compiled[key]
            except Exception as error:
                if not is_failure(error):
                    raise
                refuse_by_data(error)
                return Outcome(job.target, Status.ERROR, message=message_of(error), call=index, versions=self.versions())
        return Outcome(job.target, Status.OK, calls=tuple(calls), versions=self.versions())

    def _compile(self, case: Case, index: int, progress: Progress) -> tuple[BuiltModule, SavedState, Callable[..., Any]]:
        progress.stage("build")
        built = build(case)
        inputs = built.inputs(index)
        if not all(isinstance(value, torch.Tensor) for value in inputs):
            raise Unsupported("a size that no tensor carries: only Dynamo turns it into an input of a graph")
        if case.mode != "fwd":
            require_grad(case.program, built.arguments(inputs))
        saved = SavedState(built.module)
        flat, rebuild = flat_outputs(built.module)
        progress.stage("compile")
        backend = self._backend if self._backend is not None else backend_named(self.name)
        function = backend(flat, list(inputs))
        saved.put_back()
        return built, saved, lambda *arguments: rebuild(function(*arguments))
