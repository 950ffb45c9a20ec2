from __future__ import annotations

import os
import sys
from types import ModuleType

import pytest

from harness.backends.oneflow import session
from harness.backends.oneflow.execute import execute, resolve
from harness.backends.oneflow.translate.plan import FlowDType, Invocation, Local, Operand, Plan
from harness.errors import HarnessError, TargetUnavailable

X = Operand("x", "float32", (2,))


@pytest.fixture
def fake_oneflow(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("oneflow")
    module.double = lambda value, by=2: value * by  # type: ignore[attr-defined]
    module.float32 = "a dtype"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "oneflow", module)
    resolve.cache_clear()
    yield module
    resolve.cache_clear()


def test_without_oneflow_the_target_is_unavailable() -> None:
    with pytest.raises(TargetUnavailable, match="not installed"):
        session.map_library()
    with pytest.raises(TargetUnavailable, match="cannot be imported"):
        session.import_oneflow()


def test_stderr_is_silent_and_comes_back(capfd: pytest.CaptureFixture[str]) -> None:
    with session.silent_stderr():
        os.write(2, b"libibverbs not available\n")
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"


def test_a_plan_runs_its_steps_in_order(fake_oneflow: ModuleType) -> None:
    plan = Plan(
        (Invocation("oneflow.double", (Local("a"),), {"by": 3}), [FlowDType("float32"), slice(X, None)], {"k": ...}),
        (("a", Invocation("operator.add", (X, 1))), ("", Invocation(".bit_length", (Local("a"),)))),
    )
    assert execute(plan, {"x": 4}) == (15, ["a dtype", slice(4, None)], {"k": ...})
    assert execute(Plan(Invocation("()", (Local("f"), 5))), {"f": abs}) == 5
    assert execute(Plan(Invocation("@real", (X,))), {"x": 4}) == 4


@pytest.mark.parametrize("call", [Invocation("oneflow.nn.nothing"), Invocation(".nothing", (X,)), Invocation("@nothing", (X,))])
def test_a_name_that_oneflow_lacks_is_our_fault(fake_oneflow: ModuleType, call: Invocation) -> None:
    with pytest.raises(HarnessError, match="which this OneFlow does not have"):
        execute(Plan(call), {"x": 4})
