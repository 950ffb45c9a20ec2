"""Who supports what: counted per operator, dtype and target, since a refusal is never a finding and never silent."""

from __future__ import annotations

from harness.engine.evaluate import Evaluation
from harness.localize import traces_of
from harness.model.outcome import NodeTrace, Outcome, Status
from harness.model.values import Tensor, leaves
from harness.triage.known import operators_of

SEPARATOR = "|"


def support_rows(evaluation: Evaluation) -> tuple[str, ...]:
    """`target|operator|dtype|status` for every operator that a target ran or refused in this case.

    A whole target that refuses without naming a node is counted on every operator as `refused-whole`.
    """
    if not evaluation.valid:
        return ()
    traces = traces_of(evaluation.reference)
    trace = traces[0] if traces else {}
    names = operators_of(evaluation.case)
    rows: dict[str, None] = {}
    for target, outcome in evaluation.observed.items():
        for node, operator in names.items():
            status = _status(outcome, node)
            if status is not None:
                rows[SEPARATOR.join((target, operator, _dtype(trace.get(node)), status))] = None
    return tuple(rows)


def _status(outcome: Outcome, node: str) -> str | None:
    if outcome.nodes:
        results = (result for result in outcome.nodes if result.name == node)
        found = next(results, None)
        return str(found.status.value) if found is not None else None
    if outcome.status is Status.UNSUPPORTED:
        if outcome.node is None:
            return "refused-whole"
        return Status.UNSUPPORTED.value if outcome.node == node else None
    return str(outcome.status.value)


def _dtype(trace: NodeTrace | None) -> str:
    if trace is None:
        return "unknown"
    tensors = [leaf for _, leaf in [*leaves(trace.args), *leaves(dict(trace.kwargs)), *leaves(trace.output)] if isinstance(leaf, Tensor)]
    return tensors[0].dtype if tensors else "none"
