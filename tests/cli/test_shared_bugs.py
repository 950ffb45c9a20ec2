"""A bug in a stage that several targets share is known on each of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from harness.backends.protocol import target
from harness.cli.session import Session
from harness.corpus.signature import Signature
from harness.corpus.store import Corpus
from harness.model.verdict import Kind
from tests.exporting.entries import roll


def test_a_bug_before_the_lowerings_part_is_known_on_all_of_them(tmp_path: Path) -> None:
    names = ("torch-mlir:linalg", "torch-mlir:tosa", "torch-mlir:inference")
    entry = roll()
    for stage, expected in (("torch-pipeline", [True, True, False]), ("run", [True, False, False])):
        folder = tmp_path / stage
        told = Signature("torch-mlir", Kind.VALUE, stage, "roll", "any", ("arg1=negative",))
        Corpus(folder).add(dataclasses.replace(entry, signature=told))
        known = Session(tuple(map(target, names)), pool=None).known_bugs(folder)  # type: ignore[arg-type]
        found = [known.match(name, "value", "roll", frozenset({"arg1=negative"})) for name in names]
        assert [bug is not None for bug in found] == expected
        assert all(bug.signature == told.slug and bug.path for bug in found if bug is not None)
