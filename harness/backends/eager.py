"""Eager PyTorch: the reference that every other target is judged by, and its witnesses."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from harness.backends.eager_fake import predict
from harness.backends.eager_trace import Announcer, Tracer
from harness.backends.eager_witness import run_spread, run_twin
from harness.backends.protocol import Progress
from harness.errors import HarnessError, Rejected
from harness.model.case import Call, Case
from harness.model.fill import Fill
from harness.model.outcome import CallResult, Declared, Diagnostic, Job, Outcome, Status, Witness
from harness.model.program import Node, Program, TensorSpec
from harness.model.values import Ref
from harness.torch_bridge.calling import changed, snapshot
from harness.torch_bridge.gradients import require_grad, train_step, with_gradients
from harness.torch_bridge.interpret import NodeFailed, build_arguments, build_modules, run_program
from harness.torch_bridge.tensors import Unrepresentable, from_torch

# What operators raise when they refuse their arguments; anything else is not understood.
REFUSALS = (RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, AssertionError)


_SQUARE = TensorSpec("float32", (1, 2, 4, 4))
WARM_UP = Case(
    Program(
        (
            Node("x0", "placeholder", "x0", role="input", spec=_SQUARE),
            Node("p0", "placeholder", "p0", role="parameter", spec=TensorSpec("float32", (2, 2, 3, 3))),
            Node("conv2d_0", "call_function", "torch.nn.functional.conv2d", (Ref("x0"), Ref("p0"))),
            Node("matmul_1", "call_function", "torch.matmul", (Ref("conv2d_0"), Ref("conv2d_0"))),
            Node("softmax_2", "call_method", "softmax", (Ref("matmul_1"), -1)),
            Node("output", "output", "output", (Ref("softmax_2"),)),
        )
    ),
    (Call(data={"x0": Fill("exact/1")}),),
    state={"p0": Fill("exact/1", 1)},
)


class Silent:
    """A Progress that tells nobody."""

    def stage(self, name: str) -> None:
        """Say nothing."""

    def node(self, name: str) -> None:
        """Say nothing."""


class EagerBackend:
    """Runs a case node by node in PyTorch eager."""

    def warm(self) -> None:
        """Import and exercise torch on one thread: OpenMP threads of the parent would hang forked children."""
        torch.set_num_threads(1)
        outcome = self.run(WARM_UP, Job(b"", "eager", ("trace", "twin", "spread", "fake")), Silent())
        if outcome.status is not Status.OK:
            raise HarnessError(f"the warm-up case failed: {outcome.message}")

    def start(self) -> None:
        """Nothing to do in a fresh child."""

    def versions(self) -> Mapping[str, str]:
        """The version of torch."""
        return {"torch": str(torch.__version__)}

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        """Run every call; `job.want` adds `trace`, `twin`, `spread` and `fake`.

        What an operator refuses makes the outcome `rejected`, with the node's name.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._run(case, frozenset(job.want), job.target, progress)

    def _run(self, case: Case, want: frozenset[str], target: str, progress: Progress) -> Outcome:
        calls: list[CallResult] = []
        witnesses: list[Witness] = []
        declared: list[Declared] = []
        diagnostics: list[Diagnostic] = []
        for index in range(len(case.calls)):
            try:
                result, trace = run_call(case, index, progress, trace="trace" in want)
            except NodeFailed as failure:
                if not isinstance(failure.error, REFUSALS):
                    raise
                node = failure.node.name
                return Outcome(target, Status.REJECTED, "run", message=str(failure), node=node, call=index, versions=self.versions())
            except (Rejected, Unrepresentable) as refusal:
                return Outcome(target, Status.REJECTED, "run", message=str(refusal), call=index, versions=self.versions())
            calls.append(result)
            twin = spread = None
            if "fake" in want:
                progress.stage("fake")
                claims, remarks = predict(case, index, progress)
                # With gradients, the module's own output is one part of what a call returns.
                declared.extend(claims if case.mode == "fwd" else (replace(claim, path=f"['output']{claim.path}") for claim in claims))
                diagnostics.extend(remarks)
            if "twin" in want:
                progress.stage("twin")
                twin = run_twin(case, index, progress)
            if "spread" in want:
                progress.stage("spread")
                spread = run_spread(case, index, progress, result.output)
            witnesses.append(Witness(trace, twin, spread))
        return Outcome(
            target,
            Status.OK,
            "run",
            calls=tuple(calls),
            declared=tuple(declared),
            diagnostics=tuple(diagnostics),
            witness=tuple(witnesses) if want & {"trace", "twin", "spread"} else (),
            versions=self.versions(),
        )


def run_call(case: Case, index: int, progress: Progress, *, trace: bool = False) -> tuple[CallResult, Any]:
    """One call, node by node, and its node traces.

    Raises NodeFailed for what an operator refuses, Rejected for what the backward pass refuses, Unrepresentable for a
    result that the value grammar cannot hold.
    """
    progress.stage("build")
    arguments = build_arguments(case, index)
    modules = build_modules(case)
    before = snapshot(case, arguments, modules)
    progress.stage("run")
    observer = Tracer(progress, arguments) if trace else Announcer(progress)
    torch.default_generator.manual_seed(0)
    binding = case.calls[index].binding
    with torch.set_grad_enabled(case.mode != "fwd"):
        if case.mode != "fwd":
            require_grad(case.program, arguments)
        output = run_program(case.program, arguments, modules, binding=binding, observer=observer)
        if case.mode != "fwd":
            try:
                output = (with_gradients if case.mode == "grad" else train_step)(case.program, arguments, modules, output)
            except REFUSALS as error:
                raise Rejected(f"backward: {type(error).__name__}: {error}") from error
    return CallResult(from_torch(output), changed(before, case, arguments, modules)), (
        observer.traces() if isinstance(observer, Tracer) else ()
    )
