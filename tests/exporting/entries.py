"""Entries of what torch-mlir and OneFlow once did, with reproducers as a run renders them; nothing is run to make them."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.corpus.entry import Entry, Expectation, Found
from harness.corpus.signature import Signature
from harness.model.case import Case
from harness.model.outcome import CallResult, Death, Diagnostic, NodeResult, Outcome, Status
from harness.model.program import Node
from harness.model.values import DType, Ref, Tensor, tensor_from_array
from harness.model.verdict import Kind, Severity, Verdict
from harness.reproducers.render import render
from tests.reproducers.builders import data, eager, make_case, placeholder

Make = Callable[[], Entry]
LINALG, LOCKSTEP = "torch-mlir:linalg", "oneflow:lockstep"
TOSA, STABLEHLO = "torch-mlir:tosa", "torch-mlir:stablehlo"


def array(values: Any, dtype: str = "float32") -> Tensor:
    return tensor_from_array(np.asarray(values, dtype), dtype)


def made(case: Case, target: str, kind: Kind, observed: Outcome, *, operator: str, trigger: tuple[str, ...] = (), **more: Any) -> Entry:
    """An entry whose repro.py is rendered as it would be in a run; `more` goes to the verdict."""
    family = target.partition(":")[0]
    verdict = Verdict("any", kind, target, Severity.WRONG_VALUE, more.pop("message", "they differ"), stage=observed.stage, **more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what eager thinks of a variance of nothing
        reference = eager(case)
    entry = Entry(
        case=case,
        signature=Signature(family, kind, observed.stage, operator, "any", trigger),
        target=target,
        severity=verdict.severity,
        title="a title",
        reference=reference,
        observed=observed,
        verdict=verdict,
        reproduced=(2, 3),
        expectation=Expectation({"torch": "2.13.0", family: "1.2"}, "linux-x86_64"),
        found=Found("1", "default", 7, 12, "0.1.0", "2026-10-02", 9),
    )
    script = render(entry).bare
    return dataclasses.replace(entry, repro=script.text if script is not None else None)


def roll() -> Entry:
    """torch-mlir rolls by more than the dim holds as far as the dim, and reads what is not there as zeros."""
    nodes = [placeholder("x0", "float32", (1, 4))]
    nodes.append(Node("roll_1", "call_function", "torch.roll", (Ref("x0"), (0, -6), (0, 1))))
    case = make_case(nodes, Ref("roll_1"), {"x0": data([[0.0, 0.0, 0.0, 1.0]])})
    observed = Outcome(LINALG, Status.OK, "run", calls=(CallResult(array([[0.0, 0.0, 0.0, 1.0]])),))
    detail = {"index": (0, 1), "expected": 1.0, "actual": 0.0, "differing": 2, "total": 4, "tolerance": 0.0}
    message = "output: 2 of 4 elements differ; worst at [0, 1]: eager 1.0, torch-mlir:linalg 0.0"
    return made(case, LINALG, Kind.VALUE, observed, operator="roll", trigger=("arg1=negative",), detail=detail, message=message)


def full_like() -> Entry:
    """torch-mlir's lowering to linalg makes a literal of the wrong sign."""
    nodes = [placeholder("x0", "float32", (1,))]
    nodes.append(Node("full_like_1", "call_function", "torch.full_like", (Ref("x0"), 0), {"dtype": DType("uint8")}))
    case = make_case(nodes, Ref("full_like_1"), {"x0": data([0.0])})
    said = "'torch.vtensor.literal' op inferred type(s) are incompatible"
    observed = Outcome(LINALG, Status.ERROR, "linalg", message=said, diagnostics=(Diagnostic("error", said, "linalg"),), node="full_like_1")
    return made(case, LINALG, Kind.INVALID_IR, observed, operator="full_like", message=f"{LINALG}: invalid IR: {said}")


def repeat() -> Entry:
    """torch-mlir divides by zero."""
    nodes = [placeholder("x0", "float32", (0,)), Node("repeat_1", "call_method", "repeat", (Ref("x0"), [0]))]
    case = make_case(nodes, Ref("repeat_1"), {"x0": data([])})
    observed = Outcome(LINALG, Status.CRASH, "linalg", message="died by SIGFPE", death=Death("SIGFPE", stderr="Fatal Python error\n"))
    return made(case, LINALG, Kind.CRASH, observed, operator="repeat", trigger=("empty",), detail={"signal": "SIGFPE"})


