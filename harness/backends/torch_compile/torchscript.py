"""`jit:trace`: TorchScript's tracer, run on the calls of the sizes that it was traced with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch

from harness.backends.protocol import Progress
from harness.backends.torch_compile.failures import is_failure, message_of
from harness.errors import Unsupported
from harness.model.case import Case
from harness.model.outcome import CallResult, Job, Outcome, Status
from harness.torch_bridge.calling import SavedState, call_result
from harness.torch_bridge.flat import flat_outputs
from harness.torch_bridge.module import BuiltModule, build

_OUTPUTS = ("Only tensors, lists, tuples of tensors", "Tracer cannot infer type of")


class TraceBackend:
    """Traces the module on each binding's inputs, and runs the trace twice: from its second run on it is optimized."""

    def warm(self) -> None:
        """Trace something small."""
        torch.set_num_threads(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _jit_trace(torch.nn.ReLU(), (torch.ones(2),))(torch.ones(2))

    def start(self) -> None:
        """Nothing to do in a fresh child."""

    def versions(self) -> Mapping[str, str]:
        """The version of torch."""
        return {"torch": str(torch.__version__)}

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        """Trace once for each binding, and run its calls."""
        if case.mode != "fwd":
            raise Unsupported(f"mode {case.mode!r} is not run on TorchScript")
        traced: dict[tuple[tuple[str, int], ...], tuple[BuiltModule, SavedState, Any]] = {}
        calls: list[CallResult] = []
        index = differs = 0
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            try:
                for index, call in enumerate(case.calls):
                    key = tuple(sorted(call.binding.items()))
                    if key not in traced:
                        traced[key] = _trace(case, index, progress)
                    progress.stage("run")
                    first, second = (_run(index, *traced[key]) for _ in range(2))
                    differs += first != second and not _is_random(case, index)
                    calls.append(first)
            except Exception as error:
                if not is_failure(error):
                    raise
                return Outcome(job.target, Status.ERROR, message=message_of(error), call=index, versions=self.versions())
        return Outcome(job.target, Status.OK, calls=tuple(calls), versions=self.versions(), counts={"differs-again": differs})


def _trace(case: Case, index: int, progress: Progress) -> tuple[BuiltModule, SavedState, Any]:
    progress.stage("build")
    built = build(case)
    inputs = built.inputs(index)
    if not all(isinstance(value, torch.Tensor) for value in inputs):
        raise Unsupported("a size that no tensor carries cannot be an input of a trace")
    saved = SavedState(built.module)
    flat, rebuild = flat_outputs(built.module)
    progress.stage("trace")
    traced = _jit_trace(flat, inputs)
    saved.put_back()
    return built, saved, lambda *arguments: rebuild(traced(*arguments))


def _jit_trace(module: torch.nn.Module, inputs: tuple[Any, ...]) -> Callable[..., Any]:
    """The trace; raises Unsupported where the tracer says that it takes no such output."""
    try:
        traced: Callable[..., Any] = torch.jit.trace(module, inputs, check_trace=False, strict=False)  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        if any(words in str(error) for words in _OUTPUTS):
            raise Unsupported(message_of(error)) from error
        raise
    return traced


def _run(index: int, built: BuiltModule, saved: SavedState, traced: Any) -> CallResult:
    torch.default_generator.manual_seed(0)
    result = call_result(built, index, traced)
    saved.put_back()
    return result


def _is_random(case: Case, index: int) -> bool:
    torch.default_generator.manual_seed(0)
    before = torch.default_generator.get_state()
    built = build(case)
    built.module(*built.inputs(index))
    return not torch.equal(before, torch.default_generator.get_state())
