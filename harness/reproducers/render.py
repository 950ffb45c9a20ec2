"""Which reproducer an entry gets: bare OneFlow, torch-mlir on its users' route, or a replay through fxdiff."""

from __future__ import annotations

from dataclasses import dataclass

from harness.backends.protocol import target
from harness.corpus.entry import Entry
from harness.errors import Unsupported
from harness.model.verdict import Kind
from harness.reproducers import oneflow, replay, torch_mlir

_IR_KINDS = (Kind.CRASH, Kind.TIMEOUT, Kind.OOM, Kind.ERROR, Kind.INVALID_IR, Kind.SILENT_ERROR)


@dataclass(frozen=True, slots=True)
class Reproducer:
    """A script that exits 1 while the bug exists, the environment whose interpreter runs it, and IR where it tells.

    Without such a script, `reason` says why there is none, and `replay` is one that runs the case through fxdiff and the
    target's own module: it shows no more than the fresh workers that confirmed the finding.
    """

    script: str | None
    environment: str = "main"
    mlir: str | None = None
    reason: str = ""
    replay: str | None = None


def render(entry: Entry) -> Reproducer:
    """The reproducer of an open entry; render it before the reference's traces are trimmed away."""
    verdict = entry.verdict
    if verdict is None:
        return Reproducer(None, reason="no disagreement was recorded")
    note = ", ".join(f"{name} {version}" for name, version in sorted(entry.expectation.versions.items()))
    note = f"Seen with {note} on {entry.expectation.platform}.\n" if note else ""
    mlir = torch_mlir.mlir_source(entry.observed) if entry.signature.family == "torch-mlir" and verdict.kind in _IR_KINDS else None
    try:
        if entry.victim is None and entry.signature.family == "torch-mlir":
            return Reproducer(torch_mlir.repro_source(entry.case, verdict, entry.reference, note=note), "main", mlir)
        if entry.victim is None and entry.signature.family == "oneflow":
            return Reproducer(oneflow.repro_source(entry.case, verdict, entry.reference, guilty=entry.observed.node, note=note), "oneflow")
    except Unsupported as error:
        reason = str(error)
    else:
        reason = "it takes a later case to show it" if entry.victim is not None else f"nothing but fxdiff runs {entry.target}"
    shown, runs = entry.reproduced
    tries = 1 if shown == runs else 2 * runs
    script = replay.repro_source(entry.case, verdict, target(entry.target), victim=entry.victim, tries=tries, note=note)
    return Reproducer(None, "main", mlir, reason, script)
