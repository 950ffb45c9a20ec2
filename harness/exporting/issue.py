"""Markdown that can be pasted into an upstream issue: it alone suffices to reproduce the bug."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.corpus.entry import Entry
from harness.errors import Unsupported, UsageError
from harness.exporting.names import one_line
from harness.exporting.scrub import scrub, scrub_diagnostics
from harness.exporting.sides import beside, did, sides
from harness.exporting.titles import title_of
from harness.model.verdict import Kind
from harness.reproducers.check import ERROR_KINDS, PROCESS_KINDS
from harness.reproducers.source import case_source

MAX_SCRIPT = 40
MAX_DIAGNOSTICS = 25
MAX_MLIR = 80
_NAMES = {"torch-mlir": "torch-mlir", "oneflow": "OneFlow"}


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
    blocks = [f"# {title_of(entry)}", _sentence(entry)]
    if short is not None:
        blocks += ["### To reproduce", _fenced(short, "python"), _run_it(entry, long=False)]
    else:
        blocks += ["### To reproduce", *_core(entry, drafts), _run_it(entry, long=True), _details("repro.py", _fenced(script, "python"))]
    blocks += ["### Expected and actual", _fenced("\n".join(_compared(entry)), "text")]
    blocks += _diagnostics(entry) + _mlir(entry) + _torch_source(entry)
    blocks += ["### Versions", _versions(entry), "### How it was found", _found(entry)]
    return scrub("\n\n".join(blocks)) + "\n", script


def mlir_issue(entry: Entry) -> str:
    """The issue of a bug that torch-mlir-opt alone shows, for want of a script that does; raises Unsupported."""
    blocks = _mlir(entry)
    if not blocks:
        raise Unsupported("an issue must be reproducible without fxdiff, and only `fxdiff replay` shows this one")
    parts = [f"# {title_of(entry)}", _sentence(entry), "### To reproduce", *blocks[1:], "### Expected and actual"]
    parts += [_fenced("\n".join(_compared(entry)), "text"), *_diagnostics(entry), _details("The program in PyTorch", _source(entry))]
    parts += ["### Versions", _versions(entry), "### How it was found", _found(entry)]
    return scrub("\n\n".join(parts)) + "\n"


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


def _sentence(entry: Entry) -> str:
    assert entry.verdict is not None
    name = _NAMES.get(entry.signature.family, entry.target)
    message = scrub_diagnostics(one_line(entry.verdict.message, 400)).removeprefix(f"{entry.target}: ").replace(entry.target, name)
    kind = entry.verdict.kind
    if kind is Kind.TIMEOUT:
        return f"{name} does not come back on a program that eager PyTorch runs at once: {message}"
    if kind in (*PROCESS_KINDS, *ERROR_KINDS):
        return f"{name} fails on a program that eager PyTorch runs: {message}"
    return f"{name} disagrees with eager PyTorch: {message}"


def _run_it(entry: Entry, *, long: bool) -> str:
    assert entry.verdict is not None
    name = _NAMES.get(entry.signature.family, entry.target)
    needs = ", ".join(each for each in entry.expectation.versions if not each.endswith("-commit"))
    start = "Save the script below as `repro.py` and run `python repro.py`" if long else "Save as `repro.py` and run `python repro.py`"
    start += f" with {needs} installed" if needs else ""
    if long:
        return f"{start}. It exits 1 and prints `BUG: ...` while the bug exists, and exits 0 once it is fixed."
    kind = entry.verdict.kind
    if kind is Kind.CRASH:
        signal = str(entry.verdict.detail.get("signal") or "a signal")
        return f"{start}. The process dies of {signal}; once the bug is fixed it exits 0."
    if kind is Kind.TIMEOUT:
        return f"{start}. It does not come back within a minute; once the bug is fixed it exits 0."
    if kind is Kind.OOM:
        return f"{start}. Its memory grows without bound; once the bug is fixed it exits 0."
    if kind in ERROR_KINDS:
        return f"{start}. {name} raises an error; once the bug is fixed it exits 0."
    return f"{start}. It fails with an AssertionError; once the bug is fixed it exits 0."


def _compared(entry: Entry) -> list[str]:
    both = sides(entry)
    name = _NAMES.get(entry.signature.family, entry.target)
    if did(entry.observed):
        return [f"expected (eager PyTorch): {line}" if not number else f"  {line}" for number, line in enumerate(both.expected)] + [
            f"actual ({name}): {scrub_diagnostics(both.actual[0])}"
        ]
    return beside(both.expected, both.actual, ("expected (eager PyTorch)", f"actual ({name})"))


def _diagnostics(entry: Entry) -> list[str]:
    """What the system itself said, trimmed."""
    said = [f"{each.severity}: {each.message}" for each in entry.observed.diagnostics if each.severity != "note"]
    if not said and entry.observed.death is not None:
        said = [entry.observed.death.stderr]
    elif not said and did(entry.observed):
        said = [entry.observed.message]
    lines = [line.rstrip()[:400] for text in said for line in text.splitlines() if line.strip()]
    lines = [re.sub(r"\b(_Z\w{40})\w+", r"\1...", line) for line in lines if not _is_noise(line)]
    if not lines:
        return []
    if len(lines) > MAX_DIAGNOSTICS:
        head = MAX_DIAGNOSTICS * 2 // 3
        lines = [*lines[:head], f"... {len(lines) - MAX_DIAGNOSTICS} lines ...", *lines[head - MAX_DIAGNOSTICS :]]
    return ["### Diagnostics", _fenced(scrub_diagnostics("\n".join(lines)), "text")]


_NOISE = (
    "libibverbs not available",
    "WARNING: Logging before",
    "*** Check failure stack trace",
    "Extension modules:",
    "Fatal Python error",
    "Current thread",
    "Thread 0x",
    "PLEASE submit a bug report to",
    "PyEval",
    "PyObject_",
    "PyVector",
    "_Py",
    "Py_",
    "cfunction_call",
    "method_vectorcall",
    "google::LogMessage",
    "Stack (most recent call first)",
    "(unknown)",
)


def _is_noise(line: str) -> bool:
    """Whether a line says nothing of the bug: frames of the interpreter and of the worker, advice, start-up messages."""
    return any(each in line for each in _NOISE) or line.startswith('  File "') or not line.strip(" .")


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
    return _fenced(case_source(entry.case, call=(entry.verdict.call or 0) if entry.verdict is not None else 0), "python")


def _versions(entry: Entry) -> str:
    lines = [f"- {name}: {version}" for name, version in sorted(entry.expectation.versions.items())]
    return "\n".join([*lines, f"- platform: {entry.expectation.platform or 'unknown'}"])


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
    return f"{how}. Reproduced in {shown} of {runs} fresh processes."


def _details(summary: str, body: str) -> str:
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n\n</details>"


def _fenced(text: str, language: str) -> str:
    longest = max((len(run) for run in _backticks(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _backticks(text: str) -> Sequence[str]:
    return [run for run in "".join(char if char == "`" else " " for char in text).split() if len(run) >= 3]
