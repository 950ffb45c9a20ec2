"""TOSA and StableHLO beside linalg: executed, static and dynamic; what they refuse; and votes by one worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.backends.protocol import target
from harness.backends.torch_mlir.configuration import Configuration
from harness.backends.torch_mlir.lowerings import LINALG, LOWERINGS, TOSA, lowering_of
from harness.errors import UnknownName, UsageError
from harness.model.case import Case
from harness.model.outcome import Outcome, Status
from oracles import judge
from tests.backends.torch_mlir.programs import S0, Draft, F, one, symbolic

Run = Callable[..., Outcome]
EVERY = pytest.mark.parametrize("lowering", LOWERINGS)


def agrees(case: Case, run: Run, eager: Callable[[Case], Outcome], **options: Any) -> Outcome:
    outcome = run(case, **options)
    assert (outcome.status, outcome.message) == (Status.OK, "")
    assert judge(case, eager(case), outcome) == ()
    return outcome


@EVERY
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64", "int32", "bool"])
def test_every_lowering_runs_every_dtype(lowering: str, dtype: str, run: Run, eager: Callable[[Case], Outcome]) -> None:
    case = one("torch.logical_not", (2, 3), dtype=dtype) if dtype == "bool" else one("torch.add", (2, 3), (3,), dtype=dtype)
    agrees(case, run, eager, lowering=lowering)


@EVERY
def test_parameters_and_several_results(lowering: str, run: Run, eager: Callable[[Case], Outcome]) -> None:
    draft = Draft()
    x = draft.tensor("float32", (1, 2, 5, 5))
    weight = draft.tensor("float32", (3, 2, 3, 3), role="parameter")
    y = draft.call(F + "conv2d", x, weight)
    case = draft.case((y, draft.call("torch.relu", y)))
    agrees(case, run, eager, lowering=lowering)


@EVERY
def test_sizes_stay_dynamic(lowering: str, run: Run, eager: Callable[[Case], Outcome]) -> None:
    outcome = agrees(symbolic("torch.add", (S0, 3), args=(1.0,)), run, eager, lowering=lowering)
    assert outcome.artifacts["route"].endswith("+dynamic")


def test_what_is_not_executed_dynamically_is_executed_size_by_size(run: Run, eager: Callable[[Case], Outcome]) -> None:
    outcome = agrees(symbolic("torch.softmax", (S0, 3), args=(1,)), run, eager, lowering="stablehlo")
    assert not outcome.artifacts["route"].endswith("+dynamic")
    assert "stablehlo.dynamic_broadcast_in_dim" in outcome.artifacts["other_routes"]


def test_what_executes_stablehlo_refuses_by_name(run: Run) -> None:
    outcome = run(one("torch.sort", (3,)), lowering="stablehlo")
    assert (outcome.status, outcome.stage, outcome.node) == (Status.UNSUPPORTED, "stablehlo-to-linalg", "sort_1")
    assert "stablehlo.sort" in outcome.message


def test_a_refusal_of_tosa_names_the_operator(run: Run) -> None:
    outcome = run(one("torch.cumprod", (2, 3), args=(0,)), lowering="tosa")
    assert (outcome.status, outcome.stage, outcome.node) == (Status.UNSUPPORTED, "tosa", "cumprod_1")
    assert outcome.message.startswith("torch.aten.cumprod: ")
    assert outcome.artifacts["pipeline"].endswith("torch-backend-to-tosa-backend-pipeline)")


def test_each_stage_leaves_its_ir(run: Run) -> None:
    outcome = run(one("torch.relu", (2, 3)), want=("ir",), lowering="tosa")
    assert "torch.aten.relu" in outcome.artifacts["torch.mlir"]
    assert "tosa.clamp" in outcome.artifacts["tosa.mlir"]
    assert "tosa.clamp" not in outcome.artifacts["tosa-to-linalg.mlir"]
    stopped = run(one("torch.relu", (2, 3)), lowering="tosa", until="tosa")
    assert (stopped.status, stopped.stage) == (Status.INCONCLUSIVE, "tosa")
    with pytest.raises(UsageError, match="until 'linalg' is none of"):
        run(one("torch.relu", (2, 3)), lowering="tosa", until="linalg")
    with pytest.raises(UsageError, match="lowering 'gpu' is none of"):
        run(one("torch.relu", (2, 3)), lowering="gpu")


def test_lowerings_disagree_where_not_all_are_wrong(run: Run, eager: Callable[[Case], Outcome]) -> None:
    case = one(F + "pad", (3,), args=((-1, 1),))
    answers = {name: judge(case, eager(case), run(case, lowering=name)) for name in LOWERINGS}
    assert [name for name, verdicts in answers.items() if verdicts] == ["linalg", "tosa"]


@pytest.mark.parametrize(
    "options",
    [{"extra": "canonicalize,cse"}, {"runtime-verification": "on"}, {"legal-ops": "aten.adaptive_max_pool2d"}],
    ids=lambda options: next(iter(options)),
)
@EVERY
def test_configurations_change_no_result(lowering: str, options: dict[str, str], run: Run, eager: Callable[[Case], Outcome]) -> None:
    agrees(one("torch.softmax", (2, 3), args=(1,)), run, eager, lowering=lowering, **options)


def test_a_configuration_is_in_the_pipeline() -> None:
    stages = dict(Configuration.of({"extra": "cse", "legal-ops": "aten.a,aten.b"}).pipelines(TOSA))
    assert list(stages) == ["torch-pipeline", "tosa", "tosa-to-linalg"]
    assert stages["torch-pipeline"].endswith("torchdynamo-export-to-torch-backend-pipeline{backend-legal-ops=aten.a,aten.b},cse")
    assert all(text.endswith(",cse") for text in stages.values())
    plain, verified = Configuration(), Configuration.of({"runtime-verification": "on"})
    for text in ("linalg.generic", None):
        more = [each for each in verified.llvm_passes(text) if each not in plain.llvm_passes(text)]
        assert more == ["generate-runtime-verification"]
    with pytest.raises(UsageError, match="only canonicalize and cse may run anywhere"):
        Configuration.of({"extra": "inline"})
    with pytest.raises(UsageError, match="neither on nor off"):
        Configuration.of({"runtime-verification": "yes"})


def test_options_follow_a_target_s_name() -> None:
    spec = target("torch-mlir:tosa?runtime-verification=on&extra=cse")
    assert (spec.name, spec.default) == ("torch-mlir:tosa?extra=cse&runtime-verification=on", False)
    assert spec.options == {"extra": "cse", "runtime-verification": "on"}
    assert target(spec.name) == spec
    assert lowering_of(spec.name) is TOSA
    assert lowering_of("torch-mlir:linalg") is LINALG
    with pytest.raises(UnknownName, match="unknown option of torch-mlir:tosa 'extras': did you mean extra"):
        target("torch-mlir:tosa?extras=cse")
    with pytest.raises(UsageError, match="needs a value"):
        target("torch-mlir:tosa?extra=")
    with pytest.raises(UnknownName, match="option of eager"):
        target("eager?extra=cse")
