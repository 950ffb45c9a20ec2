"""Verdicts that need no values: how a run or a node ended, and errors that the system reported and then ignored."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.model.outcome import Death, NodeResult, Outcome, Status
from harness.model.verdict import Kind, Severity, Verdict

# What the system died of or failed with; every other status is no evidence against it.
_ENDS = {
    Status.CRASH: (Kind.CRASH, Severity.CRASH, "the process died"),
    Status.TIMEOUT: (Kind.TIMEOUT, Severity.CRASH, "does not finish"),
    Status.OOM: (Kind.OOM, Severity.CRASH, "memory beyond the limit"),
    Status.ERROR: (Kind.ERROR, Severity.ERROR, "refuses what eager PyTorch accepts"),
}
_COMPLAINT = re.compile(r"check failed|UNIMPLEMENTED$|assert|terminate called|malloc|free\(\)|corrupt|fatal error|what\(\):", re.IGNORECASE)
_LOG_PREFIX = re.compile(r"^[IWEF]\d{4,8} \d\d:\d\d:\d\d\.\d+ +\d+ ")  # glog's time and thread, which no two runs share
_BROKEN_IR = {"invalid-ir": "a pass left invalid IR", "no-convergence": "the passes do not converge"}


def of_outcome(observed: Outcome) -> Iterator[Verdict]:
    """How the whole run ended."""
    if observed.status in _ENDS and not _declines(observed.death):
        kind, severity, what = _ENDS[observed.status]
        broken = _BROKEN_IR.get(observed.artifacts.get("failure", ""))
        if observed.status is Status.ERROR and broken is not None:
            kind, severity, what = Kind.INVALID_IR, Severity.INVALID_IR, broken
        detail, said = {}, observed.message
        if observed.death is not None:
            death = observed.death
            what += f" by {death.signal}" if death.signal and observed.status is Status.CRASH else ""
            said = _last_words(death) or ("" if observed.message == f"died by {death.signal}" else observed.message)
            detail = {"signal": death.signal, "exit_code": death.exit_code}
        yield Verdict(
            "status",
            kind,
            observed.target,
            severity,
            _sentence(f"{observed.target}: {what}{_place(observed.stage, observed.node)}", said),
            observed.stage,
            observed.node,
            observed.call,
            detail=detail,
        )
    elif observed.status is Status.OK:
        for diagnostic in observed.diagnostics:
            if diagnostic.severity == "error":
                stage = diagnostic.stage or observed.stage
                text = _sentence(f"{observed.target}: an error was reported and ignored{_place(stage, None)}", diagnostic.message)
                yield Verdict("status", Kind.SILENT_ERROR, observed.target, Severity.ERROR, text, stage)
                return


def _declines(death: Death | None) -> bool:
    """Whether the process aborted itself with the word that it does not do this, as code that torch-mlir generates does."""
    return death is not None and death.signal == "SIGABRT" and "unimplemented" in death.stderr


def _last_words(death: Death) -> str:
    """The line of what a dead process printed that says why, if one does."""
    line = next((line.strip() for line in death.stderr.splitlines() if _COMPLAINT.search(line)), "")
    return _LOG_PREFIX.sub("", line)


def of_node(result: NodeResult, observed: Outcome) -> Iterator[Verdict]:
    """How one node of a lockstep run ended."""
    if result.status in _ENDS:
        kind, severity, what = _ENDS[result.status]
        text = _sentence(f"{observed.target}: {what}{_place('', result.name)}", result.message)
        yield Verdict("status", kind, observed.target, severity, text, observed.stage, result.name, result.call)


def _place(stage: str, node: str | None) -> str:
    return (f" in stage {stage}" if stage else "") + (f" at {node}" if node else "")


def _sentence(text: str, message: str) -> str:
    first = message.strip().split("\n", 1)[0][:200]
    return f"{text}: {first}" if first else text
