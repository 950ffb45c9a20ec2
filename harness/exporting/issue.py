"""Markdown that can be pasted into an upstream issue: it alone suffices to reproduce the bug."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.corpus.entry import Entry
from harness.errors import Unsupported, UsageError
from harness.exporting.diagnostics import diagnostics
from harness.exporting.scrub import scrub, scrub_diagnostics
from harness.exporting.sentences import deadline, lead, name_of
from harness.exporting.sides import LEGEND, MARK, beside, did, sides
from harness.exporting.titles import outputs, title_of
from harness.model.outcome import Status
from harness.model.verdict import Kind
from harness.printable import printable, prose
from harness.reproducers.check import ERROR_KINDS
from harness.reproducers.source import case_source

MAX_SCRIPT = 40
MAX_MLIR = 80
_VERSION = re.compile(r"[\w.+!-]+", re.ASCII)  # what can stand in a command
_PYTHONS = {"oneflow": "3.10"}  # families that have an interpreter of their own: the one that their wheel is for


@dataclass(frozen=True, slots=True)
class Drafts:
    """How a family writes short scripts: those to try in turn, and what a user would write where none will do."""

    short: tuple[Callable[[Entry], str], ...]
    core: Callable[[Entry], str] | None


def issue(entry: Entry, drafts: Drafts, shows: Callable[[str], bool]) -> tuple[str, str]:
    """The issue, and the script in it that shows the bug.

    Raises UsageError where neither a short script nor repro.py shows it any more.
    """
    short = _short(entry, drafts, shows)
    script = short if short is not None else scrub(entry.repro or "") or None
    if script is None or (short is None and not shows(script)):
        raise UsageError(f"no script shows {entry.slug} here any more; see `fxdiff replay`, or export it as it is with --no-run")
    blocks = [f"# {prose(title_of(entry))}", prose(lead(entry))]
    if short is not None:
        blocks += ["### To reproduce", _fenced(short, "python"), prose(_run_it(entry, long=False))]
    else:
        blocks += [
            "### To reproduce",
            *_core(entry, drafts),
            prose(_run_it(entry, long=True)),
            _details("repro.py", _fenced(script, "python")),
        ]
    blocks += ["### Expected and actual", _fenced("\n".join(_compared(entry)), "text")]
    blocks += _diagnostics(entry) + _mlir(entry) + _torch_source(entry)
    blocks += ["### Versions", _versions(entry), "### How it was found", _found(entry)]
    return printable(scrub("\n\n".join(blocks))) + "\n", script


def mlir_issue(entry: Entry) -> str:
    """The issue of a bug that torch-mlir-opt alone shows, for want of a script that does; raises Unsupported."""
    blocks = _mlir(entry)
    if not blocks:
        raise Unsupported(
            "it has no script, and only `fxdiff replay` shows it: send the entry's folder, which holds all that replaying takes"
        )
    parts = [f"# {prose(title_of(entry))}", prose(lead(entry)), "### To reproduce", *blocks[1:], "### Expected and actual"]
    parts += [_fenced("\n".join(_compared(entry)), "text"), *_diagnostics(entry), _details("The program in PyTorch", _source(entry))]
    parts += ["### Versions", _versions(entry), "### How it was found", _found(entry)]
    return printable(scrub("\n\n".join(parts))) + "\n"


def replay_issue(entry: Entry, shows: Callable[[str], bool]) -> str:
    """The issue of a bug that shows through fxdiff only, which says so and why; raises UsageError where its script shows it no more."""
    script = scrub(entry.repro or "")
    if not shows(script):
        raise UsageError(f"no script shows {entry.slug} here any more; see `fxdiff replay`, or export it as it is with --no-run")
    needed = f"Install fxdiff {entry.found.fxdiff}".strip() + f", which runs {name_of(entry)}, save the script below as `repro.py` and run "
    needed += "`python repro.py`. It exits 1 and prints `BUG: ...` while the bug exists, and exits 0 once it is fixed."
    parts = [f"# {prose(title_of(entry))}", prose(lead(entry)), "### To reproduce", prose(f"{_why_fxdiff(entry)} {needed}")]
    parts += [_details("repro.py", _fenced(script, "python")), "### Expected and actual", _fenced("\n".join(_compared(entry)), "text")]
    parts += [*_diagnostics(entry), _details("The program in PyTorch", _source(entry))]
    if entry.victim is not None:
        later = case_source(entry.victim, result="expected") + "print(expected)\n"
        parts.append(_details("The later program, which dies of it in the same process", _fenced(later, "python")))
    parts += ["### Versions", _versions(entry), "### How it was found", _found(entry)]
    return printable(scrub("\n\n".join(parts))) + "\n"


def _why_fxdiff(entry: Entry) -> str:
    """Why there is no script that imports the system alone."""
    if entry.victim is not None:
        return "It takes two programs in one process: the first leaves it broken, and the second dies of that, not at every run."
    if entry.route == "raw":
        return "It shows on fxdiff's own import of the program, and not through `fx.export_and_import`, which decomposes operators before."
    return f"No script that imports {name_of(entry)} alone shows it."


def _short(entry: Entry, drafts: Drafts, shows: Callable[[str], bool]) -> str | None:
    for draft in drafts.short:
        try:
            script = scrub(draft(entry))
        except Unsupported:
            continue  # that draft has no way to say it; the next one, or the whole script, has
        script = script if script.count("\n") <= MAX_SCRIPT else _squeezed(script)
        if script.count("\n") <= MAX_SCRIPT and shows(script):
            return script
    return None


def _squeezed(script: str) -> str:
    """A script without blank lines inside, which no multi-line text of ours has."""
    return "\n".join(line for line in script.split("\n") if line.strip()) + "\n"


def _core(entry: Entry, drafts: Drafts) -> list[str]:
    if drafts.core is None:
        return []
    try:
        text = drafts.core(entry)
    except Unsupported:
        return []
    return [_fenced(text, "python")] if text.count("\n") <= MAX_SCRIPT else []


def _run_it(entry: Entry, *, long: bool) -> str:
    assert entry.verdict is not None
    name, kind = name_of(entry), entry.verdict.kind
    start = f"{_install(entry)}Save the script below as `repro.py`" if long else f"{_install(entry)}Save the script as `repro.py`"
    start += " and run `python repro.py`."
    if long:
        return f"{start} It exits 1 and prints `BUG: ...` while the bug exists, and exits 0 once it is fixed."
    fixed = "once the bug is fixed it exits 0."
    if kind is Kind.CRASH:
        return f"{start} The process dies of {entry.verdict.detail.get('signal') or 'a signal'}; {fixed}"
    if kind is Kind.TIMEOUT:
        return f"{start} It does not finish within {deadline(entry)} s; {fixed}"
    if kind is Kind.OOM:
        return f"{start} Its memory grows without bound; {fixed}"
    if kind in ERROR_KINDS:
        return f"{start} {name} raises an error; {fixed}"
    return f"{start} It fails with an AssertionError; {fixed}"


def _install(entry: Entry) -> str:
    """How to come by the versions at issue; empty where they are not known."""
    versions, family = entry.expectation.versions, entry.signature.family
    if not _VERSION.fullmatch(versions.get(family, "")):
        return ""
    needs = [f"{family}=={versions[family]}"]
    if family == "oneflow":
        needs.append('"numpy<2"')
    elif _VERSION.fullmatch(versions.get("torch", "")):
        needs.insert(0, f"torch=={versions['torch'].partition('+')[0]}")
    python = f" (Python {_PYTHONS[family]})" if family in _PYTHONS else ""
    where = " (torch-mlir's wheels are on its release page)" if family == "torch-mlir" else ""
    return f"Install with `pip install {' '.join(needs)}`{python}{where}. "


def _compared(entry: Entry) -> list[str]:
    both = sides(entry)
    name = name_of(entry)
    if did(entry.observed):
        ended = (
            f"does not finish within {deadline(entry)} s" if entry.observed.status is Status.TIMEOUT else scrub_diagnostics(both.actual[0])
        )
        return [f"expected (PyTorch): {line}" if not number else f"  {line}" for number, line in enumerate(both.expected)] + [
            f"actual ({name}): {ended}"
        ]
    head = [f"output {both.place} of {outputs(entry)}:"] if both.place and outputs(entry) > 1 else []
    table = beside(both.expected, both.actual, ("expected (PyTorch)", f"actual ({name})"))
    legend = [LEGEND] if any(MARK in line for line in (*both.expected, *both.actual)) else []
    return [*head, *table, *legend]


def _diagnostics(entry: Entry) -> list[str]:
    lines = diagnostics(entry)
    return ["### Diagnostics", _fenced("\n".join(lines), "text")] if lines else []


def _mlir(entry: Entry) -> list[str]:
    text = entry.repro_mlir
    if text is None or not text.startswith("// RUN: ") or text.count("\n") > MAX_MLIR:
        return []
    run, _, body = text.partition("\n")
    command = run.removeprefix("// RUN: ").replace("%s", "repro.mlir")
    return ["### MLIR", f"`torch-mlir-opt` alone shows it on this `repro.mlir`:\n\n```sh\n{command}\n```", _fenced(body, "mlir")]


def _torch_source(entry: Entry) -> list[str]:
    """For systems whose scripts hold no PyTorch: what gave the expected values."""
    if entry.signature.family == "torch-mlir":
        return []
    text = _source(entry)
    return [_details("The same in PyTorch", text)] if text.count("\n") <= MAX_SCRIPT else []


def _source(entry: Entry) -> str:
    call = (entry.verdict.call or 0) if entry.verdict is not None else 0
    return _fenced(case_source(entry.case, call=call, result="expected") + "print(expected)\n", "python")


def _versions(entry: Entry) -> str:
    """Everything that took part, the reference and its interpreter too."""
    versions, family = entry.expectation.versions, entry.signature.family
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    lines = [f"- {name}: {version}" for name, version in sorted(versions.items())]
    lines.append(f"- Python: {_PYTHONS.get(family, ours)}")
    torch = entry.reference.versions.get("torch", "")
    if torch and "torch" not in versions:
        lines.append(f"- reference: PyTorch {torch} on Python {ours}")
    lines.append(f"- platform: {entry.expectation.platform or 'unknown'}")
    return "\n".join(f"- {prose(line[2:])}" for line in lines)


def _found(entry: Entry) -> str:
    found = entry.found
    by = f"fxdiff {found.fxdiff}".strip() + ", a differential fuzzer"
    how = (
        f"Found by {by}"
        if found.seed is None
        else f"Found by {by} (generator {found.generator}, profile {found.profile}, seed {found.seed}"
    )
    how += "" if found.seed is None else f", case {found.index})"
    nodes = len(entry.case.program.operators)
    now = f"{nodes} operator{'' if nodes == 1 else 's'}"
    drawn = found.nodes
    how += f", minimized from {drawn} operators to {nodes}" if drawn is not None and drawn > nodes else f", minimized to {now}"
    shown, runs = entry.reproduced
    return f"{prose(how)}. Reproduced in {shown} of {runs} fresh processes."


def _details(summary: str, body: str) -> str:
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n\n</details>"


def _fenced(text: str, language: str) -> str:
    longest = max((len(run) for run in _backticks(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _backticks(text: str) -> Sequence[str]:
    return [run for run in "".join(char if char == "`" else " " for char in text).split() if len(run) >= 3]
