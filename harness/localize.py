"""Where a mismatch comes from: the first node that disagrees when fed the reference's inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.minimize.edits import extract
from harness.minimize.passes import Traces
from harness.model.case import Case
from harness.model.outcome import NodeTrace, Outcome

Shows = Callable[[Case], Traces | None]

# Taking a result apart computes nothing, so it cannot be guilty.
_STRUCTURAL = frozenset({"operator.getitem", "getitem"})


@dataclass(frozen=True, slots=True)
class Location:
    """The guilty node of a case, and the case that holds it alone."""

    node: str
    case: Case
    traces: Traces


def traces_of(reference: Outcome) -> Traces:
    """The reference's node traces, one mapping a call; empty where it was not asked for them."""
    return tuple({trace.name: trace for trace in witness.trace} for witness in reference.witness)


def units(case: Case, traces: Traces) -> tuple[tuple[str, ...], ...]:
    """The operators in execution order, those that share storage with a mutation joined into one unit."""
    if not traces:
        return tuple((node.name,) for node in case.program.operators)
    grouped: dict[str, list[str]] = {}
    for node in case.program.operators:
        trace: NodeTrace | None = traces[0].get(node.name)
        unit = trace.unit if trace is not None and trace.unit is not None else node.name
        grouped.setdefault(unit, []).append(node.name)
    return tuple(tuple(names) for names in grouped.values())


def locate(case: Case, traces: Traces, shows: Shows, *, suspects: Sequence[str] = ()) -> Location | None:
    """The first unit that shows the disagreement by itself; `suspects` are tried before the others.

    None means that no node alone is guilty: fusion, layout, lifetime, or a sequence of mutations.
    """
    targets: Mapping[str, str] = {node.name: node.target for node in case.program.operators}
    ordered = sorted(units(case, traces), key=lambda names: not any(name in suspects for name in names))
    for names in ordered:
        if all(targets[name] in _STRUCTURAL for name in names):
            continue
        alone = extract(case, names, traces)
        if alone is None or len(alone.program.operators) == len(case.program.operators):
            continue
        found = shows(alone)
        if found is not None:
            return Location(names[-1], alone, found)
    return None
