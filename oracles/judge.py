"""All oracles over one Outcome: the Verdicts, most severe first."""

from __future__ import annotations

import cmath
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.model.case import Case
from harness.model.dtypes import Array
from harness.model.outcome import CallResult, NodeResult, Outcome, Status
from harness.model.values import Ref, Tensor, Value, leaves, tensor_from_array
from harness.model.verdict import Kind, Severity, Verdict
from oracles import compiling, contracts, pipeline, status
from oracles.gradients import parts
from oracles.history import EXACT, Grade, History, node_grade, part
from oracles.margins import same_choice
from oracles.operands import Operands
from oracles.operators import INDICES, PAIRS
from oracles.policy import DEFAULT, Policy
from oracles.values import Difference, difference, same_bits

# What a run that ended so left behind proves nothing.
_MUTE = (Status.HARNESS_ERROR, Status.INCONCLUSIVE, Status.REJECTED)
_VALUES = (Kind.VALUE, Kind.SPECIAL)
GradeOf = Callable[[str], Grade]
AlikeOf = Callable[[str, Array, Array], "Array | None"]


def judge(case: Case, reference: Outcome, observed: Outcome, *, policy: Policy = DEFAULT) -> tuple[Verdict, ...]:
    """What `observed` does otherwise than `reference`, most severe first; nothing where eager itself refused the case.

    Raises HarnessError where the outcomes cannot belong to one case.
    """
    if reference.status is not Status.OK or observed.status in _MUTE:
        return ()
    other_evidence = observed.nodes or observed.stories or (observed.declared and not observed.calls)
    if observed.status is Status.OK and not other_evidence and len(observed.calls) != len(reference.calls):
        raise HarnessError(f"{observed.target} returned {len(observed.calls)} calls where eager made {len(reference.calls)}")
    if observed.stories:
        return _ordered(pipeline.of_stories(observed, functools.partial(_compared, case, reference, observed, policy)), policy)
    comparison = _Comparison(case, reference, observed, policy)
    by_node = list(comparison.nodes())
    whole = list(comparison.calls())
    if whole and comparison.all_nodes_passed and not by_node:
        whole = [_whole_only(verdict) if verdict.oracle != "declared" else verdict for verdict in whole]
    whole = compiling.with_stale_guards(whole, observed)
    found = [*status.of_outcome(observed), *by_node, *whole, *compiling.of_compiling(case, observed)]
    found += contracts.of_declared(observed.declared, reference.calls, observed.target, own=observed.calls)
    return _ordered(found, policy)


def judge_reference(case: Case, reference: Outcome, *, policy: Policy = DEFAULT) -> tuple[Verdict, ...]:
    """Where the types that FakeTensor declares are not those that eager gives; the target is `eager`."""
    if reference.status is not Status.OK:
        return ()
    return _ordered(contracts.of_declared(reference.declared, reference.calls, reference.target), policy)


def _compared(
    case: Case, reference: Outcome, observed: Outcome, policy: Policy, calls: tuple[int, ...], answers: tuple[CallResult, ...]
) -> tuple[Verdict, ...]:
    """What is wrong with the answers to some of the calls."""
    chosen = dataclasses.replace(
        reference,
        calls=tuple(reference.calls[call] for call in calls),
        witness=tuple(reference.witness[call] for call in calls) if reference.witness else (),
    )
    same = dataclasses.replace(case, calls=tuple(case.calls[call] for call in calls))
    given = dataclasses.replace(observed, calls=answers, stories=(), declared=(), nodes=())
    found = (
        dataclasses.replace(each, call=None if each.call is None else calls[each.call])
        for each in _Comparison(same, chosen, given, policy).calls()
    )
    return _ordered(found, policy)


def _ordered(found: Iterable[Verdict], policy: Policy) -> tuple[Verdict, ...]:
    """One verdict for each kind and place, the calls that show it in its detail."""
    kept: dict[tuple[Value, ...], Verdict] = {}
    for verdict in found:
        if verdict.kind in policy.ignored:
            continue
        key = (verdict.kind, verdict.oracle, verdict.node, verdict.path, verdict.stage)
        first = kept.setdefault(key, verdict)
        if first is not verdict:
            calls = [*first.detail.get("calls", [first.call]), verdict.call]
            kept[key] = dataclasses.replace(first, detail={**first.detail, "calls": calls})
    return tuple(sorted(kept.values(), key=lambda verdict: -verdict.severity))


def _whole_only(verdict: Verdict) -> Verdict:
    detail = {**verdict.detail, "kind": verdict.kind.value}
    return dataclasses.replace(verdict, kind=Kind.WHOLE_ONLY, message=f"every node alone is right, but {verdict.message}", detail=detail)


