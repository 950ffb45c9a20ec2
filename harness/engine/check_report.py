"""A check as text for people and as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.engine.check import Answer, Checked, Dispute, TargetResult
from harness.model.outcome import OWN_LIMIT
from harness.triage.vote import in_a_line

FORMAT_VERSION = 1
_SOURCE_LINES = 20
_OWN = (OWN_LIMIT, "untranslated: ")  # what refusals say that are none of the system's


def lines(checked: Checked) -> Iterator[str]:
    """The report of one module, line by line, without markup."""
    graphs = "1 graph" if checked.graphs == 1 else f"{checked.graphs} graphs"
    yield f"{checked.name}: {graphs}" + (f", captured by {checked.how}" if checked.how else "")
    if checked.rejected:
        yield f"  eager itself refuses what was captured: {checked.rejected}"
    width = max((len(result.target) for result in checked.targets), default=0)
    for result in checked.targets:
        yield f"  {result.target:{width}}  {_sentence(result)}"
        for dispute in result.disputes:
            yield from (f"    {line}" for line in _dispute(dispute, checked.graphs))
        for text in result.refusals[:3] if result.answer in (Answer.REFUSES, Answer.UNDECIDED) else ():
            yield f"    {text}"
        for text in result.faults[:3]:
            yield f"    {text}"
    if checked.targets and all(result.forward_only for result in checked.targets):
        yield "  no gradients were compared: none of these targets computes them here"


def data(checked: Checked) -> dict[str, object]:
    """One module for `--json`."""
    return {
        "module": checked.name,
        "captured_by": checked.how,
        "graphs": checked.graphs,
        "rejected": checked.rejected,
        "agrees": checked.agrees,
        "tested": checked.tested,
        "targets": [
            {
                "target": result.target,
                "answer": result.answer.value,
                "forward_only": result.forward_only,
                "operators_ran": result.ran,
                "operators_refused": dict(result.refused),
                "refusals": list(result.refusals),
                "faults": list(result.faults),
                "disagreements": [_plain(dispute) for dispute in result.disputes],
            }
            for result in checked.targets
        ],
    }


def _sentence(result: TargetResult) -> str:
    answer = result.answer
    ran = f"{result.ran} operator{'' if result.ran == 1 else 's'}"
    refused = _counts(result.refused)
    said = {
        Answer.AGREES: f"agrees with eager on {ran}",
        Answer.REFUSES: _refusal(result, refused) + (f"; agrees on {ran}" if result.ran else ""),
        Answer.UNDECIDED: "undecided",
        Answer.DISAGREES: "disagrees" + (f"; refuses {refused}" if refused else ""),
    }[answer]
    return said + (", in the forward pass" if result.forward_only else "")


def _refusal(result: TargetResult, refused: str) -> str:
    """Who falls short: the system, or fxdiff's way to it."""
    limits = [any(word in text for word in _OWN) for text in result.refusals]
    if limits and all(limits):
        return f"was not tried on {refused or 'the module'}: that is fxdiff's limit"
    return f"refuses {refused or 'the module'}" + (", in part for a limit of fxdiff's" if any(limits) else "")


def _dispute(dispute: Dispute, graphs: int) -> Iterator[str]:
    verdict = dispute.verdict
    where = [f"graph {dispute.graph + 1}"] if graphs > 1 else []
    where += [f"node {verdict.node}"] if verdict.node else []
    where += [f"operator {dispute.operator}"] if dispute.operator and dispute.operator != verdict.node else []
    yield f"{verdict.message.splitlines()[0] if verdict.message else verdict.kind.value}"
    if where:
        yield f"  where: {', '.join(where)}"
    if dispute.dropped:
        yield f"  not counted: {dispute.dropped}"
        return
    if dispute.known is not None:
        yield f"  known: {dispute.signature} {dispute.known.link}".rstrip()
        return
    program = [line for line in dispute.source.splitlines() if line.strip() and line != "import torch"]
    yield from (f"  | {line}" for line in program[:_SOURCE_LINES])
    if len(program) > _SOURCE_LINES:
        yield f"  | # and {len(program) - _SOURCE_LINES} lines more"
    if dispute.vote:
        yield f"  vote: {in_a_line(dispute.vote)}"
    if dispute.note:
        yield f"  note: {dispute.note}"
    if dispute.path:
        yield f"  run it: fxdiff replay {dispute.path}"


def _plain(dispute: Dispute) -> dict[str, object]:
    verdict = dispute.verdict
    return {
        "message": verdict.message,
        "kind": verdict.kind.value,
        "severity": verdict.severity.name.lower(),
        "stage": verdict.stage,
        "graph": dispute.graph,
        "node": verdict.node or "",
        "operator": dispute.operator,
        "signature": dispute.signature,
        "path": dispute.path,
        "known": dispute.known is not None,
        "link": dispute.known.link if dispute.known is not None else "",
        "dropped": dispute.dropped,
        "note": dispute.note,
        "vote": dispute.vote.split("\n") if dispute.vote else [],
        "source": dispute.source,
    }


def _counts(refused: Mapping[str, int]) -> str:
    """Refused operators as `topk 2, roll`."""
    return ", ".join(f"{name} {count}" if count > 1 else name for name, count in refused.items())
