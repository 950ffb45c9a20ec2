"""Which reproducer an entry gets: bare OneFlow, torch-mlir on its users' route, or a replay through fxdiff."""

from __future__ import annotations

from dataclasses import dataclass

from harness.corpus.entry import Entry
from harness.errors import Unsupported
from harness.model.verdict import Kind
from harness.reproducers import oneflow, torch_mlir

_IR_KINDS = (Kind.CRASH, Kind.TIMEOUT, Kind.OOM, Kind.ERROR, Kind.INVALID_IR, Kind.SILENT_ERROR)


@dataclass(frozen=True, slots=True)
class Reproducer:
    """A script that exits 1 while the bug exists, the environment whose interpreter runs it, and IR where it tells.

    Without a script, `reason` says why there is none.
    """

    script: str | None
    environment: str = "main"
    mlir: str | None = None
    reason: str = ""


def render(entry: Entry) -> Reproducer:
    """The reproducer of an open entry; render it before the reference's traces are trimmed away."""
    verdict = entry.verdict
    if verdict is None:
        return Reproducer(None, reason="no disagreement was recorded")
    if entry.victim is not None:
        return Reproducer(None, reason="it takes a later case in the same process to show it")
    note = ", ".join(f"{name} {version}" for name, version in sorted(entry.expectation.versions.items()))
    note = f"Seen with {note} on {entry.expectation.platform}.\n" if note else ""
    try:
        if entry.signature.family == "torch-mlir":
            mlir = torch_mlir.mlir_source(entry.observed) if verdict.kind in _IR_KINDS else None
            return Reproducer(torch_mlir.repro_source(entry.case, verdict, entry.reference, note=note), "main", mlir)
        if entry.signature.family == "oneflow":
            script = oneflow.repro_source(entry.case, verdict, entry.reference, guilty=entry.observed.node, note=note)
            return Reproducer(script, "oneflow")
    except Unsupported as error:
        return Reproducer(None, reason=str(error))
    return Reproducer(None, reason=f"fxdiff writes no scripts for {entry.target}")
