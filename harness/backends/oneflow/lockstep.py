"""oneflow:lockstep: every node in OneFlow by itself, fed what the reference fed it, so that no bug hides the next one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.backends.oneflow import session
from harness.backends.oneflow.errors import OneFlowUnsupported
from harness.backends.oneflow.execute import execute
from harness.backends.oneflow.operands import Source, arguments, is_structural, state_operands
from harness.backends.oneflow.refusals import judge
from harness.backends.oneflow.translate import Plan, translate
from harness.backends.oneflow.translate.plan import render_plan
from harness.backends.oneflow.values import TensorMaker, from_flow
from harness.backends.protocol import Progress
from harness.errors import HarnessError
from harness.model.case import Case
from harness.model.codec import from_wire
from harness.model.outcome import Job, NodeResult, NodeTrace, Outcome, Status
from harness.model.program import Node, TensorSpec
from harness.model.values import Ref, Value

__all__ = ["LockstepBackend", "Step", "is_structural", "plan_call", "plan_node"]


@dataclass(frozen=True, slots=True)
class Step:
    """One node of one call, translated: a plan and the sources of its operands, or why there is none."""

    node: Node
    trace: NodeTrace
    plan: Plan | None = None
    sources: Mapping[str, Source] = field(default_factory=dict)
    refusal: str = ""
    structural: bool = False


class LockstepBackend:
    """The target `oneflow:lockstep`."""

    def warm(self) -> None:
        """Map OneFlow's library; importing it here would hang the children."""
        session.map_library()

    def start(self) -> None:
        """Import OneFlow in this worker."""
        session.start_worker()

    def versions(self) -> Mapping[str, str]:
        """OneFlow and numpy."""
        return session.versions()

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        """Run every traced node of every call and report each by itself; `calls` stay empty.

        Raises HarnessError where the reference brought no trace.
        """
        oneflow = session.import_oneflow()
        if not job.reference:
            raise HarnessError("a lockstep target needs the reference's witnesses")
        witnesses = from_wire(Outcome, job.reference).witness
        if len(witnesses) != len(case.calls):
            raise HarnessError(f"the reference brought {len(witnesses)} witnesses for {len(case.calls)} calls")
        progress.stage("translate")
        units = [plan_call(case, witness.trace) for witness in witnesses]
        progress.stage("run")
        results: list[NodeResult] = []
        shared = _shared_storages(case)
        with oneflow.no_grad():
            for call, steps in enumerate(units):
                twins = _Twins(step.node.target for unit in steps for step in unit)
                for unit in steps:
                    scope = _Scope(oneflow, shared)
                    results.extend(_run_unit(call, unit, scope, twins, progress))
        return _outcome(job.target, results)


def plan_call(case: Case, trace: tuple[NodeTrace, ...]) -> list[list[Step]]:
    """The translated steps of one call, those of one unit together, in the order of their first node."""
    groups: dict[str, list[NodeTrace]] = {}
    for entry in trace:
        groups.setdefault(entry.unit if entry.unit is not None else f"node {entry.name}", []).append(entry)
    nodes = {node.name: node for node in case.program.operators}
    return [[plan_node(case, nodes[entry.name], entry) for entry in group] for group in groups.values()]


def plan_node(case: Case, node: Node, trace: NodeTrace) -> Step:
    """One node translated from the values that the reference recorded."""
    if is_structural(node, trace):
        return Step(node, trace, structural=True)
    bound = arguments(node, trace.args, trace.kwargs)
    recipe = case.program.modules[node.target] if node.op == "call_module" else None
    operands, sources = state_operands(case.module_state(node.target), node.target) if recipe is not None else ({}, {})
    try:
        plan = translate(node, bound.args, bound.kwargs, recipe=recipe, state=operands)
    except OneFlowUnsupported as error:
        return Step(node, trace, refusal=str(error))
    return Step(node, trace, plan, {**bound.sources, **sources})


class _Twins:
    """The results of one call's nodes, so that of two nodes with the same operator and values only one runs."""

    def __init__(self, targets: Iterable[str]) -> None:
        self._count = Counter(targets)
        self._results: dict[object, NodeResult] = {}

    def key(self, step: Step) -> object:
        """What makes two steps twins; None where there can be none, or the arguments cannot be compared."""
        if step.plan is None or self._count[step.node.target] < 2:
            return None
        return (render_plan(step.plan), tuple((name, source.tensor) for name, source in step.sources.items()))

    def result(self, key: object, name: str) -> NodeResult | None:
        """The twin's result under this node's name."""
        twin = self._results.get(key) if key is not None else None
        return replace(twin, name=name) if twin is not None else None

    def add(self, key: object, result: NodeResult) -> None:
        """Remember a result."""
        if key is not None:
            self._results[key] = result


