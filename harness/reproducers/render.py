"""Which reproducer an entry gets: bare OneFlow, torch-mlir on its users' route, or a replay through fxdiff."""

from __future__ import annotations

from dataclasses import dataclass

from harness.corpus.entry import Entry
from harness.model.verdict import Kind
from harness.reproducers import torch_mlir

_IR_KINDS = (Kind.CRASH, Kind.TIMEOUT, Kind.OOM, Kind.ERROR, Kind.INVALID_IR, Kind.SILENT_ERROR)


@dataclass(frozen=True, slots=True)
class Reproducer:
    """A script that exits 1 while the bug exists, the environment whose interpreter runs it, and IR where it tells."""

    script: str | None
    environment: str = "main"
    mlir: str | None = None


def render(entry: Entry) -> Reproducer:
    """The reproducer of an open entry."""
    assert entry.verdict is not None
    if entry.signature.family == "torch-mlir" and entry.victim is None:
        script = torch_mlir.repro_source(entry.case, entry.verdict, entry.reference)
        mlir = torch_mlir.mlir_source(entry.observed) if entry.verdict.kind in _IR_KINDS else None
        return Reproducer(script, "main", mlir)
    return Reproducer(None)