class _Comparison:
    """One observed outcome against the reference; a call's history is worked out once, when it is first needed."""

    def __init__(self, case: Case, reference: Outcome, observed: Outcome, policy: Policy) -> None:
        self.case, self.reference, self.observed, self.policy = case, reference, observed, policy
        self.all_nodes_passed = False
        self._histories: dict[int, History] = {}

    def history(self, call: int) -> History:
        if call not in self._histories:
            witness = self.reference.witness[call] if call < len(self.reference.witness) else None
            self._histories[call] = History(self.case, call, witness, self.policy)
        return self._histories[call]

    def calls(self) -> Iterator[Verdict]:
        """Outputs and mutations of every call that came back."""
        for call, (expected, actual) in enumerate(zip(self.reference.calls, self.observed.calls, strict=False)):
            witness = self.reference.witness[call] if call < len(self.reference.witness) else None
            twin = dict(leaves(witness.twin)) if witness is not None else {}
            spread = dict(leaves(witness.spread)) if witness is not None else {}
            for each in parts(self.case, expected.output, actual.output):
                for verdict in self.value(
                    each.expected,
                    each.actual,
                    each.name,
                    functools.partial(self._grade_of_output, call, each.path),
                    functools.partial(self._alike_in_output, call, each.path),
                    _below(twin, each.path),
                    _below(spread, each.path),
                ):
                    found = dataclasses.replace(verdict, path=each.path + verdict.path, oracle=each.oracle or verdict.oracle)
                    yield self._at(found, call, None)
            yield from self.mutations(expected, actual, call)

    def mutations(self, expected: CallResult, actual: CallResult, call: int) -> Iterator[Verdict]:
        """Whether the same arguments were changed, to the same values."""
        target = self.observed.target
        for name in sorted({*expected.mutated, *actual.mutated}):
            if name in expected.mutated and name in actual.mutated:
                pair = expected.mutated[name], actual.mutated[name]
                for verdict in self.value(*pair, f"argument {name}", lambda _: self.history(call).of_mutated(), None, {}, {}):
                    special = verdict.kind is Kind.SPECIAL
                    yield dataclasses.replace(
                        self._at(verdict, call, None),
                        oracle="mutation",
                        kind=Kind.SPECIAL if special else Kind.MUTATION,
                        severity=Severity.SPECIAL_VALUE if special else Severity.CONTRACT,
                        path=name,
                    )
                continue
            changed, kept = ("eager", target) if name in expected.mutated else (target, "eager")
            if self._imperceptible(name, (expected if changed == "eager" else actual).mutated[name], call):
                continue
            text = f"argument {name}: {changed} changes it, {kept} does not"
            yield Verdict("mutation", Kind.MUTATION, target, Severity.CONTRACT, text, self.observed.stage, None, call, name)

    def _imperceptible(self, name: str, after: Tensor, call: int) -> bool:
        """Whether an argument that only one side changed is still within tolerance of what it was."""
        before = self.case.arguments(call).get(name)
        if not isinstance(before, Tensor) or before.dtype != after.dtype or before.shape != after.shape:
            return False
        grade = self.history(call).of_mutated()
        return bool(grade.doubt) or difference(before, after, grade, self.policy) is None

    def nodes(self) -> Iterator[Verdict]:
        """Every node of a lockstep run against the reference's trace."""
        results = self.observed.nodes
        if not results:
            return
        traces = [{trace.name: trace for trace in witness.trace} for witness in self.reference.witness]
        passed = {(result.call, result.name) for result in results if result.status is Status.OK}
        self.all_nodes_passed = bool(traces) and all(
            (call, node.name) in passed for call in range(len(self.reference.calls)) for node in self.case.program.operators
        )
        for result in results:
            yield from status.of_node(result, self.observed)
            if result.status is not Status.OK:
                continue
            trace = traces[result.call].get(result.name) if result.call < len(traces) else None
            if trace is None:
                raise HarnessError(f"{self.observed.target} ran {result.name} of call {result.call}, of which eager left no trace")
            if trace.output == result.output:
                continue
            operands = Operands(self.case, self.case.program.node(result.name), trace)
            for verdict in self.value(
                trace.output,
                result.output,
                result.name,
                functools.partial(self._grade_of_node, operands, result),
                functools.partial(_alike, operands),
                *self._node_witnesses(operands, result.call),
            ):
                yield self._at(verdict, result.call, result.name)

    def _node_witnesses(self, operands: Operands, call: int) -> tuple[dict[str, Value], dict[str, Value]]:
        """Twin and spread of a node that is an output and reads arguments alone: there they speak of the node itself."""
        names = {node.name for node in self.case.program.placeholders}
        if operands.trace.unit is not None or not names.issuperset(operands.node.inputs()):
            return {}, {}
        found = [at for at, leaf in leaves(self.case.program.output) if isinstance(leaf, Ref) and leaf.node == operands.node.name]
        if not found:
            return {}, {}
        at, witness = found[0], self.reference.witness[call]
        twin, spread = (
            {path[len(at) :]: leaf for path, leaf in leaves(value) if path.startswith(at)} for value in (witness.twin, witness.spread)
        )
        return twin, spread

    def _grade_of_node(self, operands: Operands, result: NodeResult, path: str) -> Grade:
        if operands.trace.unit is not None and not operands.outputs:
            return EXACT
        return part(node_grade(operands, {name: EXACT for name in operands.node.inputs()}, self.policy), path)

    def _grade_of_output(self, call: int, within: str, path: str) -> Grade:
        return self.history(call).of_output(within + path)

    def _alike_in_output(self, call: int, within: str, path: str, expected: Array, actual: Array) -> Array | None:
        history = self.history(call)
        found = history.source(within + path)
        if found is None:
            return None
        name, place = found
        node = self.case.program.node(name)
        operands = history.operands.get(name)
        if operands is not None and operands.name == "getitem" and len(node.inputs()) == 1 and node.args[1:] == (1,):
            operands, place = history.operands.get(node.inputs()[0]), "[1]"
        return _alike(operands, place, expected, actual) if operands is not None else None

    def _at(self, verdict: Verdict, call: int, node: str | None) -> Verdict:
        return dataclasses.replace(verdict, call=call, node=node, stage=self.observed.stage)

    def value(
        self,
        expected: Value,
        actual: Value,
        name: str,
        grade_of: GradeOf,
        alike_of: AlikeOf | None,
        twin: dict[str, Value],
        spread: dict[str, Value],
    ) -> Iterator[Verdict]:
        """Structure, dtype, shape and values of two results; `name` is how the message calls them."""
        if expected == actual and _plain(expected):
            return
        target = self.observed.target
        mismatch = contracts.of_structure(expected, actual, target, name)
        if mismatch is not None:
            yield mismatch
            return
        for (path, want), (_, have) in zip(leaves(expected), leaves(actual), strict=True):
            place = f"{name} {path}" if path else name
            if not isinstance(want, Tensor):
                if want != have or isinstance(want, float):
                    yield from self._scalar(want, have, path, place, grade_of)
                continue
            types = list(contracts.of_types(want, have, target, place))
            if types:
                yield from (dataclasses.replace(verdict, path=path) for verdict in types)
            elif not same_bits(want, have):
                alike = alike_of(path, want.array(), have.array()) if alike_of is not None else None
                found = difference(
                    want,
                    have,
                    grade_of(path),
                    self.policy,
                    twin=_tensor(twin.get(path)),
                    spread=_tensor(spread.get(path)),
                    alike=alike,
                )
                if found is not None:
                    yield _value_verdict(found, target, path, place)

    def _scalar(self, want: Value, have: Value, path: str, place: str, grade_of: GradeOf) -> Iterator[Verdict]:
        target = self.observed.target
        if isinstance(want, float | complex):
            dtype = "complex128" if isinstance(want, complex) else "float64"
            found = difference(_scalar_tensor(want, dtype), _scalar_tensor(have, dtype), grade_of(path), self.policy)
            if found is not None:
                yield _value_verdict(found, target, path, place)
            return
        grade = grade_of(path)
        if grade.doubt or any(not self.policy.judges(special) for special in grade.special):
            return
        text = f"{place}: eager {want}, {target} {have}"
        detail = {"expected": want, "actual": have, "differing": 1, "total": 1, "index": ()}
        yield Verdict("values", Kind.VALUE, target, Severity.WRONG_VALUE, text, path=path, detail=detail)


