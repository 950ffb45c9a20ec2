from __future__ import annotations

import numpy as np
import pytest

from harness.corpus import Entry, Expectation, Found, Signature
from harness.model.case import Call, Case
from harness.model.fill import Fill
from harness.model.outcome import CallResult, NodeTrace, Outcome, Status, Witness
from harness.model.program import Node, Program, TensorSpec
from harness.model.values import Ref, tensor_from_array
from harness.model.verdict import Kind, Severity, Verdict


@pytest.fixture
def entry() -> Entry:
    """torch.roll by more than the dim holds, as torch-mlir computes it: unrolled."""
    x = Node("x0", "placeholder", "x0", role="input", spec=TensorSpec("float32", (2, 3)))
    roll = Node("roll_1", "call_function", "torch.roll", (Ref("x0"), 7, 1))
    case = Case(Program((x, roll, Node("output", "output", "output", (Ref("roll_1"),)))), (Call(data={"x0": Fill("ordinary/1")}),))
    given = case.arguments(0)["x0"].array()
    right, wrong = (tensor_from_array(array, "float32") for array in (np.roll(given, 7, 1), given))
    return Entry(
        case=case,
        signature=Signature("torch-mlir", Kind.VALUE, "run", "roll", "any", ("arg1=int",)),
        target="torch-mlir:linalg",
        severity=Severity.WRONG_VALUE,
        title='roll by "more" than the dim\nholds',
        reference=Outcome("eager", Status.OK, calls=(CallResult(right),), witness=(Witness((NodeTrace("roll_1"),)),)),
        observed=Outcome("torch-mlir:linalg", Status.OK, calls=(CallResult(wrong),), seconds={"run": 0.1}, artifacts={"ir": "x" * 50_000}),
        verdict=Verdict("values", Kind.VALUE, "torch-mlir:linalg", Severity.WRONG_VALUE, "6 of 6 differ", "run", call=0),
        upstream="https://example.org/issues/1",
        route="users",
        reproduced=(2, 3),
        expectation=Expectation({"torch": "2.13.0", "torch-mlir": "20261001"}, "linux-x86_64"),
        found=Found("1", "default", 7, 0, "0.1.0", "2026-10-02"),
        repro="raise SystemExit(1)\n",
    )
