"""Signing findings and putting them on disk: an Entry with a reproducer that showed the bug in a clean process."""

from __future__ import annotations

import dataclasses
import datetime
import threading
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness.corpus.entry import Entry, Expectation, Found, current_platform
from harness.corpus.signature import Signature
from harness.corpus.store import Corpus
from harness.engine.campaign import Saved
from harness.engine.investigate import Finding
from harness.engine.rundir import UNPROVEN
from harness.errors import HarnessError, UsageError
from harness.exporting.titles import title_of
from harness.reproducers.render import Script, render
from harness.reproducers.run import mlir_gives, mlir_shows
from harness.reproducers.source import case_source
from harness.triage.features import dtype_class
from harness.triage.vote import EVERY_WAY

CUT_SHORT = "minimization was cut short"
LAST_STAGE = "run"
Prove = Callable[[Script], "Proof"]


@dataclasses.dataclass(frozen=True, slots=True)
class Proof:
    """Whether a reproducer showed its bug in a clean process, and what it printed."""

    shown: bool
    output: str


class FindingKeeper:
    """Keeps findings below one folder; those whose reproducer did not show them go to its `unproven` folder."""

    def __init__(self, folder: Path, *, prove: Prove, versions: Callable[[str], Mapping[str, str]]) -> None:
        self._proven = Corpus(folder)
        self._unproven = Corpus(folder.parent / UNPROVEN)
        self._prove = prove
        self._versions = versions
        self._lock = threading.Lock()

    def sign(self, finding: Finding) -> str:
        """The slug of the finding's signature."""
        return signature_of(finding).slug

    def save(self, finding: Finding) -> Saved:
        """Render the reproducer, run it, and write the entry; a full or read-only disk is named, and the run goes on."""
        entry, proof = self.rendered(finding)
        note = entry.notes
        source = case_source(finding.case, call=finding.verdict.call or 0)
        with self._lock:
            try:
                path = str((self._proven if proof.shown else self._unproven).add(entry))
            except UsageError as error:
                return Saved(entry.id, entry.slug, "", source, f"not saved: {error}")
            except OSError as error:
                return Saved(entry.id, entry.slug, "", source, f"not saved: {error.strerror}")
        return Saved(entry.id, entry.slug, path if proof.shown else "", source, note)

    def rendered(self, finding: Finding) -> tuple[Entry, Proof]:
        """The finding as an entry with its reproducer, and what that one showed in a clean process."""
        entry = self.entry(finding)
        note = _remarks(finding)
        reproducer = render(entry)
        mlir = reproducer.mlir
        if mlir is not None and not (mlir_gives(mlir, reproducer.mlir_leaves) if reproducer.mlir_leaves else mlir_shows(mlir)):
            mlir = None
        proof = Proof(False, reproducer.reason)
        for script in reproducer.scripts:
            proof = self._prove(script)
            if proof.shown:
                break
        if not proof.shown:
            note = "; ".join(filter(None, (note, f"its reproducer did not show it: {_last_line(proof.output)}")))
        elif not script.bare:
            why = reproducer.reason or "a script that imports the target alone does not show it"
            note = "; ".join(filter(None, (note, f"repro.py goes through fxdiff: {why}")))
        return dataclasses.replace(entry, repro=script.text, repro_mlir=mlir, notes=note), proof

    def entry(self, finding: Finding) -> Entry:
        """The finding as an entry, its reproducer not yet rendered."""
        origin, verdict = finding.origin, finding.verdict
        entry = Entry(
            case=finding.case,
            signature=signature_of(finding),
            target=finding.target.name,
            severity=verdict.severity,
            title="",
            reference=finding.evidence.reference,
            observed=finding.evidence.observed,
            verdict=verdict,
            route=finding.route,
            reproduced=finding.reproduced,
            expectation=Expectation(self._versions(finding.target.name), current_platform()),
            found=Found(
                generator=origin.generator if origin else "",
                profile=origin.profile if origin else "",
                seed=origin.seed if origin else None,
                index=origin.index if origin else None,
                fxdiff=_own_version(),
                date=datetime.date.today().isoformat(),
                nodes=finding.drawn or None,
            ),
            victim=finding.victim,
        )
        return dataclasses.replace(entry, title=title_of(entry))


def signature_of(finding: Finding) -> Signature:
    """The identity of a minimized finding: a pure function of its evidence.

    A wrong result of one way through a system, where another way is right, has that way for its stage; those of the first
    way keep the one that they had before there was a vote. Of layers, the one at fault is always the stage.
    """
    stage = finding.verdict.stage
    first = [] if finding.target.layered else list(finding.target.voters)[:1]
    if stage == LAST_STAGE and finding.at_fault not in ("", EVERY_WAY, *first):
        stage = finding.at_fault
    return Signature(
        finding.target.family or finding.target.name,
        finding.verdict.kind,
        stage,
        finding.operator,
        dtype_class(finding.trigger),
        finding.trigger,
    )


def _remarks(finding: Finding) -> str:
    shown, runs = finding.reproduced
    remarks = [] if shown == runs else [f"flaky: {shown} of {runs} runs"]
    if not finding.complete:
        remarks.append(CUT_SHORT)
    if finding.victim is not None:
        remarks.append("the process survives this case and dies in a later one")
    return "; ".join(remarks)


def _last_line(output: str) -> str:
    lines = [line for line in output.strip().splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it printed nothing"


def _own_version() -> str:
    try:
        return version("fxdiff")
    except PackageNotFoundError as error:
        raise HarnessError("fxdiff is not installed, so findings could not say which version found them") from error
