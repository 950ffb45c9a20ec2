"""Every reproducer for OneFlow that is rendered is run: by the OneFlow at hand, in a process of its own, without fxdiff."""

from __future__ import annotations

import ast

import pytest

from harness.backends.eager import EagerBackend, Silent
from harness.errors import TargetUnavailable, Unsupported
from harness.model.case import Case
from harness.model.fill import Fill
from harness.model.outcome import CallResult, Job, Outcome, Status
from harness.model.program import ModuleRecipe, Node, TensorSpec
from harness.model.values import Ref, tensor_from_array
from harness.model.verdict import Kind, Severity, Verdict
from harness.reproducers.oneflow import repro_source
from harness.reproducers.run import ReproRun, run_source
from harness.workers.interpreters import interpreter_for
from tests.reproducers.builders import data, make_case, placeholder

try:
    PYTHON, ENVIRONMENT = interpreter_for("oneflow")
except TargetUnavailable as unavailable:
    pytest.skip(str(unavailable), allow_module_level=True)

NAN = float("nan")


def verdict(kind: Kind, target: str = "oneflow:lockstep", **more: object) -> Verdict:
    return Verdict("any", kind, target, Severity.ERROR, 'said of a "case" with \\ and """quotes"""', **more)  # type: ignore[arg-type]


def reference(case: Case) -> Outcome:
    return EagerBackend().run(case, Job(b"", "eager", ("trace",)), Silent())


def run(case: Case, kind: Kind = Kind.VALUE, target: str = "oneflow:lockstep", *, known: Outcome | None = None, **more: object) -> ReproRun:
    source = repro_source(case, verdict(kind, target, **more), known or reference(case), timeout=30)
    imported = {
        alias.name
        for item in ast.walk(ast.parse(source))
        if isinstance(item, ast.Import | ast.ImportFrom)
        for alias in (item.names if isinstance(item, ast.Import) else [ast.alias(item.module or "")])
    }
    assert imported <= {"sys", "math", "signal", "subprocess", "numpy", "oneflow"}
    return run_source(source, python=PYTHON, env=ENVIRONMENT)


def unary(target: str, *args: object, values: object, dtype: str = "float32", shape: tuple[int, ...] = (2,), **spec: object) -> Case:
    x = placeholder("x0", dtype, shape, **spec)
    return make_case([x, Node("n", "call_function", target, (Ref("x0"), *args))], Ref("n"), {"x0": data(values, dtype)})


def test_wrong_values_right_ones_and_tolerances() -> None:
    x, y = placeholder("x0", "float32", (2,)), placeholder("x1", "float32", (2,))
    node = Node("maximum_1", "call_function", "torch.maximum", (Ref("x0"), Ref("x1")))
    case = make_case([x, y, node], Ref("maximum_1"), {"x0": data([NAN, 1]), "x1": data([2, NAN])})
    ran = run(case, Kind.SPECIAL)
    assert ran.exit_code == 1, ran.output
    assert "BUG: OneFlow disagrees with eager PyTorch: 1 of 2 elements differ" in ran.output
    fine = unary("torch.mul", 3.0, values=[1.0, -2.0])
    assert run(fine).exit_code == 0
    near = Outcome("eager", Status.OK, calls=(CallResult(tensor_from_array(fine.arguments(0)["x0"].array() * 3.001, "float32")),))
    assert run(fine, known=near).exit_code == 1
    assert run(fine, known=near, detail={"tolerance": 0.01, "expected": 3.0}).exit_code == 0


def test_wrong_dtype_shape_and_structure() -> None:
    ran = run(unary("torch.sum", values=[3], dtype="int8", shape=()), Kind.DTYPE)
    assert ran.exit_code == 1, ran.output
    assert "oneflow.int8 () instead of oneflow.int64 ()" in ran.output
    flat = unary("torch.flatten", values=[1.5], shape=())
    assert run(flat, Kind.SHAPE).exit_code == 1


def test_a_death_is_seen_from_outside() -> None:
    ran = run(unary("torch.cumsum", 0, values=[1.5], shape=()), Kind.CRASH)
    assert ran.exit_code == 1, ran.output
    assert "the process dies of SIGABRT" in ran.output
    assert run(unary("torch.cumsum", 0, values=[1.5, 2]), Kind.CRASH).exit_code == 0


def test_a_failure_is_a_bug_or_a_refusal_by_its_kind() -> None:
    case = unary("torch.argsort", values=[1.5], shape=())
    assert run(case, Kind.ERROR).exit_code == 1
    assert run(case, Kind.VALUE).exit_code == 2


