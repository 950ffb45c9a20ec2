"""Modules with state, programs that write, and what is handed back of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from harness.model.case import Call, Case
from harness.model.fill import Fill
from harness.model.outcome import Outcome, Status
from harness.model.program import ModuleRecipe, Node, Program, TensorSpec
from harness.model.values import Ref, Tensor, leaves
from tests.backends.torch_mlir.programs import Draft


def module_case(cls: str, args: tuple[object, ...], shape: Sequence[int], *, training: bool = False, dtype: str = "float32") -> Case:
    """One module on one input; variances and counters are positive."""
    import torch

    made = getattr(torch.nn, cls)(*args)
    tensors = {**dict(made.named_parameters()), **dict(made.named_buffers())}
    specs = {name: TensorSpec(str(t.dtype).removeprefix("torch."), tuple(t.shape)) for name, t in tensors.items()}
    fills = {f"m0.{name}": Fill("integers/1", 1, 1, 3) if "var" in name or "num" in name else Fill("exact/1", 5) for name in specs}
    nodes = (
        Node("x0", "placeholder", "x0", role="input", spec=TensorSpec(dtype, tuple(shape))),
        Node("m_1", "call_module", "m0", (Ref("x0"),)),
        Node("output", "output", "output", (Ref("m_1"),)),
    )
    recipe = ModuleRecipe(f"torch.nn.{cls}", args, {}, training, specs)
    return Case(
        Program(nodes, {"m0": recipe}), (Call({}, {"x0": Fill("integers/1", 2, 0, 4) if dtype == "int64" else Fill("exact/1")}),), (), fills
    )


MODULES = {
    "Linear": module_case("Linear", (3, 4), (2, 3)),
    "Conv2d": module_case("Conv2d", (2, 3, 3), (1, 2, 5, 5)),
    "BatchNorm2d": module_case("BatchNorm2d", (3,), (2, 3, 2, 2)),
    "BatchNorm1d_training": module_case("BatchNorm1d", (3,), (4, 3), training=True),
    "GroupNorm": module_case("GroupNorm", (1, 2), (1, 2, 3)),
    "Embedding": module_case("Embedding", (5, 3), (2,), dtype="int64"),
    "PReLU": module_case("PReLU", (), (2, 3)),
    "GRU": module_case("GRU", (3, 4), (2, 3)),
    "LSTM": module_case("LSTM", (3, 4), (2, 1, 3)),
}


def near(actual: Outcome, expected: Outcome) -> None:
    assert actual.status is Status.OK, actual.message
    for mine, theirs in zip(actual.calls, expected.calls, strict=True):
        assert mine.mutated.keys() == theirs.mutated.keys()
        found = [*leaves(mine.output), *sorted(mine.mutated.items())]
        wanted = [*leaves(theirs.output), *sorted(theirs.mutated.items())]
        for (path, a), (expected_path, b) in zip(found, wanted, strict=True):
            assert isinstance(a, Tensor) and isinstance(b, Tensor)
            assert (path, a.dtype, a.shape) == (expected_path, b.dtype, b.shape)
            np.testing.assert_allclose(a.array(), b.array(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_runs_with_its_state_as_arguments(name: str, run: Callable[..., Outcome], eager: Callable[[Case], Outcome]) -> None:
    near(run(MODULES[name]), eager(MODULES[name]))


def test_training_reports_the_statistics_that_it_updates(run: Callable[..., Outcome]) -> None:
    mutated = run(MODULES["BatchNorm1d_training"]).calls[0].mutated
    assert set(mutated) == {"m0.running_mean", "m0.running_var", "m0.num_batches_tracked"}


def test_a_written_input_is_reported_with_its_new_contents(run: Callable[..., Outcome], eager: Callable[[Case], Outcome]) -> None:
    draft = Draft()
    x = draft.tensor("float32", (2, 3))
    written = draft.call("add_", draft.call("view", x, 6), 1.0)
    case = draft.case((draft.call("torch.mul", written, 2.0), x))
    outcome = run(case)
    assert outcome.calls == eager(case).calls
    assert set(outcome.calls[0].mutated) == {"i0"}
    assert outcome.artifacts["route"] == "decomposed+functionalized"


def test_a_write_through_a_view_of_an_intermediate_is_seen_in_its_base(
    run: Callable[..., Outcome], eager: Callable[[Case], Outcome]
) -> None:
    draft = Draft()
    base = draft.call("torch.relu", draft.tensor("float32", (2, 3)))
    draft.call("add_", draft.call("operator.getitem", base, 0), 1.0)
    draft.call("operator.setitem", base, 1, 4.0)
    case = draft.case(draft.call("torch.mul", base, 2.0))
    assert run(case).calls == eager(case).calls


def test_an_unchanged_input_is_not_reported_as_written(run: Callable[..., Outcome], eager: Callable[[Case], Outcome]) -> None:
    draft = Draft()
    x = draft.tensor("float32", (2, 3))
    case = draft.case(draft.call("mul_", x, 1.0))
    assert run(case).calls[0].mutated == {} == eager(case).calls[0].mutated


def test_writing_to_inputs_that_share_storage_is_an_import_problem(run: Callable[..., Outcome]) -> None:
    draft = Draft()
    x = draft.tensor("float32", (2, 3), storage="s")
    y = draft.tensor("float32", (3, 2), storage="s")
    outcome = run(draft.case((draft.call("add_", x, 1.0), y)))
    assert (outcome.status, outcome.stage) == (Status.UNSUPPORTED, "import")
    assert outcome.message.startswith("import:")
