"""Scripts of findings in OneFlow's graphs, run in bare OneFlow."""

from __future__ import annotations

import pytest

from harness.backends.eager import EagerBackend, Silent
from harness.errors import TargetUnavailable
from harness.model.case import Call, Case
from harness.model.fill import Fill
from harness.model.outcome import Job
from harness.model.program import ModuleRecipe, Node, Program, TensorSpec
from harness.model.values import Ref
from harness.model.verdict import Kind, Severity, Verdict
from harness.reproducers.oneflow_graph import repro_source
from harness.reproducers.run import ReproRun, run_source
from harness.workers.interpreters import interpreter_for

try:
    PYTHON, ENVIRONMENT = interpreter_for("oneflow")
except TargetUnavailable as error:
    pytest.skip(str(error), allow_module_level=True)

CONV = ModuleRecipe(
    "torch.nn.Conv2d", (3, 4, 3), state={"weight": TensorSpec("float32", (4, 3, 3, 3)), "bias": TensorSpec("float32", (4,))}
)


def placeholder(name: str, spec: TensorSpec, role: str = "input") -> Node:
    return Node(name, "placeholder", name, role=role, spec=spec)


def run(case: Case, kind: Kind, target: str = "oneflow:graph", **more: object) -> ReproRun:
    eager = EagerBackend().run(case, Job(b"", "eager", ("trace",)), Silent())
    verdict = Verdict("values", kind, target, Severity.WRONG_VALUE, "a sentence", "run", **more)
    text = repro_source(case, verdict, eager, options={})
    assert "harness" not in text
    return run_source(text, python=PYTHON, env=ENVIRONMENT, timeout=120.0)


def with_state(**layout: object) -> Case:
    """A convolution between a parameter and a buffer, over an input of this layout."""
    nodes = (
        placeholder("x0", TensorSpec("float32", (2, 3, 5, 5), **layout)),
        placeholder("p0", TensorSpec("float32", (3, 1, 1)), "parameter"),
        placeholder("b0", TensorSpec("float32", (3,)), "buffer"),
        Node("y", "call_function", "torch.add", (Ref("x0"), Ref("p0"))),
        Node("c", "call_module", "conv", (Ref("y"),)),
        Node("m", "call_function", "torch.mul", (Ref("c"), Ref("b0"))),
        Node("output", "output", "output", ({"m": (Ref("m"), None)},)),
    )
    state = {name: Fill("exact/1", seed) for seed, name in enumerate(("p0", "b0", "conv.weight", "conv.bias"))}
    return Case(Program(nodes, {"conv": CONV}), (Call(data={"x0": Fill("exact/1", 9)}),), state=state)


@pytest.mark.parametrize("target", ["oneflow:graph", "oneflow:graph-mlir"])
def test_a_right_graph_with_state_and_layers_is_fixed(target: str) -> None:
    ran = run(with_state(order=(1, 0, 3, 2)), Kind.VALUE, target)
    assert ran.exit_code == 0, ran.output


def test_an_expanded_input_overwrites_what_lies_behind_it() -> None:
    ran = run(with_state(expanded=(0,)), Kind.VALUE)
    assert ran.exit_code == 1, ran.output


def test_an_argument_that_compiling_overwrites_is_shown() -> None:
    base = TensorSpec("float32", (3, 4), storage="shared")
    turned = TensorSpec("float32", (4, 3), order=(1, 0), storage="shared")
    nodes = (
        placeholder("x0", base),
        placeholder("x1", turned),
        Node("y", "call_function", "torch.abs", (Ref("x1"),)),
        Node("output", "output", "output", (Ref("y"),)),
    )
    case = Case(Program(nodes), (Call(data={"shared": Fill("ordinary/1", 1, -1, 1)}),))
    ran = run(case, Kind.MUTATION, path="x0")
    assert ran.exit_code == 1, ran.output
    assert "elements differ" in ran.output


def test_a_death_is_shown() -> None:
    nodes = (
        placeholder("x0", TensorSpec("float32", (0, 3))),
        Node("y", "call_function", "torch.relu", (Ref("x0"),)),
        Node("output", "output", "output", (Ref("y"),)),
    )
    ran = run(Case(Program(nodes), (Call(data={"x0": Fill("exact/1")}),)), Kind.CRASH)
    assert ran.exit_code == 1, ran.output
    assert "dies of SIGABRT" in ran.output
