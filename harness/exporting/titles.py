"""A bug in one line, for people who do not know fxdiff."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from harness.backends.torch_mlir.lowerings import lowering_of
from harness.corpus.entry import Entry
from harness.exporting.names import one_line
from harness.exporting.scrub import scrub_diagnostics
from harness.exporting.words import circumstances, joined, said_of
from harness.model.opnames import canonical
from harness.model.parameters import needs
from harness.model.values import Tensor, leaves
from harness.model.verdict import Kind, Verdict
from harness.reproducers.check import DECLARED_KINDS, ERROR_KINDS, PROCESS_KINDS

MAX_TITLE = 120
_PHRASES = {
    Kind.VALUE: "wrong result",
    Kind.SPECIAL: "wrong special value",
    Kind.DTYPE: "wrong dtype of the result",
    Kind.SHAPE: "wrong shape of the result",
    Kind.STRUCTURE: "wrong number or nesting of results",
    Kind.MUTATION: "wrong change of an input",
    Kind.DECLARED_DTYPE: "wrong declared dtype",
    Kind.DECLARED_SHAPE: "wrong declared shape",
    Kind.SILENT_ERROR: "error reported by a pass that succeeds",
    Kind.NO_CONVERGENCE: "passes that do not converge",
    Kind.UNEXECUTABLE: "operation that PyTorch refuses, left by a pass",
    Kind.BLOW_UP: "time, memory or IR that blows up",
    Kind.WHOLE_ONLY: "wrong result of the whole program",
}
_STAGES = {
    "import": "the FX importer",
    "torch-pipeline": "the torch backend pipeline",
    "inference": "torch-lower-to-backend-contract",
    "linalg": "the lowering to linalg",
    "tosa": "the lowering to TOSA",
    "tosa-to-linalg": "the lowering of its TOSA to linalg",
    "stablehlo": "the lowering to StableHLO",
    "stablehlo-to-linalg": "the lowering of its StableHLO to linalg",
    "llvm": "the lowering to LLVM",
    "jit": "the execution engine",
    "run": "the compiled code",
}
_RAISED = re.compile(r"(?:^|: |\s)(\w*(?:Error|Exception)): ")


def title_of(entry: Entry) -> str:
    """An issue's title: operator, what goes wrong and where, given what; no longer than MAX_TITLE."""
    title = f"{operator_of(entry)}: {_what(entry)}{_way(entry)}"
    circumstance = circumstances(needs(entry.signature.trigger, entry.signature.operator), entry.signature.dtype)
    for kept in range(len(circumstance), 0, -1):
        longer = f"{title} {joined(circumstance[:kept])}"
        if len(longer) <= MAX_TITLE:
            return one_line(longer, MAX_TITLE)
    return one_line(title, MAX_TITLE)


def _way(entry: Entry) -> str:
    """Which way to the wrong result was taken, where the stage does not tell and it is not the usual one."""
    lowering = lowering_of(entry.target)
    told = entry.verdict is None or entry.verdict.kind in (*ERROR_KINDS, *PROCESS_KINDS, *DECLARED_KINDS)
    return "" if told or lowering.execution is None else f" through {lowering.title}"


def death_of(verdict: Verdict | None) -> str:
    """How the process ended, in words, with the signal."""
    signal = verdict.detail.get("signal") if verdict is not None else None
    if not isinstance(signal, str) or not signal:
        return "process dies"
    return f"process aborts ({signal})" if signal == "SIGABRT" else f"process dies of {signal}"


def raised(message: str) -> str:
    """The type of the Python exception that a message begins with or leads up to; empty where there is none."""
    found = _RAISED.search(message)
    return found[1] if found is not None else ""


def stage_of(entry: Entry) -> str:
    """The part of torch-mlir that fails, in words; empty for systems that have no parts."""
    stage = entry.signature.stage
    return _STAGES.get(stage, stage or "the compiler") if entry.signature.family == "torch-mlir" else ""


def pair_of(verdict: Verdict) -> str:
    """`ACTUAL instead of EXPECTED` where the verdict says both in a word each; else empty."""
    detail: Mapping[str, object] = verdict.detail
    if "actual" not in detail or "expected" not in detail:
        return ""
    return f"{said_of(detail['actual'])} instead of {said_of(detail['expected'])}"


def _what(entry: Entry) -> str:
    """What goes wrong, without the circumstances."""
    kind, verdict, stage = entry.signature.kind, entry.verdict, stage_of(entry)
    if kind is Kind.CRASH:
        return death_of(verdict) + (f" in {stage}" if stage else "")
    if kind is Kind.TIMEOUT:
        return f"{stage} hangs".removeprefix("the ") if stage else "hangs"
    if kind is Kind.OOM:
        return f"{stage} takes all memory".removeprefix("the ") if stage else "takes all memory"
    if kind is Kind.INVALID_IR:
        return f"{'no convergence' if verdict is not None and 'converge' in verdict.message else 'invalid IR'}" + (
            f" in {stage}" if stage else ""
        )
    if kind is Kind.ERROR:
        if stage:
            return f"{stage} fails".removeprefix("the ")
        name = raised(verdict.message if verdict is not None else "")
        return f"raises {name}" if name else "fails"
    pair = pair_of(verdict) if verdict is not None else ""
    if verdict is not None and pair:
        if kind in (Kind.DTYPE, Kind.SPECIAL):
            return f"returns {pair}{_output(entry, verdict)}"
        if kind is Kind.SHAPE:
            return f"returns shape {pair}{_output(entry, verdict)}"
        if kind in (Kind.DECLARED_DTYPE, Kind.DECLARED_SHAPE):
            return f"declares {'shape ' if kind is Kind.DECLARED_SHAPE else ''}{pair}{_output(entry, verdict)}"
    return _PHRASES[kind]


def _output(entry: Entry, verdict: Verdict) -> str:
    return f" in output {verdict.path}" if verdict.path and outputs(entry) > 1 else ""


def outputs(entry: Entry) -> int:
    """How many tensors PyTorch returns in the call at issue."""
    call = (entry.verdict.call or 0) if entry.verdict is not None else 0
    if len(entry.reference.calls) <= call:
        return 0
    return sum(isinstance(leaf, Tensor) for _, leaf in leaves(entry.reference.calls[call].output))


def operator_of(entry: Entry) -> str:
    """The operator at fault; for a program of nothing but subscripts, which signatures pass over, that."""
    if entry.signature.operator != "identity":
        return entry.signature.operator
    program = entry.case.program
    return "+".join(dict.fromkeys(canonical(node, program) for node in program.operators)) or "identity"


def sentence_of(entry: Entry) -> str:
    """What disagreed, in one sentence as the oracle said it."""
    return scrub_diagnostics(one_line(entry.verdict.message, 400)) if entry.verdict is not None else "no disagreement was recorded"


def guilty_node(entry: Entry) -> str:
    """The node at fault; empty where nobody knows."""
    verdict: Verdict | None = entry.verdict
    name = (verdict.node if verdict is not None else None) or entry.observed.node
    operators = [node.name for node in entry.case.program.operators]
    if name in operators:
        return name or ""
    return operators[0] if len(operators) == 1 else ""


def without_nodes(message: str, names: Iterable[str]) -> str:
    """A message without the names of nodes, which a script for people does not hold."""
    for name in names:
        text = re.escape(name)
        message = re.sub(rf"^{text}(?: (?=\[)|: )|(?: in stage [\w-]+)? at {text}\b", "", message)
    return message
