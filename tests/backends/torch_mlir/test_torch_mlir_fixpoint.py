from __future__ import annotations

import dataclasses
import warnings

import pytest

from harness.backends.eager import EagerBackend
from harness.backends.torch_mlir.backend import toolchain
from harness.backends.torch_mlir.fixpoint import Follower, Limits, PassRunner
from harness.backends.torch_mlir.following import FixpointBackend, follow_case
from harness.backends.torch_mlir.importing import import_case
from harness.backends.torch_mlir.passes import pipeline
from harness.backends.torch_mlir.torch_dialect.meaning import Meanings
from harness.backends.torch_mlir.warmup import SILENT
from harness.errors import UsageError
from harness.model.case import Case
from harness.model.codec import from_wire, to_wire
from harness.model.outcome import Job, Outcome, Status
from harness.model.story import Ending, FixpointStory
from harness.model.verdict import Kind, Verdict
from oracles import judge
from tests.backends.torch_mlir.programs import S0, F, one, symbolic
from tests.doubles.planted import DAMAGES, VICTIM, PlantedRunner

SIN = one("torch.sin", (2, 3))


def follow(case: Case, *, damage: str = "", want: tuple[str, ...] = (), **options: object) -> Outcome:
    runner = PassRunner(toolchain())
    planted: PassRunner = PlantedRunner(runner, damage) if damage else runner  # type: ignore[assignment]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return follow_case(
            case, Job(b"", "torch-mlir:fixpoint", want=want, options=options), SILENT, runner=planted, limits=Limits(iterations=4)
        )


def verdicts(case: Case, outcome: Outcome) -> tuple[Verdict, ...]:
    reference = EagerBackend().run(case, Job(b"", "eager", want=("trace", "twin", "spread")), SILENT)
    assert reference.status is Status.OK
    return judge(case, reference, outcome)


EXPECTED = {
    "wrong-constant": Kind.VALUE,
    "wrong-operator": Kind.VALUE,
    "dropped-op": Kind.VALUE,
    "unexecutable": Kind.UNEXECUTABLE,
    "wrong-shape": Kind.DECLARED_SHAPE,
    "wrong-dtype": Kind.DECLARED_DTYPE,
    "less-precise": Kind.DECLARED_SHAPE,
    "growth": Kind.BLOW_UP,
    "no-convergence": Kind.NO_CONVERGENCE,
    "silent-error": Kind.SILENT_ERROR,
    "failure": Kind.ERROR,
    "invalid-ir": Kind.INVALID_IR,
    "cycle": Kind.NO_CONVERGENCE,
}


LATER = {"no-convergence": 4, "cycle": 2}  # the iteration in which it shows


# What refinement makes good within the iteration is no fault.
PLANTED = [
    (damage, name) for name in ("fx", "simplification") for damage in DAMAGES if (damage, name) != ("less-precise", "simplification")
]


@pytest.mark.parametrize(("damage", "name"), PLANTED)
def test_a_planted_fault_is_found_and_its_pass_named(damage: str, name: str) -> None:
    outcome = follow(SIN, damage=damage, route="raw", pipeline=name)
    assert outcome.status is Status.OK
    found = verdicts(SIN, outcome)
    assert [(verdict.kind, verdict.stage) for verdict in found] == [(EXPECTED[damage], VICTIM)]
    guilty = found[0].detail["guilty"]
    assert (guilty["pass"], guilty["iteration"], guilty["shown_by"]) == (VICTIM, LATER.get(damage, 1), [f"{name} (raw)"])
    assert f"ir/{guilty['before']}" in outcome.artifacts
    assert "torch.aten.sin" in outcome.artifacts[f"ir/{guilty['before']}"]


def test_nothing_planted_nothing_found() -> None:
    outcome = follow(SIN)
    assert verdicts(SIN, outcome) == ()
    assert {(story.route, story.pipeline) for story in outcome.stories} == {
        (route, name) for route in ("raw", "decomposed") for name in ("fx", "simplification")
    }
    assert all(story.ending is Ending.FIXPOINT and story.contract == "" for story in outcome.stories)
    assert not any(name.startswith("ir/") for name in outcome.artifacts)


def test_a_wrong_value_names_the_operation_and_shows_both_values() -> None:
    (verdict,) = verdicts(SIN, follow(SIN, damage="wrong-operator", route="raw", pipeline="fx"))
    guilty = verdict.detail["guilty"]
    assert (guilty["op"], guilty["node"]) == ("torch.aten.sin", "sin_1")
    assert guilty["expected"] != guilty["actual"]


def test_a_pass_that_takes_long_is_named() -> None:
    runner: PassRunner = PlantedRunner(PassRunner(toolchain()), "slow")  # type: ignore[assignment]
    imported = import_case(SIN, toolchain(), route="raw", call=0, dynamic=False)
    follower = Follower(toolchain(), limits=Limits(seconds=0.1), runner=runner)
    story = follower.follow(imported, pipeline("fx"), Meanings(SIN, imported, (0,)), calls=(0,))
    (verdict,) = verdicts(SIN, Outcome("torch-mlir:fixpoint", Status.OK, stories=(story,)))
    assert (verdict.kind, verdict.stage) == (Kind.BLOW_UP, VICTIM)


