"""The reducer: apply passes while they help, in a total order, until nothing smaller is interesting.

The predicate is given; it answers for one candidate whether the same target still disagrees in the same kind, and hands
back the reference's traces so that later cuts have values to put in.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from harness.minimize.order import size_key
from harness.minimize.passes import PASSES, Traces
from harness.model.case import Case
from harness.model.codec import case_id

Interesting = Callable[[Case], Traces | None]


@dataclass(frozen=True, slots=True)
class Reduction:
    """The smallest case found, how many candidates were run, and whether the budget ended it early."""

    case: Case
    traces: Traces
    executions: int
    complete: bool


def reduce_case(case: Case, traces: Traces, interesting: Interesting, *, max_executions: int = 400, seconds: float = 60.0) -> Reduction:
    """The canonical smallest case that `interesting` accepts and the passes reach from `case`.

    Every accepted step is strictly smaller by `size_key`, so reduction ends; run again on its own result, it changes
    nothing unless it was cut short. `seconds` is wall time, since the candidates run in other processes.
    """
    best, best_key = case, size_key(case)
    tried: set[str] = {case_id(case)}
    executions = 0
    deadline = time.monotonic() + seconds
    progressed = True
    while progressed:
        progressed = False
        for reduction_pass in PASSES:
            again = True
            while again:
                again = False
                for candidate in reduction_pass(best, traces):
                    if candidate is None:
                        continue
                    key = size_key(candidate)
                    name = case_id(candidate)
                    if key >= best_key or name in tried:
                        continue
                    if executions >= max_executions or time.monotonic() > deadline:
                        return Reduction(best, traces, executions, complete=False)
                    tried.add(name)
                    executions += 1
                    found = interesting(candidate)
                    if found is not None:
                        best, best_key, traces = candidate, key, found
                        progressed = again = True
                        break
    return Reduction(best, traces, executions, complete=True)
