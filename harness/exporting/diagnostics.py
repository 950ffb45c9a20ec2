"""What the system itself said, without what says nothing of the bug."""

from __future__ import annotations

import re

from harness.corpus.entry import MAX_STDERR, Entry
from harness.exporting.scrub import scrub_diagnostics
from harness.exporting.sides import did
from harness.exporting.words import cause_of
from harness.model.verdict import Kind

MAX_LINES = 25
# Frames of the interpreter and of glog, advice, and messages at start-up.
_NOISE = (
    "libibverbs not available",
    "WARNING: Logging before",
    "*** Check failure stack trace",
    "Extension modules:",
    "Fatal Python error",
    "Current thread",
    "Thread 0x",
    "PLEASE submit a bug report to",
    "Stack dump without symbol names",
    "PrintStackTrace",
    "RunSignalHandlers",
    "SignalHandler",
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
_PYTHON_FRAME = re.compile(r'\s*File "[^"]*\.py"|\s*File "<')
_WARNING = re.compile(r"\b\w*Warning: ")
_MANGLED = re.compile(r"\b(_Z\w{40})\w+")
_GLOG_FRAME = re.compile(r"^\s*@\s+0x[0-9a-f]+\s+")
# LLVM's: `#4 0x00007f mlir::f(mlir::Op) (/x/lib.so+0x12)`, `4 lib.so 0x00007f mlir::f(mlir::Op) + 12`.
_LLVM_FRAME = re.compile(r"^\s*#?(\d+)\s+(?:\S+\s+)?0x[0-9a-f]{8,}\s*(.*?)\s*(?:\(\S*\+0x[0-9a-f]+\)|\+ \d+|/\S+:\d+(?::\d+)?)?$")


def diagnostics(entry: Entry) -> list[str]:
    """The lines that the system printed or raised, at most MAX_LINES and free of paths, addresses and times; maybe none."""
    observed = entry.observed
    said = [f"{each.severity}: {each.message}" for each in observed.diagnostics if each.severity != "note"]
    lines = [line for text in said for line in text.splitlines()]
    if observed.death is not None:
        stderr = observed.death.stderr
        printed = stderr.splitlines()[1:] if len(stderr) >= MAX_STDERR else stderr.splitlines()  # cut off in the middle of a line
        lines += [line for line in printed if line not in lines]
    elif not said and did(observed) and entry.signature.kind is not Kind.TIMEOUT:
        lines += observed.message.splitlines()
    told = scrub_diagnostics("\n".join(_told(lines)))
    kept = [line for line in told.splitlines() if line.strip(" .")]
    cause = cause_of(entry) if entry.signature.kind is Kind.CRASH else ""
    if cause and not any(cause[:60] in line for line in kept):
        kept.insert(0, cause)
    if len(kept) > MAX_LINES:
        head = MAX_LINES * 2 // 3
        kept = [*kept[:head], f"... {len(kept) - MAX_LINES} lines ...", *kept[head - MAX_LINES :]]
    return kept


def _told(lines: list[str]) -> list[str]:
    found: list[str] = []
    warned = False
    for line in lines:
        # Python prints the source line below a warning.
        skipped = warned and line.startswith("  ")
        warned = _WARNING.search(line) is not None and "error" not in line.lower()
        if skipped or warned or _PYTHON_FRAME.match(line) or any(each in line for each in _NOISE):
            continue
        frame = _LLVM_FRAME.match(line)
        if frame is not None:
            if not frame[2]:
                continue  # no symbol: an address in a library says nothing elsewhere
            line = f"#{frame[1]} {frame[2]}"
        found.append(_MANGLED.sub(r"\1...", _GLOG_FRAME.sub("    @ ", line.rstrip()))[:400])
    return found