def test_the_roll_that_forgets_the_dims_size_goes_wrong_in_its_decomposition() -> None:
    case = one("torch.roll", (2, 3), args=(7, 1))
    outcome = follow(case)
    (verdict,) = verdicts(case, outcome)
    assert (verdict.kind, verdict.stage, verdict.oracle) == (Kind.VALUE, "torch-decompose-complex-ops", "pipeline")
    assert len(verdict.detail["guilty"]["shown_by"]) == 4
    assert from_wire(Outcome, to_wire(outcome)) == outcome


def story_of(outcome: Outcome, route: str, name: str) -> FixpointStory:
    return next(story for story in outcome.stories if (story.route, story.pipeline) == (route, name))


def test_a_story_tells_what_each_pass_did() -> None:
    outcome = follow(one(F + "linear", (2, 3), (4, 3)), want=("ir",), route="raw")
    story = story_of(outcome, "raw", "fx")
    assert [step.name for step in story.steps[:4]] == ["import", "torch-match-quantized-custom-ops", "inline", "torch-reduce-op-variants"]
    decompose = next(step for step in story.steps if step.name == "torch-decompose-complex-ops")
    assert (decompose.changed, decompose.iteration, decompose.added > 0) == (True, 1, True)
    assert decompose.types == {"main": "(!torch.vtensor<[2,3],f32>, !torch.vtensor<[4,3],f32>) -> !torch.vtensor<[2,4],f32>"}
    assert "torch.aten.t " in outcome.artifacts["input.mlir"]
    assert "torch.aten.t " not in outcome.artifacts[f"ir/{story.steps[-1].digest}"]
    assert story.iterations == 2  # the second finds nothing to change
    assert all(step.reused for step in story.steps if step.iteration == 2 and step.digest == story.steps[-1].digest and not step.seconds)


def test_sizes_stay_symbolic_and_every_call_is_run() -> None:
    case = symbolic(F + "softmax", (S0, 3), sizes=(2, 5), dim=1)
    outcome = follow(case)
    assert all(story.dynamic and story.calls == (0, 1) for story in outcome.stories)
    assert all(len(answers) == 2 for story in outcome.stories for answers in story.results)
    assert verdicts(case, outcome) == ()
    static = follow(case, dynamic=False, route="raw")
    assert all(not story.dynamic and story.calls == (0,) for story in static.stories)
    assert verdicts(case, static) == ()


def test_a_refusal_is_no_finding() -> None:
    case = one("torch.hypot", (2, 3), (2, 3))
    outcome = follow(case, route="raw")
    assert (outcome.status, outcome.stage) == (Status.UNSUPPORTED, "torch-reduce-op-variants")
    assert "torch.aten.hypot" in outcome.message
    assert verdicts(case, outcome) == ()


def test_a_silent_error_of_torch_mlirs_own() -> None:
    case = one("torch.roll", (2, 3), args=(3,))
    (verdict,) = verdicts(case, follow(case))
    assert (verdict.kind, verdict.stage) == (Kind.SILENT_ERROR, "torch-decompose-complex-ops")
    assert "list sizes of shifts and dims are not the same" in verdict.message


def test_what_the_import_itself_declares_wrongly_is_not_a_passs_fault() -> None:
    module = toolchain().parse(
        """
        module { func.func @main(%arg0: !torch.vtensor<[2,3],f32>) -> !torch.vtensor<[2,3],f32> {
          %0 = torch.aten.relu %arg0 : !torch.vtensor<[2,3],f32> -> !torch.vtensor<[0],f32>
          %1 = torch.aten.sin %arg0 : !torch.vtensor<[2,3],f32> -> !torch.vtensor<[2,3],f32>
          return %1 : !torch.vtensor<[2,3],f32>
        } }
        """
    )
    imported = dataclasses.replace(import_case(SIN, toolchain(), route="raw", call=0, dynamic=False), module=module)
    story = Follower(toolchain()).follow(imported, pipeline("fx"), Meanings(SIN, imported, (0,)), calls=(0,))
    assert story.ending is Ending.FIXPOINT
    assert not any(step.faults for step in story.steps)


@pytest.mark.parametrize(("option", "value"), [("route", "fast"), ("pipeline", "linalg")])
def test_options_are_checked(option: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"{option} '{value}' is none of"):
        follow(SIN, **{option: value})


def test_the_backend_warms_itself_and_runs() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = FixpointBackend().run(SIN, Job(b"", "torch-mlir:fixpoint", options={"route": "export", "pipeline": "fx"}), SILENT)
    assert outcome.status is Status.OK
    assert [story.route for story in outcome.stories] == ["export"]
