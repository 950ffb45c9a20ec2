"""Cases from rows of calls, and OneFlow workers for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harness.backends.eager import EagerBackend, Silent
from harness.backends.protocol import target
from harness.environments.availability import missing
from harness.model.case import Call, Case
from harness.model.codec import to_wire
from harness.model.fill import Data, Fill
from harness.model.outcome import Job, Outcome, Status, Witness
from harness.model.program import Node, Program, TensorSpec
from harness.model.values import Ref, map_leaves
from harness.workers.pool import WorkerPool
from tests.backends.oneflow.table import Row, T

needs_oneflow = pytest.mark.skipif(missing("oneflow") is not None, reason=str(missing("oneflow") or ""))


def case_of(rows: list[Row]) -> Case:
    """One case that makes every call of `rows`, node `n3` being the fourth of them."""
    placeholders: list[Node] = []
    nodes: list[Node] = []
    data: dict[str, Data] = {}
    modules, state = {}, {}

    def leaf(value: Any) -> Any:
        if not isinstance(value, T):
            return value
        name = f"x{len(placeholders)}"
        placeholders.append(Node(name, "placeholder", name, role="input", spec=TensorSpec(value.dtype, value.shape)))
        data[name] = value.data
        return Ref(name)

    for index, row in enumerate(rows):
        name = f"n{index}"
        args, kwargs = map_leaves(row.args, leaf), map_leaves(row.kwargs, leaf)
        if row.recipe is not None:
            modules[name] = row.recipe
            # Variances must be positive; a few more ones among weights do no harm.
            state.update({f"{name}.{key}": Fill("ordinary/1", len(state), 0 if "var" in key else -1, 1) for key in row.recipe.state})
            nodes.append(Node(name, "call_module", name, args, kwargs))
        else:
            nodes.append(Node(name, "call_function" if "." in row.target else "call_method", row.target, args, kwargs))
    program = Program((*placeholders, *nodes, Node("output", "output", "output", (None,))), modules)
    return Case(program, (Call(data=data),), state=state)


def reference(case: Case) -> Outcome:
    """What eager PyTorch does with a case, traced."""
    outcome = EagerBackend().run(case, Job(b"", "eager", ("trace",)), Silent())
    assert outcome.status is Status.OK, f"{outcome.node}: {outcome.message}"
    return outcome


def job(case: Case, name: str, eager: Outcome) -> Job:
    """A job for a OneFlow target."""
    wire = to_wire(Outcome("eager", Status.OK, witness=tuple(Witness(each.trace) for each in eager.witness)))
    return Job(to_wire(case), name, reference=wire if name.endswith("lockstep") else b"")


@contextmanager
def workers() -> Iterator[WorkerPool]:
    """A pool that serves the OneFlow targets."""
    with WorkerPool([target("oneflow:lockstep"), target("oneflow:eager")]) as pool:
        yield pool
