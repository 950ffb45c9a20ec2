"""Entries of a corpus that need no campaign: sin of zero, on any of the wrong targets."""

from __future__ import annotations

import importlib.metadata

import numpy as np

from harness.corpus import Entry, Expectation, Signature
from harness.corpus.entry import OPEN, current_platform
from harness.model.case import Call, Case
from harness.model.fill import Literal
from harness.model.outcome import CallResult, Outcome, Status
from harness.model.program import Node, Program, TensorSpec
from harness.model.values import Ref, tensor_from_array
from harness.model.verdict import Kind, Severity, Verdict


def entry(name: str, target: str, *, status: str = OPEN, stored: float = 0.0, torch: str | None = None) -> Entry:
    """sin(0) on a target that was seen to give 1, under an operator's name that tells entries apart."""
    nodes = (
        Node("x0", "placeholder", "x0", role="input", spec=TensorSpec("float32", (1,))),
        Node("sin_1", "call_function", "torch.sin", (Ref("x0"),)),
        Node("output", "output", "output", (Ref("sin_1"),)),
    )
    case = Case(Program(nodes), (Call(data={"x0": Literal(np.zeros(1, np.float32).tobytes())}),), lane="exact")
    eager, wrong = (tensor_from_array(np.array([value], np.float32), "float32") for value in (stored, 1.0))
    return Entry(
        case=case,
        signature=Signature("wrong", Kind.VALUE, "run", name),
        target=target,
        severity=Severity.WRONG_VALUE,
        title=f"{name}: sin of zero",
        reference=Outcome("eager", Status.OK, calls=(CallResult(eager),)),
        observed=Outcome(target, Status.OK, calls=(CallResult(wrong),)),
        verdict=Verdict("values", Kind.VALUE, target, Severity.WRONG_VALUE, "eager 0.0, wrong 1.0", "run", call=0),
        status=status,
        upstream="https://example.org/issues/7",
        expectation=Expectation({"torch": torch or importlib.metadata.version("torch")}, current_platform()),
    )
