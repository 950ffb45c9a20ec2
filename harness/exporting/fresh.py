"""An entry whose reproducers are made anew from its case and evidence: nothing that lies in its folder is ever run.

The files of an entry are open to everybody, and a corpus travels. So a repro.py on disk is for people to run; what
fxdiff itself runs or hands on is what it has written a moment before.
"""

from __future__ import annotations

import dataclasses

from harness.corpus.entry import Entry
from harness.errors import FormatError, HarnessError
from harness.exporting.scrub import without_stamps
from harness.reproducers.render import Script, render

THROUGH_FXDIFF = "\n    from harness."  # what a script holds that runs its case through fxdiff


@dataclasses.dataclass(frozen=True, slots=True)
class Fresh:
    """The entry with fresh reproducers, and the names of those files in its folder that say something else."""

    entry: Entry
    differing: tuple[str, ...] = ()


def fresh(entry: Entry) -> Fresh:
    """The entry with the reproducers that it has, rendered again; of several that could be, the one most like the stored.

    Raises FormatError for a case that is not valid.
    """
    entry.case.validate()
    if entry.repro is None and entry.repro_mlir is None:
        return Fresh(entry)
    try:
        made = render(entry)
    except HarnessError as error:  # rendering complains of evidence that no run of ours leaves behind
        raise FormatError(str(error), where=f"{entry.path or entry.slug}: evidence") from error
    repro = _chosen(made.scripts, entry.repro) if entry.repro is not None else None
    mlir = made.mlir if entry.repro_mlir is not None else None
    pairs = (("repro.py", entry.repro, repro), ("repro.mlir", entry.repro_mlir, mlir))
    differing = tuple(name for name, stored, now in pairs if stored is not None and (now is None or not _same(stored, now)))
    return Fresh(dataclasses.replace(entry, repro=without_stamps(repro) if repro is not None else None, repro_mlir=mlir), differing)


def _chosen(scripts: tuple[Script, ...], stored: str) -> str | None:
    for script in scripts:
        if _same(script.text, stored):
            return script.text
    bare = THROUGH_FXDIFF not in stored
    return next((script.text for script in scripts if script.bare is bare), scripts[-1].text if scripts else None)


def _same(one: str, other: str) -> bool:
    return without_stamps(one) == without_stamps(other)