def tosa_add() -> Entry:
    """True and True make False in TOSA."""
    nodes = [placeholder("x0", "bool", (1,)), Node("add_1", "call_function", "operator.add", (Ref("x0"), Ref("x0")))]
    case = make_case(nodes, Ref("add_1"), {"x0": data([True], "bool")})
    observed = Outcome(
        TOSA, Status.OK, "run", calls=(CallResult(array([False], "bool")),), artifacts={"vote": "linalg: right\ntosa: wrong"}
    )
    detail = {"index": (0,), "expected": True, "actual": False, "differing": 1, "total": 1, "tolerance": 0.0}
    message = "output: the value differs: eager True, torch-mlir:tosa False"
    return made(case, TOSA, Kind.VALUE, observed, operator="add", trigger=("dtype:bool",), detail=detail, message=message)


def stablehlo_repeat() -> Entry:
    """StableHLO's repeat keeps the size 1 of a dim that is repeated no times."""
    nodes = [placeholder("x0", "float32", (2, 1)), Node("repeat_1", "call_method", "repeat", (Ref("x0"), [2, 0]))]
    case = make_case(nodes, Ref("repeat_1"), {"x0": data([[0.0], [0.0]])})
    said = "output shape [0, 0, 1] is incompatible with return type of operation 'tensor<4x0x1xf32>'"
    observed = Outcome(STABLEHLO, Status.ERROR, "stablehlo", message=said, diagnostics=(Diagnostic("error", said, "stablehlo"),))
    return made(case, STABLEHLO, Kind.INVALID_IR, observed, operator="repeat", message=f"{STABLEHLO}: invalid IR: {said}")


def softmin() -> Entry:
    """torch-mlir never stops rewriting a scalar's softmin."""
    nodes = [placeholder("x0", "float32", ()), Node("softmin_1", "call_function", "torch.nn.functional.softmin", (Ref("x0"), 0))]
    case = make_case(nodes, Ref("softmin_1"), {"x0": data(0.0)})
    said = "no answer within 10 s, spinning"
    observed = Outcome(LINALG, Status.TIMEOUT, "linalg", message=said, death=Death(stderr=""))
    message = f"{LINALG}: does not finish in stage linalg: {said}"
    return made(case, LINALG, Kind.TIMEOUT, observed, operator="softmin", trigger=("rank:0",), message=message)


def var() -> Entry:
    """torch-mlir's variance of nothing is no NaN."""
    nodes = [placeholder("x0", "float32", (0,)), Node("var_1", "call_function", "torch.var", (Ref("x0"),))]
    case = make_case(nodes, Ref("var_1"), {"x0": data([])})
    observed = Outcome(LINALG, Status.OK, "run", calls=(CallResult(array(-0.0)),))
    detail = {"index": (), "expected": float("nan"), "actual": -0.0, "special": "nan", "tolerance": 0.0}
    return made(case, LINALG, Kind.SPECIAL, observed, operator="var", detail=detail)


def gelu() -> Entry:
    """torch-mlir's tanh approximation is off by more than rounding, and by less than its own suite asks for."""
    nodes = [placeholder("x0", "float32", (1,))]
    nodes.append(Node("gelu_1", "call_function", "torch.nn.functional.gelu", (Ref("x0"),), {"approximate": "tanh"}))
    case = make_case(nodes, Ref("gelu_1"), {"x0": data([1.0])})
    observed = Outcome(LINALG, Status.OK, "run", calls=(CallResult(array([0.8411472])),))
    detail = {"index": (0,), "expected": 0.841192, "actual": 0.8411472, "tolerance": 1.09e-05}
    return made(case, LINALG, Kind.VALUE, observed, operator="gelu", detail=detail)


