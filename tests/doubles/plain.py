"""A target that needs nothing but numpy: each call returns the sum of each input. It names every node as it passes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.backends.protocol import Progress, TargetSpec, register
from harness.model.case import Case
from harness.model.outcome import CallResult, Job, Outcome, Status
from harness.model.values import Tensor, tensor_from_array


class PlainBackend:
    """Sums the inputs of each call, and says that it did so for every node of the program."""

    def warm(self) -> None:
        np.zeros(1).sum()

    def start(self) -> None:
        pass

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        progress.stage("run")
        calls = []
        for index in range(len(case.calls)):
            for node in case.program.operators:
                progress.node(node.name)
            arguments = case.arguments(index).values()
            sums = tuple(
                tensor_from_array(np.asarray(value.array().sum(dtype=np.float64), dtype=np.float32), "float32")
                for value in arguments
                if isinstance(value, Tensor)
            )
            calls.append(CallResult(sums))
        return Outcome(job.target, Status.OK, calls=tuple(calls))

    def versions(self) -> Mapping[str, str]:
        return {"numpy": np.__version__}


SPEC = register(TargetSpec("plain", "tests.doubles.plain:PlainBackend", "sums of inputs, in numpy", zygote="plain", family="plain"))
