"""The forms that a finding can be exported in, and which of them apply to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.corpus.entry import Entry
from harness.errors import Unsupported, UsageError
from harness.exporting import oneflow, torch_mlir
from harness.exporting.fresh import THROUGH_FXDIFF, fresh
from harness.exporting.issue import Drafts, issue, mlir_issue, replay_issue
from harness.exporting.pytest_file import pytest_file
from harness.exporting.titles import title_of

BARE = ("torch-mlir", "oneflow")  # families whose scripts import nothing of fxdiff


@dataclass(frozen=True, slots=True)
class Exported:
    """A text in one form; `scripts` are those in it that are to show the bug by themselves, in `environment`."""

    form: str
    text: str
    environment: str = "main"
    scripts: tuple[str, ...] = ()


def export(entry: Entry, form: str, *, shows: Callable[[str], bool] | None = None) -> Exported:
    """An entry in one form, made of its case and evidence anew. `shows` says whether a script shows the bug; without it, all are believed.

    Raises UsageError with the reason where the form does not apply to this entry.
    """
    try:
        return _RENDER[form](fresh(entry).entry, shows or (lambda script: True))
    except Unsupported as error:
        raise UsageError(f"{entry.slug} has no form {form!r}: {error}") from error


def environment_of(entry: Entry) -> str:
    """The interpreter that an entry's script is for: `main` or `oneflow`."""
    return "oneflow" if entry.signature.family == "oneflow" and not needs_fxdiff(entry) else "main"


def needs_fxdiff(entry: Entry) -> bool:
    """Whether the entry's repro.py runs the case through fxdiff, since no bare script can show it."""
    return entry.repro is not None and THROUGH_FXDIFF in entry.repro


def _repro(entry: Entry, shows: Callable[[str], bool]) -> str:
    if entry.repro is None:
        raise Unsupported("no script shows it; `fxdiff replay` does")
    if not shows(entry.repro):
        raise Unsupported("its repro.py does not show the bug here; see `fxdiff replay`, or export it as it is with --no-run")
    return entry.repro


def _script(entry: Entry, shows: Callable[[str], bool]) -> Exported:
    script = _repro(entry, shows)
    return Exported("script", script, environment_of(entry), (script,))


def _issue(entry: Entry, shows: Callable[[str], bool]) -> Exported:
    if entry.verdict is None:
        raise Unsupported("no disagreement was recorded")
    if entry.repro is None or needs_fxdiff(entry):
        try:
            return Exported("issue", mlir_issue(entry))
        except Unsupported:
            if entry.repro is None:
                raise
            return Exported("issue", replay_issue(entry, shows), "main", (entry.repro,))
    drafts = _DRAFTS.get(entry.signature.family)
    if drafts is None:
        raise Unsupported(f"issues are written for {' and '.join(_DRAFTS)}")
    text, script = issue(entry, drafts, shows)
    return Exported("issue", text, environment_of(entry), (script,))


def _pytest(entry: Entry, shows: Callable[[str], bool]) -> Exported:
    text = pytest_file(entry, title_of(entry))
    return Exported("pytest", text, environment_of(entry), (_repro(entry, shows),))


def _mlir(entry: Entry, shows: Callable[[str], bool]) -> Exported:
    if entry.repro_mlir is None:
        raise Unsupported("torch-mlir-opt alone does not show it" if entry.signature.family == "torch-mlir" else "it holds no MLIR")
    return Exported("mlir", entry.repro_mlir)


def _e2e(entry: Entry, shows: Callable[[str], bool]) -> Exported:
    family = entry.signature.family
    if family == "torch-mlir":
        text = torch_mlir.e2e_test(entry)
        _repro(entry, shows)
        return Exported("e2e", text)
    if family == "oneflow" and not needs_fxdiff(entry):
        text = oneflow.unit_test(entry)
        _repro(entry, shows)
        return Exported("e2e", text, "oneflow", (text,))
    raise Unsupported(f"fxdiff knows the test suites of {' and '.join(BARE)}")


_DRAFTS: Mapping[str, Drafts] = {
    "torch-mlir": Drafts((torch_mlir.short_script,), torch_mlir.core_script),
    "oneflow": Drafts((oneflow.short_script,), None),
}
_RENDER: Mapping[str, Callable[[Entry, Callable[[str], bool]], Exported]] = {
    "script": _script,
    "issue": _issue,
    "pytest": _pytest,
    "mlir": _mlir,
    "e2e": _e2e,
}
FORMS = tuple(_RENDER)
