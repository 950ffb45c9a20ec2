"""A bug in one line and in one sentence, for people who do not know fxdiff."""

from __future__ import annotations

from harness.corpus.entry import Entry
from harness.exporting.names import one_line
from harness.model.opnames import canonical
from harness.model.verdict import Kind, Verdict

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
    Kind.ERROR: "legal program fails",
    Kind.SILENT_ERROR: "error reported by a pass that succeeds",
    Kind.INVALID_IR: "invalid IR",
    Kind.CRASH: "crash",
    Kind.TIMEOUT: "hang",
    Kind.OOM: "takes all memory",
    Kind.WHOLE_ONLY: "wrong result of the whole program",
}
_SPECIAL = {"signed-zero": "wrong sign of zero", "nan": "wrong NaN", "inf": "wrong infinity"}


def title_of(entry: Entry) -> str:
    """An issue's title, made of the signature: operator, what goes wrong, where, for which dtypes, given what."""
    signature, verdict = entry.signature, entry.verdict
    what = _PHRASES[signature.kind]
    if verdict is not None:
        what = _SPECIAL.get(str(verdict.detail.get("special", "")), what)
        signal = verdict.detail.get("signal")
        what += f" ({signal})" if isinstance(signal, str) and signal else ""
    title = f"{operator_of(entry)}: {what}"
    if signature.kind in (Kind.ERROR, Kind.INVALID_IR, Kind.CRASH, Kind.TIMEOUT, Kind.OOM) and signature.family == "torch-mlir":
        title += f" in {_stage(signature.stage)}"
    if signature.dtype != "any":
        title += f" for {signature.dtype.replace('+', ', ')}"
    needs = [feature for feature in signature.trigger if not feature.startswith("dtype=")]
    kept: list[str] = []
    for feature in needs:
        if len(title) + len(", ".join([*kept, feature])) + 3 > MAX_TITLE:
            break
        kept.append(feature)
    return one_line(f"{title} ({', '.join(kept)})" if kept else title, MAX_TITLE)


def operator_of(entry: Entry) -> str:
    """The operator at fault; for a program of nothing but subscripts, which signatures pass over, that."""
    if entry.signature.operator != "identity":
        return entry.signature.operator
    program = entry.case.program
    return "+".join(dict.fromkeys(canonical(node, program) for node in program.operators)) or "identity"


def sentence_of(entry: Entry) -> str:
    """What disagreed, in one sentence."""
    return one_line(entry.verdict.message, 400) if entry.verdict is not None else "no disagreement was recorded"


def guilty_node(entry: Entry) -> str:
    """The node at fault; empty where nobody knows."""
    verdict: Verdict | None = entry.verdict
    name = (verdict.node if verdict is not None else None) or entry.observed.node
    operators = [node.name for node in entry.case.program.operators]
    if name in operators:
        return name or ""
    return operators[0] if len(operators) == 1 else ""


def _stage(stage: str) -> str:
    return {"torch-pipeline": "the torch backend pipeline", "linalg": "the lowering to linalg", "llvm": "the lowering to LLVM"}.get(
        stage, {"import": "the FX importer", "jit": "the execution engine", "run": "the compiled code"}.get(stage, stage or "the compiler")
    )
