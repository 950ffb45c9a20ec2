"""repro.mlir for a pass: the snapshot before it under lit's RUN line, and what the interpreter saw as comments."""

from __future__ import annotations

import textwrap

from harness.backends.protocol import target
from harness.corpus.entry import Entry
from harness.errors import HarnessError
from harness.model.verdict import Kind
from harness.triage.guilt import SNAPSHOT, Guilt, of_entry

MAX_LINE = 110
_SAYS = {
    Kind.INVALID_IR: "This pass leaves IR that the verifier rejects.",
    Kind.SILENT_ERROR: "This pass reports an error and succeeds.",
    Kind.DECLARED_DTYPE: "After this pass the IR declares a dtype that the real tensor does not have.",
    Kind.DECLARED_SHAPE: "After this pass the IR declares a shape that the real tensor does not have.",
    Kind.UNEXECUTABLE: "After this pass the IR holds an operation that eager PyTorch refuses.",
    Kind.NO_CONVERGENCE: "This pass keeps the pipeline from coming to an end.",
    Kind.BLOW_UP: "This pass takes too long, takes too much memory, or makes the IR grow without end.",
    Kind.ERROR: "After this pass the pipeline cannot go on.",
}
_MEANING = "After this pass the program means something else; the values are those that eager PyTorch's operators give."


def mlir_of_pass(entry: Entry) -> tuple[str, str] | None:
    """The reproducer, and the IR that the pass is expected to leave, empty where it fails.

    None where no pass is guilty or the snapshot before it was not kept.
    """
    guilty = of_entry(entry.observed)
    if entry.observed.death is not None and entry.verdict is not None and target(entry.target).family == "torch-mlir":
        return _of_death(entry)
    if guilty is None or not guilty.text:
        return None
    before, after = (entry.observed.artifacts.get(SNAPSHOT + digest, "") for digest in (guilty.before, guilty.after))
    if not before or entry.verdict is None:
        return None
    pipeline = f"builtin.module({guilty.text})"
    if "'" in pipeline or "\n" in pipeline:
        raise HarnessError(f"a pass that does not fit a RUN line: {pipeline!r}")
    comments = [*_about(entry.verdict.kind, guilty), *_versions(entry)]
    lines = [f"// RUN: torch-mlir-opt -pass-pipeline='{pipeline}' %s", "//", *(f"// {line}".rstrip() for line in comments)]
    leaves = after if entry.verdict.kind is not Kind.INVALID_IR and guilty.before != guilty.after else ""
    return "\n".join(lines) + f"\n{before.strip()}\n", leaves


def _of_death(entry: Entry) -> tuple[str, str] | None:
    """The import under the whole pipeline, where the process died in a pass and took its snapshots with it."""
    source, pipeline = entry.observed.artifacts.get("input.mlir"), entry.observed.artifacts.get("pipeline")
    if not source or not pipeline or not target(entry.target).name.startswith("torch-mlir:fixpoint"):
        return None
    head = [f"// RUN: torch-mlir-opt -pass-pipeline='{pipeline}' %s", "//", f"// The process ends in the pass {entry.observed.stage}."]
    return "\n".join([*head, *(f"// {line}" for line in _versions(entry))]) + f"\n{source.strip()}\n", ""


def _about(kind: Kind, guilty: Guilt) -> list[str]:
    lines = [_SAYS.get(kind, _MEANING)]
    if guilty.pattern:
        lines.append(f"Pattern: {guilty.pattern}")
    if guilty.op:
        lines.append(f"Operation: {guilty.op}")
    if guilty.expected or guilty.actual:
        right, wrong = ("expected", "declared") if kind in (Kind.DECLARED_DTYPE, Kind.DECLARED_SHAPE) else ("expected", "actual")
        lines += [*_wrapped(f"  {right}: {guilty.expected}"), *_wrapped(f"  {wrong}:   {guilty.actual}")]
    elif kind in _SAYS:
        lines += _wrapped(f"  {guilty.reason.rpartition('): ')[2]}")
    route = "decomposed by PyTorch, as by fx.export_and_import" if guilty.route in ("decomposed", "export") else "without decompositions"
    lines.append(f"Imported {route}; iteration {guilty.iteration} of the pipeline {guilty.pipeline}.")
    return lines


def _wrapped(text: str) -> list[str]:
    plain = "".join(char if char.isprintable() else " " for char in text)
    return textwrap.wrap(plain, MAX_LINE, subsequent_indent="      ") or [""]


def _versions(entry: Entry) -> list[str]:
    versions = {name: version for name, version in sorted(entry.expectation.versions.items()) if name in ("torch", "torch-mlir")}
    family = target(entry.target).family
    return [", ".join(f"{name} {version}" for name, version in versions.items())] if versions and family == "torch-mlir" else []
