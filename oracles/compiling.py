"""What a compiler did beside the answer: compiled anew without need, or in pieces, used old code wrongly, left things changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from harness.model.case import Case
from harness.model.outcome import Outcome, Status
from harness.model.verdict import Kind, Severity, Verdict

# Results of one call that can be wrong because code compiled for another was used.
_RESULTS = (Kind.VALUE, Kind.SPECIAL, Kind.DTYPE, Kind.SHAPE, Kind.STRUCTURE, Kind.MUTATION)


def of_compiling(case: Case, observed: Outcome) -> Iterator[Verdict]:
    """Verdicts that need nothing of the reference: they follow from what was counted."""
    if observed.status is not Status.OK:
        return
    yield from _recompiles(case, observed)
    counts, target = observed.counts, observed.target
    if counts.get("differs-again"):
        text = f"{target}: the same call gives other bits when it is made again, and nothing in it is random"
        yield Verdict("compiling", Kind.VALUE, target, Severity.WRONG_VALUE, text, observed.stage, call=0)
    breaks = counts.get("graph-breaks", 0) - counts.get("graph-breaks-by-data", 0)
    if breaks > 0:
        reason = next((note.message for note in observed.diagnostics if note.stage == "graph-break"), "")
        text = f"{target}: a program without branches is compiled in {breaks + 1} pieces" + (f": {reason}" if reason else "")
        yield Verdict("compiling", Kind.GRAPH_BREAK, target, Severity.REFUSAL, text, observed.stage, detail={"breaks": breaks})
    for note in observed.diagnostics:
        if note.stage == "audit":
            text = f"{target}: its own check fails: {note.message}"
            check = note.message.partition(":")[0]
            yield Verdict("compiling", Kind.SELF_CHECK, target, Severity.WRONG_VALUE, text, observed.stage, path=check)
    left = [note.message for note in observed.diagnostics if note.stage == "state-left"]
    if left:
        text = f"{target}: something of the process is another afterwards: {'; '.join(left[:3])}"
        yield Verdict("compiling", Kind.STATE, target, Severity.CONTRACT, text, observed.stage, detail={"left": tuple(left)})


def _recompiles(case: Case, observed: Outcome) -> Iterator[Verdict]:
    """Sizes that were compiled for once need no compiling again."""
    seen: set[tuple[tuple[str, int], ...]] = set()
    again: list[tuple[int, int]] = []
    for index, call in enumerate(case.calls):
        binding = tuple(sorted(call.binding.items()))
        graphs = observed.counts.get(f"graphs[{index}]", 0)
        if binding in seen and graphs:
            again.append((index, graphs))
        seen.add(binding)
    if observed.counts.get("graphs-again"):
        again.append((0, observed.counts["graphs-again"]))
    if again:
        index, graphs = again[0]
        text = f"{observed.target}: call {index} compiles {graphs} graphs anew for sizes that were compiled for before"
        detail = {"calls": [number for number, _ in again], "graphs": graphs}
        yield Verdict("compiling", Kind.RECOMPILE, observed.target, Severity.REFUSAL, text, observed.stage, call=index, detail=detail)


def with_stale_guards(found: Iterable[Verdict], observed: Outcome) -> list[Verdict]:
    """The same verdicts; where a call is wrong with code of an earlier call, and compiled by itself it gives something else,
    the guards that let the code be used are at fault.
    """
    return [_stale(verdict) if _is_stale(verdict, observed) else verdict for verdict in found]


def _is_stale(verdict: Verdict, observed: Outcome) -> bool:
    return verdict.call is not None and verdict.kind in _RESULTS and bool(observed.counts.get(f"differs-afresh[{verdict.call}]"))


def _stale(verdict: Verdict) -> Verdict:
    text = f"code compiled for an earlier call is used where it does not hold: {verdict.message}"
    return dataclasses.replace(verdict, kind=Kind.STALE_GUARD, message=text, detail={**verdict.detail, "kind": verdict.kind.value})