def _shared_storages(case: Case) -> dict[str, str]:
    """The storage of each placeholder that shares it with another one."""
    found = {n.name: n.spec.storage for n in case.program.placeholders if isinstance(n.spec, TensorSpec) and n.spec.storage is not None}
    count = Counter(found.values())
    return {name: storage for name, storage in found.items() if count[storage] > 1}


def _run_unit(call: int, unit: list[Step], scope: _Scope, twins: _Twins, progress: Progress) -> list[NodeResult]:
    results: list[NodeResult] = []
    failed: str | None = None
    for step in unit:
        name = step.node.name
        if step.structural:
            scope.pick(step)
            continue
        if failed is not None:
            results.append(NodeResult(name, call, Status.INCONCLUSIVE, message=f"shares storage with {failed}, which did not run"))
            continue
        key = twins.key(step) if len(unit) == 1 else None
        result = twins.result(key, name)
        if result is None:
            progress.node(name)
            result = _run_step(call, step, scope)
            twins.add(key, result)
        if result.status is not Status.OK:
            failed = name
        results.append(result)
    return results


class _Astray(Exception):
    """A node cannot run because an earlier one of its unit returned something else than the reference did."""


class _Scope:
    """The tensors of one unit: what its nodes computed so far, and what came from outside, made once."""

    def __init__(self, oneflow: Any, shared: Mapping[str, str]) -> None:
        self.oneflow = oneflow
        self._shared = shared
        self._maker = TensorMaker(oneflow)
        self._outside: dict[tuple[str, tuple[Value, ...]], Any] = {}
        self.inside: dict[str, Any] = {}

    def tensor(self, source: Source) -> Any:
        """The OneFlow tensor behind an operand.

        Raises _Astray where the trace does not tell what it is, OneFlowUnsupported for a dtype that OneFlow does not have.
        """
        if source.node in self.inside:
            value = self.inside[source.node]
            try:
                for step in source.path:
                    value = value[step]
            except (TypeError, LookupError) as error:
                raise _Astray(f"reads {source.node}, which returned another structure") from error
            if not isinstance(value, self.oneflow.Tensor):
                raise _Astray(f"reads {source.node}, which returned a {type(value).__name__} for a tensor")
            return value
        key = (source.node, source.path)
        if key not in self._outside:
            storage = self._shared.get(source.node)
            if storage is not None and any(self._shared.get(node) == storage for node, _ in self._outside if node != source.node):
                raise _Astray(f"{source.node} shares its storage with another input, of which a trace does not tell")
            self._outside[key] = self._maker.make(source.tensor)
        return self._outside[key]

    def pick(self, step: Step) -> None:
        """Carry a structural node's result on, where its container was computed in this unit, and says the same."""
        container = step.node.args[0]
        if isinstance(container, Ref) and container.node in self.inside:
            try:
                self.inside[step.node.name] = self.inside[container.node][step.trace.args[1]]
            except (TypeError, LookupError):
                self.inside[step.node.name] = None  # another structure: who reads it goes astray


def _run_step(call: int, step: Step, scope: _Scope) -> NodeResult:
    name = step.node.name
    if step.plan is None:
        return NodeResult(name, call, Status.UNSUPPORTED, message=step.refusal)
    try:
        operands = {operand: scope.tensor(source) for operand, source in step.sources.items()}
    except OneFlowUnsupported as error:
        return NodeResult(name, call, Status.UNSUPPORTED, message=str(error))
    except _Astray as error:
        return NodeResult(name, call, Status.INCONCLUSIVE, message=str(error))
    try:
        value = execute(step.plan, operands)
        session.synchronize(scope.oneflow)
        output = from_flow(scope.oneflow, value, name)
    except HarnessError as error:
        return NodeResult(name, call, Status.HARNESS_ERROR, message=str(error))
    except Exception as error:
        status, message = judge(error, step.plan)
        return NodeResult(name, call, status, message=message)
    scope.inside[name] = value
    return NodeResult(name, call, Status.OK, output)


def _outcome(target: str, results: list[NodeResult]) -> Outcome:
    for status in (Status.HARNESS_ERROR, Status.ERROR, Status.UNSUPPORTED):
        first = next((result for result in results if result.status is status), None)
        if first is not None:
            return Outcome(target, status, stage="run", message=first.message, node=first.name, call=first.call, nodes=tuple(results))
    return Outcome(target, Status.OK, stage="run", nodes=tuple(results))
