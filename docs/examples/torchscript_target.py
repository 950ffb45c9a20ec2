"""A third party's target: TorchScript's tracer, in forty lines. Try it: fxdiff fuzz --import torchscript_target -t jit:trace."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from harness.backends.protocol import Progress, TargetSpec, register
from harness.errors import Unsupported
from harness.model.case import Case
from harness.model.outcome import Job, Outcome, Status
from harness.torch_bridge.calling import call_result
from harness.torch_bridge.module import build


class TraceBackend:
    """Traces the module on the first call's inputs, and runs the trace on every call's."""

    def warm(self) -> None:
        """Import and warm in the parent process, before any fork; threads started here would hang the children."""
        torch.set_num_threads(1)
        torch.jit.trace(torch.nn.ReLU(), torch.ones(2))

    def start(self) -> None:
        """Nothing to prepare in a forked worker."""

    def versions(self) -> Mapping[str, str]:
        """What could change the result."""
        return {"torch": str(torch.__version__)}

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        """Name each stage before it begins, so that a crash in it has an address."""
        if case.symbols:
            raise Unsupported("a trace holds for the shapes that it was made with")
        calls = []
        progress.stage("build")
        built = build(case)
        try:
            progress.stage("trace")
            traced = torch.jit.trace(built.module, built.inputs(0), check_trace=False, strict=False)
            progress.stage("run")
            for index in range(len(case.calls)):
                with torch.no_grad():
                    calls.append(call_result(built, index, traced))
        except RuntimeError as error:  # the tracer's own refusals and failures; anything else is our fault, and shown as such
            return Outcome(job.target, Status.ERROR, message=str(error).splitlines()[0], versions=self.versions())
        return Outcome(job.target, Status.OK, calls=tuple(calls), versions=self.versions())


register(TargetSpec("jit:trace", "torchscript_target:TraceBackend", "TorchScript's tracer", family="torchscript"))
