"""Every reproducer for torch-mlir that is rendered is run: by the torch-mlir at hand, in a process of its own."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.backends.protocol import target
from harness.environments.availability import missing
from harness.environments.oneflow_env import oneflow_python
from harness.errors import TargetUnavailable, Unsupported
from harness.model.case import Call, Case
from harness.model.fill import Fill
from harness.model.outcome import CallResult, Outcome, Status
from harness.model.program import Node
from harness.model.symbols import Sym, Symbol
from harness.model.values import Ref, tensor_from_array
from harness.model.verdict import Kind, Severity, Verdict
from harness.reproducers.check import Tolerance
from harness.reproducers.run import run_source
from harness.reproducers.torch_mlir import mlir_source, repro_source
from tests.reproducers.builders import data, eager, make_case, placeholder, roll_case

LACKING = missing(target("torch-mlir:linalg").zygote)
pytestmark = pytest.mark.skipif(LACKING is not None, reason=str(LACKING))


def verdict(kind: Kind, call: int | None = None, stage: str = "") -> Verdict:
    return Verdict("any", kind, "torch-mlir:linalg", Severity.ERROR, 'said of a "case" with \\ and """quotes"""', stage, call=call)


def op(*args: object, dtype: str = "float32", shape: tuple[int, ...] = (2, 3), target: str, values: object = None) -> Case:
    x = placeholder("x0", dtype, shape)
    filled = {"x0": Fill("ordinary/1") if values is None else data(values, dtype)}
    return make_case([x, Node("node", "call_function", target, (Ref("x0"), *args))], Ref("node"), filled)


def exit_code(
    case: Case, kind: Kind, *, reference: Outcome | None = None, call: int | None = None, **options: object
) -> tuple[int | None, str]:
    source = repro_source(case, verdict(kind, call), reference or eager(case), **options)  # type: ignore[arg-type]
    run = run_source(source)
    return run.exit_code, run.output


def test_wrong_values_and_right_ones() -> None:
    code, output = exit_code(roll_case(7), Kind.VALUE)
    assert code == 1, output
    assert "BUG: torch-mlir disagrees" in output
    code, output = exit_code(roll_case(1), Kind.VALUE)
    assert code == 0, output


def test_a_lost_nan_and_a_lost_sign() -> None:
    nan = float("nan")
    case = op(0.0, 1.0, target="torch.clamp", values=[[nan, -0.0, 2], [0, 1, -3]])
    code, output = exit_code(case, Kind.SPECIAL)
    assert code == 1, output
    zeros = op(1, target="torch.mul", shape=(2,), values=[-0.0, 0.0])
    assert exit_code(zeros, Kind.SPECIAL, tolerance=Tolerance(signs=True))[0] == 0
    wrong = Outcome("eager", Status.OK, calls=(CallResult(tensor_from_array(zeros.arguments(0)["x0"].array() * -1, "float32")),))
    assert exit_code(zeros, Kind.SPECIAL, reference=wrong, tolerance=Tolerance(signs=True))[0] == 1
    assert exit_code(zeros, Kind.VALUE, reference=wrong)[0] == 0


def test_tolerances_are_the_case_s_own() -> None:
    case = op(3.0, target="torch.mul", shape=(2,), values=[1.0, 2.0])
    near = Outcome("eager", Status.OK, calls=(CallResult(tensor_from_array(case.arguments(0)["x0"].array() * 3.001, "float32")),))
    assert exit_code(case, Kind.VALUE, reference=near)[0] == 1
    assert exit_code(case, Kind.VALUE, reference=near, tolerance=Tolerance(0.01))[0] == 0


def test_a_crash_is_seen_from_outside() -> None:
    code, output = exit_code(_empty_reshape(), Kind.CRASH)
    assert code == 1, output
    assert "SIGFPE" in output
    assert exit_code(roll_case(1), Kind.CRASH)[0] == 0


def _empty_reshape() -> Case:
    x = placeholder("x0", "float32", (0, 2))
    return make_case([x, Node("r", "call_method", "reshape", (Ref("x0"), 0, 5))], Ref("r"), {"x0": data([])})


def test_a_hang_is_ended() -> None:
    case = op(0, target="torch.softmax", shape=())
    code, output = exit_code(case, Kind.TIMEOUT, timeout=15.0)
    assert code == 1, output
    assert "still running after 15 s" in output


def test_a_failing_pipeline_is_a_bug_or_a_refusal_by_its_kind() -> None:
    case = op((-1, -1, 2, -1), target="torch.nn.functional.pad", shape=(3, 4))
    code, output = exit_code(case, Kind.ERROR)
    assert code == 1, output
    assert "BUG: torch-mlir fails" in output
    code, output = exit_code(case, Kind.VALUE)
    assert code == 2, output
    assert exit_code(roll_case(1), Kind.INVALID_IR)[0] == 0


def test_where_lowering_fails_nothing_is_executed() -> None:
    pool = op((2,), target="torch.nn.functional.adaptive_max_pool1d", shape=(1, 1, 1))
    source = repro_source(pool, verdict(Kind.INVALID_IR, stage="linalg"), eager(pool))
    assert len(source.splitlines()) < 60
    assert "expected" not in source
    ran = run_source(source)
    assert ran.shows_the_bug, ran.output
    dead = run_source(repro_source(_empty_reshape(), verdict(Kind.CRASH, stage="linalg"), eager(_empty_reshape())))
    assert dead.shows_the_bug, dead.output
    fine = run_source(repro_source(roll_case(1), verdict(Kind.INVALID_IR, stage="torch-pipeline"), eager(roll_case(1))))
    assert fine.exit_code == 0, fine.output


def test_what_the_importer_refuses_cannot_be_run() -> None:
    x = placeholder("x0", "float32", ())
    item = Node("item", "call_method", "item", (Ref("x0"),))
    full = Node("full", "call_function", "torch.full", ((2,), Ref("item")))
    bools = Node("b", "call_function", "builtins.bool", (Ref("item"),))
    case = make_case([x, item, bools, full], (Ref("full"), Ref("b")), {"x0": data(1.0)})
    code, output = exit_code(case, Kind.ERROR)
    assert code == 2, output


def test_declared_types() -> None:
    case = op(3, target="torch.mul", dtype="int64", shape=(2,))
    assert exit_code(case, Kind.DECLARED_DTYPE)[0] == 0
    other = Outcome("eager", Status.OK, calls=(CallResult(tensor_from_array(case.arguments(0)["x0"].array(), "float64")),))
    code, output = exit_code(case, Kind.DECLARED_DTYPE, reference=other)
    assert code == 1, output
    assert "declares ['!torch.vtensor<[2],si64>']" in output


def test_an_error_nobody_raises() -> None:
    assert exit_code(roll_case(1), Kind.SILENT_ERROR)[0] == 0


def test_dynamic_shapes_and_the_second_binding() -> None:
    x = placeholder("x0", "float32", (Sym("s0"), 3))
    y = placeholder("y", "float32", (Sym("s0*2"),))
    nodes = [
        x,
        y,
        Node("roll_1", "call_function", "torch.roll", (Ref("x0"), 1, 0)),
        Node("add_1", "call_function", "torch.add", (Ref("y"), 1)),
    ]
    calls = [Call({"s0": n}, {"x0": Fill("ordinary/1", n), "y": Fill("exact/1", n)}) for n in (2, 5)]
    case = make_case(nodes, (Ref("roll_1"), {"y": Ref("add_1")}), calls, symbols=(Symbol("s0", 2, 9),))
    source = repro_source(case, verdict(Kind.VALUE, 1), eager(case))
    assert "torch.export.Dim.AUTO" in source
    run = run_source(source)
    assert run.exit_code == 0, run.output
    swapped = dataclasses.replace(eager(case), calls=tuple(reversed(eager(case).calls)))
    assert run_source(repro_source(case, verdict(Kind.VALUE, 1), swapped)).exit_code == 1


def test_state_inside_and_as_arguments() -> None:
    nodes = [
        placeholder("x0", "float32", (2, 3)),
        placeholder("p0", "float32", (3, 3), "parameter", order=(1, 0)),
        placeholder("b0", "uint8", (3,), "buffer"),
        Node("mm", "call_function", "torch.matmul", (Ref("x0"), Ref("p0"))),
        Node("add", "call_function", "torch.add", (Ref("b0"), 200)),
    ]
    case = make_case(
        nodes, (Ref("mm"), Ref("add")), {"x0": Fill("exact/1")}, state={"p0": Fill("exact/1", 1), "b0": data([1, 2, 50], "uint8")}
    )
    for flat in (False, True):
        code, output = exit_code(case, Kind.VALUE, flat=flat)
        assert code == 0, output


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"])
def test_every_dtype_and_rank_comes_through(dtype: str) -> None:
    shapes: tuple[tuple[int, ...], ...] = ((), (0,), (3,), (2, 1), (2, 3, 2))
    nodes = [placeholder(f"x{rank}", dtype, shape) for rank, shape in enumerate(shapes)]
    flips = [Node(f"f{rank}", "call_function", "torch.flip", (Ref(f"x{rank}"), [0] if shape else [])) for rank, shape in enumerate(shapes)]
    case = make_case([*nodes, *flips], [Ref(node.name) for node in flips], {node.name: Fill("exact/1", i) for i, node in enumerate(nodes)})
    code, output = exit_code(case, Kind.VALUE)
    assert code == 0, output


@pytest.mark.parametrize("name", ["tosa", "stablehlo"])
def test_other_lowerings_are_executed_too(name: str) -> None:
    on = f"torch-mlir:{name}"
    wrong, right = op(Ref("x0"), target="torch.add", dtype="bool", shape=(1,), values=[True]), op(1.0, target="torch.add")
    for case, code in ((wrong, 1), (right, 0)):
        source = repro_source(case, dataclasses.replace(verdict(Kind.VALUE), target=on), eager(case))
        ran = run_source(source)
        assert ran.exit_code == code, ran.output
    lost = repro_source(wrong, dataclasses.replace(verdict(Kind.ERROR, stage=f"{name}-to-linalg"), target=on), eager(wrong))
    assert "execution_engine" not in lost
    assert run_source(lost).exit_code == 0
    assert "to_linalg" not in repro_source(wrong, dataclasses.replace(verdict(Kind.ERROR, stage=name), target=on), eager(wrong))


def test_options_of_a_target_go_to_export_and_import_or_nowhere() -> None:
    case = op(1.0, target="torch.add")
    on = "torch-mlir:linalg?legal-ops=aten.adaptive_max_pool2d"
    source = repro_source(case, dataclasses.replace(verdict(Kind.VALUE), target=on), eager(case))
    assert 'backend_legal_ops=["aten.adaptive_max_pool2d"]' in source
    assert run_source(source).exit_code == 0
    with pytest.raises(Unsupported, match="extra is no option of export_and_import"):
        repro_source(case, dataclasses.replace(verdict(Kind.VALUE), target="torch-mlir:linalg?extra=cse"), eager(case))


def test_inferred_types() -> None:
    on = "torch-mlir:inference"
    case = op(1.0, target="torch.add")
    wrong = Outcome("eager", Status.OK, calls=(CallResult(tensor_from_array(case.arguments(0)["x0"].array()[:1], "float32")),))
    for reference, code in ((eager(case), 0), (wrong, 1)):
        ran = run_source(repro_source(case, dataclasses.replace(verdict(Kind.DECLARED_SHAPE), target=on), reference))
        assert ran.exit_code == code, ran.output
    broken = op(target="torch.squeeze", shape=(2,))
    ran = run_source(repro_source(broken, dataclasses.replace(verdict(Kind.INVALID_IR, stage="inference"), target=on), eager(broken)))
    assert ran.shows_the_bug, ran.output


def test_without_torch_mlir_it_cannot_run() -> None:
    source = repro_source(roll_case(7), verdict(Kind.VALUE), eager(roll_case(7)))
    try:
        python = oneflow_python().python
    except TargetUnavailable as unavailable:
        pytest.skip(str(unavailable))
    run = run_source(source, python=python)
    assert run.exit_code == 2
    assert "cannot run: No module named 'torch'" in run.output


def test_mlir_for_torch_mlir_opt(tmp_path: Path) -> None:
    ir = "func.func @main(%arg0: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> {\n  return %arg0 : !torch.vtensor<[2],f32>\n}"
    pipeline = "builtin.module(torch-backend-to-linalg-on-tensors-backend-pipeline)"
    outcome = Outcome("torch-mlir:linalg", Status.ERROR, "linalg", artifacts={"input.mlir": ir, "pipeline": pipeline})
    text = mlir_source(outcome)
    assert text is not None
    first, _, _ = text.partition("\n")
    assert first == f"// RUN: torch-mlir-opt -pass-pipeline='{pipeline}' %s"
    file = tmp_path / "repro.mlir"
    file.write_text(text)
    command = first.removeprefix("// RUN: ").replace("%s", str(file))
    assert subprocess.run(command, shell=True, capture_output=True, check=False, env=_path_of_torch_mlir_opt()).returncode == 0
    assert mlir_source(Outcome("torch-mlir:linalg", Status.ERROR)) is None


def _path_of_torch_mlir_opt() -> dict[str, str]:
    return dict(os.environ, PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
