from __future__ import annotations

import pytest
import torch

from harness.compilers.oneflow import NotInOneFlow, placements
from tests.compilers.oneflow.helpers import check, compiled, equal, needs_oneflow, placed

pytestmark = needs_oneflow


def mixed(x: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x)
    z = torch.logcumsumexp(y, 0)  # OneFlow has none
    return torch.bitwise_not(x > 0) * torch.sigmoid(z) + y


def test_what_oneflow_lacks_runs_in_torch_and_the_rest_in_oneflow() -> None:
    check(mixed, torch.randn(4, 3))
    found = placed()
    assert {name: reason.kind for name, reason in found.torch.items()} == {"z": "missing", "bitwise_not": "missing"}
    assert set(found.oneflow) >= {"y", "gt", "sigmoid"} and found.trips == 2


def test_fullgraph_raises_with_the_list_instead() -> None:
    with pytest.raises(Exception, match=r"NotInOneFlow: OneFlow does not do 2 nodes(.|\n)*z: missing(.|\n)*bitwise_not: missing"):
        compiled(mixed, fullgraph=True)(torch.randn(4, 3))


def test_the_option_partial_says_the_same_where_graphs_may_break() -> None:
    with pytest.raises(Exception, match="NotInOneFlow"):
        compiled(mixed, options={"partial": False})(torch.randn(4, 3))


def test_fullgraph_takes_what_torch_does_by_design() -> None:
    function = compiled(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.5)), fullgraph=True)
    assert function(torch.randn(2, 3)).shape == (2, 3)
    assert [reason.kind for reason in placed().torch.values() if reason.kind != "number"] == ["random"]


def test_what_oneflow_refuses_only_when_it_runs_goes_to_torch_too() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x.half()) * 2

    check(function, torch.randn(5), grad=False)
    assert placed().torch["relu"].kind == "no-cpu-kernel"
    torch._dynamo.reset()  # or it would run what it has
    with pytest.raises(NotInOneFlow, match="relu: no-cpu-kernel"):
        compiled(function, fullgraph=True)(torch.randn(5))


def test_a_refusal_in_the_middle_repeats_no_side_effect() -> None:
    def function(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        count.add_(1)
        noise = torch.rand(3)
        y = torch.logcumsumexp(torch.relu(x) * noise, 0)
        return torch.relu(y.half()) + count  # relu of float16 has no kernel

    count = torch.zeros(())
    torch.manual_seed(5)
    actual = compiled(function)(torch.ones(3), count)
    torch.manual_seed(5)
    equal(actual, function(torch.ones(3), torch.zeros(())), rtol=1e-2, atol=1e-2)
    assert count == 1


def test_what_has_no_derivative_in_oneflow_goes_to_torch_before_it_is_too_late() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.index_add(torch.relu(x), 0, torch.tensor([0, 2]), y) * 2

    check(function, torch.randn(3, 2), torch.randn(2, 2))
    assert placed().torch["index_add"].kind == "refused"
    assert set(placed().oneflow) >= {"relu", "mul"}


def test_a_tensor_from_nothing_is_made_in_oneflow() -> None:
    check(lambda x: (torch.arange(6), torch.relu(x)), torch.randn(2))
    assert placed().share == 1.0


def test_several_shapes_for_one_model() -> None:
    function = compiled(lambda x: torch.relu(x).view(x.size(0), -1) * x.shape[1], dynamic=True)
    for rows, columns in ((2, 3), (5, 4), (7, 2)):
        x = torch.randn(rows, columns)
        equal(function(x), torch.relu(x).view(rows, -1) * columns)
    assert len(placements()) == 1 and placed().share == 1.0


def test_static_shapes_compile_anew() -> None:
    function = compiled(lambda x: torch.relu(x) + 1, dynamic=False)
    for rows in (2, 3):
        equal(function(torch.ones(rows)), torch.full((rows,), 2.0))
    assert len(placements()) == 2


def test_code_that_depends_on_data_breaks_the_graph_and_works() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x)
        if y.sum() > 1:
            return y * 2
        return y - 1

    for value in (0.0, 4.0):
        x = torch.full((3,), value)
        equal(compiled(function)(x), function(x))
    assert len(placements()) >= 2


def test_options_are_checked() -> None:
    with pytest.raises(Exception, match=r"parital.*did you mean partial"):
        compiled(mixed, options={"parital": False})(torch.randn(4, 3))
    with pytest.raises(Exception, match="deadline"):
        compiled(mixed, options={"deadline": 0})(torch.randn(4, 3))
    with pytest.raises(Exception, match="no mode 'max-autotune'"):
        compiled(mixed, mode="max-autotune")(torch.randn(4, 3))


def test_autocast_and_torch_func_stay_in_torch() -> None:
    x = torch.randn(3, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        actual = compiled(lambda x: torch.relu(x @ x))(x)
        assert actual.dtype == torch.bfloat16
    assert not placed().oneflow
    gradient = compiled(torch.func.grad(lambda x: torch.tanh(x).sum()))(x)
    equal(gradient, 1 - torch.tanh(x) ** 2, rtol=1e-4, atol=1e-5)
