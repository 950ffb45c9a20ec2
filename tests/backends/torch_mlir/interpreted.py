"""Cases whose imported IR is run by the interpreter and held against eager."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from harness.backends.torch_mlir.backend import toolchain
from harness.backends.torch_mlir.importing import import_case
from harness.backends.torch_mlir.torch_dialect.meaning import Meaning, Meanings
from harness.backends.torch_mlir.tracing import Specialized
from harness.model.case import Case
from harness.model.outcome import CallResult, Outcome, Status
from harness.model.verdict import Verdict
from oracles import judge

Eager = Callable[..., Outcome]


def imported_meaning(case: Case, route: str) -> tuple[Meaning, tuple[int, ...]]:
    """What the interpreter makes of the imported IR, and for which calls; raises Unsupported where there is none."""
    if case.program.symbols():
        try:
            imported = import_case(case, toolchain(), route=route, call=0, dynamic=True)
            calls = tuple(range(len(case.calls)))
            return Meanings(case, imported, calls).of(imported.module), calls
        except Specialized:
            pass
    imported = import_case(case, toolchain(), route=route, call=0, dynamic=False)
    return Meanings(case, imported, (0,)).of(imported.module), (0,)


def disagreements(case: Case, meaning: Meaning, calls: tuple[int, ...], reference: Outcome) -> tuple[Verdict, ...]:
    """What the oracles have against the interpreter's answers."""
    assert reference.status is Status.OK
    chosen = dataclasses.replace(
        reference,
        calls=tuple(reference.calls[call] for call in calls),
        witness=tuple(reference.witness[call] for call in calls) if reference.witness else (),
    )
    answers = tuple(CallResult(answer.output, answer.mutated) for answer in meaning.answers)
    same = dataclasses.replace(case, calls=tuple(case.calls[call] for call in calls))
    return judge(same, chosen, Outcome("torch-mlir:fixpoint", Status.OK, "import", calls=answers))