@pytest.mark.parametrize(
    "spec",
    [{"order": (1, 0)}, {"expanded": (0,)}, {"strides": (4, 1), "offset": 0}, {"strides": (3, 1), "offset": 2}],
)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_layouts_come_through(spec: dict[str, object], dtype: str) -> None:
    node = placeholder("x0", dtype, (2, 3), **spec)
    assert isinstance(node.spec, TensorSpec)
    flip = Node("flip_1", "call_function", "torch.flip", (Ref("x0"), [1]))
    case = make_case([node, flip], Ref("flip_1"), {"x0": Fill("integers/1")})
    ran = run(case)
    assert ran.exit_code == 0, ran.output


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "int8", "uint8", "bool"])
def test_every_dtype_comes_through(dtype: str) -> None:
    nodes = [placeholder(f"x{rank}", dtype, shape) for rank, shape in enumerate(((3,), (2, 1), ()))]
    pick = [Node(f"n{rank}", "call_function", "torch.reshape", (Ref(node.name), (-1,))) for rank, node in enumerate(nodes)]
    case = make_case([*nodes, *pick], [Ref(node.name) for node in pick], {node.name: Fill("exact/1", i) for i, node in enumerate(nodes)})
    ran = run(case, target="oneflow:eager")
    assert ran.exit_code == 0, ran.output


def test_several_nodes_tuples_and_scalars() -> None:
    x = placeholder("x0", "float32", (4, 2))
    nodes = [
        x,
        Node("split_1", "call_function", "torch.split", (Ref("x0"), 2)),
        Node("getitem_1", "call_function", "operator.getitem", (Ref("split_1"), 1)),
        Node("size_1", "call_method", "size", (Ref("getitem_1"), 0)),
        Node("mul_1", "call_function", "operator.mul", (Ref("getitem_1"), Ref("size_1"))),
    ]
    case = make_case(nodes, {"a": (Ref("mul_1"), Ref("x0")), "b": [Ref("size_1"), None]}, {"x0": Fill("exact/1")})
    ran = run(case, target="oneflow:eager")
    assert ran.exit_code == 0, ran.output
    alone = run(case, node="mul_1")
    assert alone.exit_code == 0, alone.output


def test_layers_with_their_state() -> None:
    linear = ModuleRecipe(
        "torch.nn.Linear", (2, 3), {}, False, {"weight": TensorSpec("float32", (3, 2)), "bias": TensorSpec("float32", (3,))}
    )
    nodes = [
        placeholder("x0", "float32", (4, 2)),
        Node("linear_1", "call_module", "linear", (Ref("x0"),)),
        Node("relu_1", "call_function", "torch.nn.functional.relu", (Ref("linear_1"),)),
        Node("other_1", "call_module", "other", (Ref("x0"),)),
    ]
    state = {f"{name}.{part}": Fill("exact/1", len(name + part)) for name in ("linear", "other") for part in ("weight", "bias")}
    output = (Ref("relu_1"), Ref("other_1"))
    case = make_case(nodes, output, {"x0": Fill("exact/1")}, state=state, modules={"linear": linear, "other": linear})
    ran = run(case, target="oneflow:eager")
    assert ran.exit_code == 0, ran.output


def test_writes_reach_what_shares_the_memory() -> None:
    nodes = [
        placeholder("x0", "float32", (3,)),
        Node("getitem_1", "call_function", "operator.getitem", (Ref("x0"), slice(0, 2))),
        Node("add_1", "call_method", "add_", (Ref("getitem_1"), 1.0)),
        Node("mul_1", "call_function", "torch.mul", (Ref("x0"), 2.0)),
    ]
    case = make_case(nodes, Ref("mul_1"), {"x0": data([1, 2, 3])})
    for target, more in (("oneflow:eager", {}), ("oneflow:lockstep", {"node": "mul_1"})):
        ran = run(case, target=target, **more)
        assert ran.exit_code == 0, ran.output
    ran = run(case, Kind.MUTATION, "oneflow:eager", path="x0")
    assert ran.exit_code == 0, ran.output
    untouched = Outcome("eager", Status.OK, calls=(CallResult(reference(case).calls[0].output),), witness=reference(case).witness)
    assert run(case, Kind.MUTATION, "oneflow:eager", known=untouched, path="x0").exit_code == 1


def test_what_cannot_be_written_is_said() -> None:
    with pytest.raises(Unsupported, match="no translation"):
        run(unary("torch.frac", values=[1.5, 2]))
    two = make_case(
        [placeholder("x0", "float32", (2,)), *(Node(f"n{i}", "call_function", "torch.neg", (Ref("x0"),)) for i in (0, 1))],
        (Ref("n0"), Ref("n1")),
        {"x0": data([1, 2])},
    )
    with pytest.raises(Unsupported, match="traces"):
        run(two, known=Outcome("eager", Status.OK, calls=reference(two).calls))


def test_without_oneflow_it_cannot_run() -> None:
    case = unary("torch.neg", values=[1.5, 2])
    ran = run_source(repro_source(case, verdict(Kind.VALUE), reference(case)))
    assert ran.exit_code == 2
    assert "cannot run: No module named 'oneflow'" in ran.output
