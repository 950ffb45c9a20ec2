"""What went wrong, in sentences for people who know the system and not fxdiff."""

from __future__ import annotations

import cmath
import re

from harness.corpus.entry import Entry
from harness.exporting.names import one_line
from harness.exporting.scrub import scrub_diagnostics
from harness.exporting.titles import death_of, outputs, pair_of, stage_of, without_nodes
from harness.exporting.words import cause_of, said_of
from harness.model.values import Tensor, leaves
from harness.model.verdict import Kind, Verdict
from harness.reproducers.check import ERROR_KINDS

_NAMES = {"torch-mlir": "torch-mlir", "oneflow": "OneFlow"}
_LOWERING = {
    "import": "Importing",
    "torch-pipeline": "Lowering to linalg-on-tensors",
    "inference": "Inferring types by torch-lower-to-backend-contract",
    "linalg": "Lowering to linalg-on-tensors",
    "tosa": "Lowering to TOSA",
    "tosa-to-linalg": "Lowering the TOSA that it makes to linalg",
    "stablehlo": "Lowering to StableHLO",
    "stablehlo-to-linalg": "Lowering the StableHLO that it makes to linalg",
    "llvm": "Lowering to LLVM",
}
_DEADLINE = 60  # in seconds, as reproducers have it


def name_of(entry: Entry, *, version: bool = False) -> str:
    """What people call the system, with its version where wanted and known."""
    name = _NAMES.get(entry.signature.family, entry.target)
    number = entry.expectation.versions.get(entry.signature.family, "") if version else ""
    return f"{name} {number}".strip()


def lead(entry: Entry) -> str:
    """The first words of an issue: what the system does, and what PyTorch does instead."""
    verdict = entry.verdict
    assert verdict is not None
    system, kind = name_of(entry, version=True), verdict.kind
    cause = cause_of(entry).rstrip(".:; ")
    why = f": {cause}" if cause else ""
    if kind is Kind.CRASH:
        stage = f" in {stage_of(entry)}" if stage_of(entry) else ""
        return f"With {system} the {death_of(verdict)}{stage}{why}. {_returned(entry)}"
    if kind is Kind.TIMEOUT:
        return f"{_attempt(entry) or system} does not finish within {deadline(entry)} s{_with(entry)}. {_returned(entry)}"
    if kind is Kind.OOM:
        return f"{_attempt(entry) or system} takes all memory{_with(entry)}. {_returned(entry)}"
    if kind in ERROR_KINDS:
        fails = f"{_attempt(entry)} fails{_with(entry)}" if _attempt(entry) else f"{system} raises" if _raises(cause) else f"{system} fails"
        return f"{fails}{why.removeprefix(':') if fails.endswith('raises') else why}. {_returned(entry)}"
    return f"{name_of(entry)} disagrees with eager PyTorch: {disagreement(entry, verdict)}."


def disagreement(entry: Entry, verdict: Verdict) -> str:
    """How two results differ, in words, without fxdiff's names for nodes and targets."""
    detail, pair = verdict.detail, pair_of(verdict)
    where = f" in output {verdict.path}" if verdict.path and outputs(entry) > 1 else ""
    if verdict.kind in (Kind.VALUE, Kind.SPECIAL) and pair:
        index, differing, total = detail.get("index"), detail.get("differing"), detail.get("total")
        if isinstance(total, int) and total > 1:
            place = f"the worst at {said_of(index)}: " if isinstance(index, tuple | list) and index else "such as "
            return f"{differing} of {total} elements differ{where}, {place}{pair}{_allowed(verdict)}"
        return f"it returns {pair}{where}{_allowed(verdict)}"
    if verdict.kind is Kind.DTYPE and pair:
        return f"it returns {said_of(detail['actual'])}{where} where PyTorch returns {said_of(detail['expected'])}"
    if verdict.kind is Kind.SHAPE and pair:
        return f"it returns shape {said_of(detail['actual'])}{where} where PyTorch returns {said_of(detail['expected'])}"
    message = scrub_diagnostics(one_line(verdict.message, 400)).removeprefix(f"{verdict.target}: ")
    message = without_nodes(message, [node.name for node in entry.case.program.operators])
    return message.replace(verdict.target, name_of(entry)).rstrip(".")


def deadline(entry: Entry) -> int:
    """After how many seconds a reproducer gave up waiting."""
    found = re.search(r"still running after (\d+) s", entry.repro or "")
    return int(found[1]) if found is not None else _DEADLINE


def _allowed(verdict: Verdict) -> str:
    """The difference that rounding would explain; empty where no difference of two numbers is at issue."""
    allowed = verdict.detail.get("tolerance")
    sides = (verdict.detail.get("expected"), verdict.detail.get("actual"), allowed)
    if not allowed or not all(isinstance(each, int | float | complex) and cmath.isfinite(each) for each in sides):
        return ""
    return f" (rounding explains {allowed:.3g})"


def _attempt(entry: Entry) -> str:
    """What was being done, for a system of several parts."""
    if entry.signature.family != "torch-mlir":
        return ""
    stage = stage_of(entry)
    return _LOWERING.get(entry.signature.stage, stage[:1].upper() + stage[1:])


def _with(entry: Entry) -> str:
    return f" with {name_of(entry, version=True)}" if _attempt(entry) else ""


def _raises(cause: str) -> bool:
    return re.match(r"\w+(?:Error|Exception)\b", cause) is not None


def _returned(entry: Entry) -> str:
    """What PyTorch does with the same program."""
    call = (entry.verdict.call or 0) if entry.verdict is not None else 0
    if len(entry.reference.calls) <= call:
        return "PyTorch accepts this."
    found = [leaf for _, leaf in leaves(entry.reference.calls[call].output) if isinstance(leaf, Tensor)]
    what = [f"{leaf.dtype} {list(leaf.shape)}" for leaf in found[:4]]
    if not what:
        return "PyTorch accepts this."
    return f"PyTorch accepts this and returns {' and '.join(what)}{' and more' if len(found) > 4 else ''}."
