"""The public Python face of fxdiff: check a module, load a case, run it on a target."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.engine.check import Answer, Checked
from harness.errors import FxdiffError
from harness.model.case import Call, Case
from harness.model.outcome import Outcome, Status
from harness.model.program import Program
from harness.model.verdict import Verdict

if TYPE_CHECKING:
    import torch

__all__ = ["Answer", "Call", "Case", "Checked", "FxdiffError", "Outcome", "Program", "Status", "Verdict", "check", "load", "run"]


def check(
    module: torch.nn.Module,
    inputs: tuple[Any, ...],
    *,
    targets: Sequence[str] | None = None,
    dynamic_shapes: Any = None,
    mode: str = "fwd",
    output: Path | str | None = None,
) -> Checked:
    """Run a module on eager PyTorch and on every target, and say where they disagree; `str()` of the result is a report.

    `targets` are by default the configured ones, else every default target; `dynamic_shapes` is torch.export's; `mode` is
    `fwd`, `grad` or `train`. The module and the inputs stay as they are. Disagreements are minimized and saved below
    `output`, by default a new folder in fxdiff-out. Raises CaptureError where the module cannot be captured, UsageError for
    what cannot be done as asked, TargetUnavailable where no target can run here.
    """
    from harness.cli.checking import python_checks

    with python_checks(targets, output=Path(output) if output is not None else None) as checks:
        return checks(module, inputs, dynamic_shapes=dynamic_shapes, mode=mode)


def load(path: Path | str) -> Case:
    """The case of a corpus entry, a finding or a case file; raises FormatError."""
    from harness.corpus import files
    from harness.corpus.entry import read

    place = Path(path)
    if place.is_dir():
        return read(place).case
    return files.unpack_case(files.read_bytes(place), where=str(place))


def run(case: Case, target: str = "eager") -> Outcome:
    """What a target does with a case, in a process of its own; `eager` is PyTorch itself.

    Raises UnknownName for a target that does not exist, TargetUnavailable for one that cannot run here.
    """
    from harness.backends.protocol import target as spec_of
    from harness.cli.session import load_plugins, run_once

    load_plugins(())
    return run_once(case, spec_of(target))