def _alike(operands: Operands, place: str, expected: Array, actual: Array) -> Array | None:
    """Where two indices name equal elements, if this place of the node's result holds indices."""
    if operands.name in INDICES or (operands.name in PAIRS and place.startswith("[1]")):
        return same_choice(operands, expected, actual)
    return None


def _below(places: dict[str, Value], path: str) -> dict[str, Value]:
    """What stands below `path`, by the rest of its place."""
    return {place[len(path) :]: leaf for place, leaf in places.items() if place.startswith(path)} if path else places


def _plain(value: Value) -> bool:
    """Whether equality of two such values decides that they are the same; not so for 0.0 or True == 1 hidden in scalars."""
    return all(isinstance(leaf, Tensor | str | None) for _, leaf in leaves(value))


def _tensor(value: Value) -> Tensor | None:
    return value if isinstance(value, Tensor) else None


def _scalar_tensor(value: Any, dtype: str) -> Tensor:
    return tensor_from_array(np.array(value, dtype=np.dtype("<c16" if dtype == "complex128" else "<f8")), dtype)


def _value_verdict(found: Difference, target: str, path: str, place: str) -> Verdict:
    special = bool(found.special)
    where = f" at [{', '.join(map(str, found.index))}]" if found.index else ""
    counted = f"{found.differing} of {found.total} elements differ; worst{where}" if found.total > 1 else "the value differs"
    numbers = all(
        isinstance(each, int | float | complex) and cmath.isfinite(each) for each in (found.expected, found.actual, found.tolerance)
    )
    allowed = f" (allowed {found.tolerance:.3g})" if found.tolerance and numbers else ""
    text = f"{place}: {counted}: eager {found.expected}, {target} {found.actual}{allowed}"
    detail = {
        "index": found.index,
        "expected": found.expected,
        "actual": found.actual,
        "differing": found.differing,
        "total": found.total,
        "max_abs": found.max_abs,
        "tolerance": found.tolerance,
    }
    if special:
        detail["special"] = found.special
    kind, severity = (Kind.SPECIAL, Severity.SPECIAL_VALUE) if special else (Kind.VALUE, Severity.WRONG_VALUE)
    return Verdict("values", kind, target, severity, text, path=path, detail=detail)
