from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.backends.eager import EagerBackend, Silent
from harness.backends.protocol import load_backend, target
from harness.compilers.oneflow.target import CompiledTarget
from harness.errors import Unsupported, UsageError
from harness.model.case import Call, Case
from harness.model.fill import Fill
from harness.model.outcome import Job, Outcome, Status
from harness.model.program import Node, Program, TensorSpec
from harness.model.symbols import Sym, Symbol
from harness.model.values import Ref, Tensor, leaves
from tests.compilers.oneflow.helpers import needs_oneflow

pytestmark = needs_oneflow


def node(name: str, target: str, *args: Any, **kwargs: Any) -> Node:
    return Node(name, "call_function" if "." in target else "call_method", target, args, kwargs)


def case(
    *nodes: Node, mode: str = "fwd", output: Any = None, symbols: tuple[Symbol, ...] = (), bindings: tuple[dict[str, int], ...] = ({},)
) -> Case:
    grad = mode != "fwd"
    rows = Sym("s0") if symbols else 2
    x0 = Node("x0", "placeholder", "x0", role="input", spec=TensorSpec("float32", (rows, 3), requires_grad=grad))
    p0 = Node("p0", "placeholder", "p0", role="parameter", spec=TensorSpec("float32", (3, 3), requires_grad=grad))
    last = Node("output", "output", "output", (output if output is not None else Ref(nodes[-1].name),))
    calls = tuple(Call(binding, {"x0": Fill("ordinary/1", index, -2, 2)}) for index, binding in enumerate(bindings))
    return Case(Program((x0, p0, *nodes, last)), calls, symbols, {"p0": Fill("ordinary/1", 7, -2, 2)}, mode)


def run(each: Case, **options: Any) -> Outcome:
    return CompiledTarget().run(each, Job(b"", "oneflow:compile", options=options), Silent())


def agrees(each: Case, outcome: Outcome) -> None:
    eager = EagerBackend().run(each, Job(b"", "eager"), Silent())
    assert (eager.status, outcome.status) == (Status.OK, Status.OK), outcome.message
    for mine, its in zip(outcome.calls, eager.calls, strict=True):
        left, right = list(leaves(mine.output)), list(leaves(its.output))
        assert [path for path, _ in left] == [path for path, _ in right]
        for (path, a), (_, b) in zip(left, right, strict=True):
            if isinstance(a, Tensor):
                assert a.dtype == b.dtype and np.allclose(a.array(), b.array(), rtol=1e-4, atol=1e-5), path
            else:
                assert a == b
        assert mine.mutated.keys() == its.mutated.keys()


def test_the_target_is_registered_for_every_mode() -> None:
    spec = target("oneflow:compile")
    assert spec.modes == ("fwd", "grad", "train") and spec.family == "oneflow"
    assert isinstance(load_backend(spec.entry), CompiledTarget)


@pytest.mark.parametrize("mode", ["fwd", "grad", "train"])
def test_a_program_gives_what_eager_gives(mode: str) -> None:
    each = case(node("matmul_0", "torch.matmul", Ref("x0"), Ref("p0")), node("tanh_1", "torch.tanh", Ref("matmul_0")), mode=mode)
    outcome = run(each)
    agrees(each, outcome)
    assert outcome.counts["nodes-in-oneflow"] == 2 and outcome.counts["trips"] == 1
    assert {"torch", "oneflow"} <= outcome.versions.keys()


def test_several_bindings_and_what_oneflow_lacks() -> None:
    each = case(
        node("relu_0", "torch.relu", Ref("x0")),
        node("cummax_1", "torch.cummax", Ref("relu_0"), 0),
        node("getitem_2", "operator.getitem", Ref("cummax_1"), 0),
        node("mul_3", "torch.mul", Ref("getitem_2"), 2),
        symbols=(Symbol("s0", 1, 8),),
        bindings=({"s0": 2}, {"s0": 5}, {"s0": 2}),
    )
    for dynamic in ("auto", "true", "false"):
        outcome = run(each, dynamic=dynamic)
        agrees(each, outcome)
        assert outcome.counts["nodes-in-torch"] >= 2


def test_deaths_and_errors_have_the_programs_own_node() -> None:
    # A batch of matrices times a vector fails a CHECK in OneFlow 0.9.0.
    outcome = run(
        case(
            node("unsqueeze_0", "torch.unsqueeze", Ref("x0"), 0),
            node("select_1", "torch.select", Ref("p0"), 0, 0),
            node("matmul_2", "torch.matmul", Ref("unsqueeze_0"), Ref("select_1")),
        )
    )
    assert (outcome.status, outcome.node) == (Status.CRASH, "matmul_2"), outcome.message
    assert outcome.death is not None and outcome.death.signal == "SIGABRT"
    dropout = node("dropout2d_1", "torch.nn.functional.dropout2d", Ref("relu_0"), 0.5, False)
    outcome = run(case(node("relu_0", "torch.relu", Ref("x0")), dropout, node("mul_2", "torch.mul", Ref("dropout2d_1"), 2)))
    assert (outcome.status, outcome.node) == (Status.ERROR, "dropout2d_1")
    assert run(case(node("relu_0", "torch.relu", Ref("x0")))).status is Status.OK


def test_a_program_of_which_nothing_runs_in_oneflow_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"missing: OneFlow 0\.9\.0 has no frac"):
        run(case(node("frac_0", "torch.frac", Ref("x0"))))


def test_options_are_checked() -> None:
    with pytest.raises(UsageError, match="dynamic must be"):
        run(case(node("relu_0", "torch.relu", Ref("x0"))), dynamic="maybe")
