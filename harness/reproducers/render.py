"""Which reproducer an entry gets: bare OneFlow, torch-mlir on its users' route, or a replay through fxdiff."""

from __future__ import annotations

from dataclasses import dataclass

from harness.backends.protocol import target
from harness.corpus.entry import Entry
from harness.errors import Unsupported
from harness.model.verdict import Kind, Verdict
from harness.reproducers import replay, torch_mlir
from harness.reproducers.torch_mlir_passes import mlir_of_pass
from harness.triage.guilt import ORACLE

_IR_KINDS = (Kind.CRASH, Kind.TIMEOUT, Kind.OOM, Kind.ERROR, Kind.INVALID_IR, Kind.SILENT_ERROR)


@dataclass(frozen=True, slots=True)
class Script:
    """One way to show a bug: a script that exits 1 while it exists, and the environment whose interpreter runs it.

    A `bare` script imports the target alone; the other kind runs the case through fxdiff.
    """

    text: str
    environment: str = "main"
    bare: bool = True


@dataclass(frozen=True, slots=True)
class Reproducer:
    """The scripts that may show an entry's bug, the best for its maintainers first, and IR where it tells the story.

    `reason` says why there is no bare script, where there is none. `mlir_leaves` is the IR that torch-mlir-opt must make of
    `mlir` for it to show the bug; empty where it must fail, die, hang or report an error.
    """

    scripts: tuple[Script, ...] = ()
    mlir: str | None = None
    reason: str = ""
    mlir_leaves: str = ""

    @property
    def bare(self) -> Script | None:
        """The script that imports the target alone."""
        return next((script for script in self.scripts if script.bare), None)


def render(entry: Entry) -> Reproducer:
    """The reproducer of an open entry; render it before the reference's traces are trimmed away."""
    verdict = entry.verdict
    if verdict is None:
        return Reproducer(reason="no disagreement was recorded")
    note = ", ".join(f"{name} {version}" for name, version in sorted(entry.expectation.versions.items()))
    note = f"Seen with {note} on {entry.expectation.platform}.\n" if note else ""
    shown, runs = entry.reproduced
    tries = 1 if shown == runs else 2 * runs
    through_fxdiff = Script(
        replay.repro_source(entry.case, verdict, target(entry.target), victim=entry.victim, tries=tries, note=note), bare=False
    )
    mlir, leaves = _mlir(entry, verdict)
    try:
        bare = _bare(entry, verdict, note)
    except Unsupported as error:
        return Reproducer((through_fxdiff,), mlir, str(error), leaves)
    return Reproducer((bare, through_fxdiff), mlir, mlir_leaves=leaves)


def _bare(entry: Entry, verdict: Verdict, note: str) -> Script:
    if entry.victim is not None:
        raise Unsupported("it takes a later case to show it")
    if entry.signature.family == "torch-mlir":
        if verdict.oracle == ORACLE and verdict.detail["guilty"]["pipeline"] != "fx":
            raise Unsupported("it takes the passes of torch-lower-to-backend-contract, which torch_mlir.fx does not run")
        if entry.route == "raw":
            raise Unsupported("the users' route, which decomposes operators before the import, does not show it")
        return Script(torch_mlir.repro_source(entry.case, verdict, entry.reference, note=note))
    if entry.signature.family == "oneflow":
        from harness.reproducers import oneflow, oneflow_graph  # bring the whole translation table, which most runs never need

        spec = target(entry.target)
        if entry.target.partition("?")[0] in oneflow_graph.TARGETS:
            return Script(oneflow_graph.repro_source(entry.case, verdict, entry.reference, options=spec.options, note=note), "oneflow")
        return Script(oneflow.repro_source(entry.case, verdict, entry.reference, guilty=entry.observed.node, note=note), "oneflow")
    raise Unsupported(f"nothing but fxdiff runs {entry.target}")


def _mlir(entry: Entry, verdict: Verdict) -> tuple[str | None, str]:
    """repro.mlir, and the IR that torch-mlir-opt must make of it where that is what it shows."""
    if entry.signature.family != "torch-mlir":
        return None, ""
    of_pass = mlir_of_pass(entry)
    if of_pass is not None:
        return of_pass
    return (torch_mlir.mlir_source(entry.observed) if verdict.kind in _IR_KINDS else None), ""