def sort() -> Entry:
    """OneFlow's indices are int32."""
    nodes = [placeholder("x0", "float32", (2,)), Node("sort_1", "call_method", "sort", (Ref("x0"),))]
    case = make_case(nodes, Ref("sort_1"), {"x0": data([2.0, 1.0])})
    actual = (array([1.0, 2.0]), array([1, 0], "int32"))
    observed = Outcome(LOCKSTEP, Status.OK, "run", nodes=(NodeResult("sort_1", 0, Status.OK, actual),))
    detail = {"expected": "int64", "actual": "int32"}
    message = f"sort_1 [1]: eager's dtype is int64, {LOCKSTEP}'s int32"
    return made(case, LOCKSTEP, Kind.DTYPE, observed, operator="sort", node="sort_1", path="[1]", message=message, detail=detail)


def norm() -> Entry:
    """OneFlow's 1-norm is not the sum of magnitudes."""
    nodes = [placeholder("x0", "float32", (1, 2)), Node("norm_1", "call_function", "torch.norm", (Ref("x0"), 1.0))]
    case = make_case(nodes, Ref("norm_1"), {"x0": data([[1.0, 1.0]])})
    observed = Outcome(LOCKSTEP, Status.OK, "run", nodes=(NodeResult("norm_1", 0, Status.OK, array(1.0)),))
    detail = {"index": (), "expected": 2.0, "actual": 1.0, "tolerance": 1.5e-05}
    return made(case, LOCKSTEP, Kind.VALUE, observed, operator="norm", node="norm_1", detail=detail)


def unfold() -> Entry:
    """OneFlow refuses windows of size 0."""
    nodes = [placeholder("x0", "float32", (1,)), Node("unfold_1", "call_method", "unfold", (Ref("x0"), 0, 0, 1))]
    case = make_case(nodes, Ref("unfold_1"), {"x0": data([0.0])})
    said = "RuntimeError: attibute size should be > 0, but got 0"
    observed = Outcome(LOCKSTEP, Status.ERROR, "run", message=said, node="unfold_1")
    return made(case, LOCKSTEP, Kind.ERROR, observed, operator="unfold", node="unfold_1", message=f"{LOCKSTEP}: refused: {said}")


def index_add() -> Entry:
    """OneFlow dies of a negative dim."""
    nodes = [placeholder("x0", "float32", (1,)), placeholder("x1", "int64", (1,)), placeholder("x2", "float32", (1,))]
    nodes.append(Node("index_add_1", "call_function", "torch.index_add", (Ref("x0"), -1, Ref("x1"), Ref("x2"))))
    case = make_case(nodes, Ref("index_add_1"), {"x0": data([0.0]), "x1": data([0], "int64"), "x2": data([0.0])})
    stderr = "F20261130 shape.cpp:29] Check failed: index >= 0\n    @ 0x7fc98bcd5bd0  google::LogMessage::Fail()\n"
    observed = Outcome(LOCKSTEP, Status.CRASH, "run", message="died by SIGABRT", node="index_add_1", death=Death("SIGABRT", stderr=stderr))
    return made(case, LOCKSTEP, Kind.CRASH, observed, operator="index_add", node="index_add_1", detail={"signal": "SIGABRT"})


def copy() -> Entry:
    """OneFlow's copy_ returns nothing."""
    nodes = [placeholder("x0", "float32", ()), placeholder("x1", "float32", ())]
    nodes.append(Node("copy__1", "call_method", "copy_", (Ref("x0"), Ref("x1"))))
    case = make_case(nodes, Ref("copy__1"), {"x0": data(0.0), "x1": data(0.0)})
    observed = Outcome(LOCKSTEP, Status.OK, "run", nodes=(NodeResult("copy__1", 0, Status.OK, None),))
    message = f"copy__1: eager gives '*', {LOCKSTEP} 'NoneType'"
    return made(case, LOCKSTEP, Kind.STRUCTURE, observed, operator="copy_", node="copy__1", message=message)


ALL = (copy, roll, full_like, repeat, softmin, var, gelu, sort, norm, unfold, index_add)


def right(kind: Kind) -> Entry:
    """An entry of a program that torch-mlir gets right, whatever it says."""
    nodes = [placeholder("x0", "float32", (2,)), Node("mul_1", "call_function", "torch.mul", (Ref("x0"), 2.0))]
    case = make_case(nodes, Ref("mul_1"), {"x0": data([1.0, 2.0])})
    observed = Outcome(LINALG, Status.OK, "run", calls=(CallResult(array([2.0, 4.0])),))
    return made(case, LINALG, kind, observed, operator="mul")
