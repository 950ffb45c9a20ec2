"""Writes to inputs on the users' route: the new contents come back beside the outputs, not in their place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.model.case import Case
from harness.model.outcome import Outcome, Status
from tests.backends.torch_mlir.programs import Draft


def written(role: str) -> Case:
    draft = Draft()
    x, y = draft.tensor("float32", (3, 5), role=role), draft.tensor("float32", (5, 3))
    view = draft.call("torch.permute", x, (1, 0))
    return draft.case((draft.call("add_", view, y), draft.call("torch.relu", y)))


@pytest.mark.parametrize("route", ["decomposed", "export"])
def test_a_write_through_a_view_reaches_the_input_and_the_outputs_keep_their_places(
    route: str, run: Callable[..., Outcome], eager: Callable[[Case], Outcome]
) -> None:
    case = written("input")
    outcome, reference = run(case, route=route), eager(case)
    assert outcome.calls == reference.calls
    assert set(outcome.calls[0].mutated) == {"i0"}


def test_a_write_to_a_buffer_is_refused_on_the_users_route(run: Callable[..., Outcome]) -> None:
    outcome = run(written("buffer"), route="export")
    assert outcome.status is Status.UNSUPPORTED
    assert "writes to its buffers" in outcome.message
