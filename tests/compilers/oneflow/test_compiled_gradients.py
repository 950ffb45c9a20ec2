from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

from harness.compilers.oneflow.worker import WORKERS
from tests.compilers.oneflow.helpers import check, compiled, equal, loss, needs_oneflow, placed, train

pytestmark = needs_oneflow


def net() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(2, 3, 3, bias=False), torch.nn.BatchNorm2d(3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(12, 2)
    )


def test_gradients_equal_eagers() -> None:
    check(lambda x, w: (torch.tanh(x @ w) * x.sum(), w.exp()), torch.randn(3, 3), torch.randn(3, 3))
    assert placed().share == 1.0


def test_parameters_follow_what_torch_does_to_them() -> None:
    layer = torch.nn.Linear(3, 2)
    function, x = compiled(layer), torch.randn(4, 3)
    function(x)
    with torch.no_grad():
        layer.weight.mul_(2)
    equal(function(x), layer(x))
    layer.bias.data.fill_(7)  # behind the version counter's back
    equal(function(x), layer(x))
    layer.load_state_dict(torch.nn.Linear(3, 2).state_dict())
    equal(function(x), layer(x))


def test_training_updates_statistics_once_for_each_step() -> None:
    module = net()
    versions = [buffer._version for buffer in module.buffers()]
    train(module, (torch.randn(4, 2, 4, 4),))
    assert [buffer._version - before for buffer, before in zip(module.buffers(), versions, strict=True)] == [3, 3, 3]
    assert int(module[1].num_batches_tracked) == 3
    assert placed().share == 1.0


def test_a_second_backward_pass_updates_nothing_and_draws_nothing() -> None:
    module = torch.nn.Sequential(net(), torch.nn.Dropout(0.5))
    twin = copy.deepcopy(module)
    x = torch.randn(4, 2, 4, 4)
    torch.manual_seed(3)
    actual = compiled(module)(x)
    torch.manual_seed(3)
    expected = twin(x)
    equal(actual, expected, rtol=1e-4, atol=1e-5)  # one generator, torch's, so one mask
    before = copy.deepcopy(dict(module.named_buffers()))
    state = torch.get_rng_state()
    for output in (actual, expected):
        loss(output).backward(retain_graph=True)
        loss(output).backward()
    equal(dict(module.named_buffers()), before)
    assert torch.equal(torch.get_rng_state(), state)
    equal([p.grad for p in module.parameters()], [p.grad for p in twin.parameters()], rtol=1e-3, atol=1e-4)


def test_what_needs_no_gradient_gets_none() -> None:
    module = net()
    module[0].weight.requires_grad_(False)
    x = torch.randn(4, 2, 4, 4)
    loss(compiled(module)(x)).backward()
    assert module[0].weight.grad is None and module[4].weight.grad is not None and x.grad is None
    assert all(buffer.grad is None for buffer in module.buffers())
    with torch.no_grad():
        assert not compiled(module)(x).requires_grad
    with torch.inference_mode():
        assert not compiled(module)(x).requires_grad


def test_an_unused_input_has_no_gradient_and_a_part_of_the_outputs_will_do() -> None:
    x, y = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    first, second = compiled(lambda x, y: (x * 2, y * 3))(x, y)
    first.sum().backward()
    assert y.grad is None
    equal(x.grad, torch.full((3,), 2.0))
    second.sum().backward()
    equal(y.grad, torch.full((3,), 3.0))


def test_inputs_that_the_graph_writes_to_are_written_once() -> None:
    def function(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        total.add_(x.sum())
        return torch.relu(x) + total

    check(function, torch.randn(3), torch.zeros(()), grad=False)
    assert placed().share == 1.0
    total = torch.zeros(())
    compiled(function)(torch.ones(3), total)
    assert total == 3 and total._version == 1


@pytest.mark.parametrize("dynamic", [False, True])
def test_views_of_what_is_written_see_it(dynamic: bool) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = torch.relu(x)
        row = z[0]
        row += 1
        w = z * 2
        y[1:].mul_(2)
        return w, z, y.sum(), x.view(-1)

    check(function, torch.randn(2, 3), torch.randn(3), grad=False, dynamic=dynamic)


def test_an_output_that_is_a_view_of_an_input_stays_one() -> None:
    x = torch.randn(2, 3)
    view, relu = compiled(lambda x: (x.view(-1), torch.relu(x)))(x)
    view.zero_()
    assert not x.any() and relu.any()


def test_two_outputs_over_one_memory_stay_so() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(x)
        return y, y.view(-1)

    first, second = compiled(function)(torch.ones(2, 2))
    second.zero_()
    assert not first.any()


def test_gradient_mode_is_kept_inside_the_graph() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            scale = torch.sigmoid(x)
        return torch.tanh(x) * scale, scale

    check(function, torch.randn(4))


def test_layouts_that_torch_goes_on_with_are_kept() -> None:
    x = torch.randn(2, 3, 4)
    actual = compiled(lambda x: torch.relu(x).transpose(0, 2))(x)
    assert actual.stride() == torch.relu(x).transpose(0, 2).stride()


def test_what_oneflow_keeps_for_a_backward_pass_is_given_back() -> None:
    worker = WORKERS.current()
    function, x = compiled(lambda x: F.relu(x) * 2), torch.randn(3, requires_grad=True)
    for _ in range(3):
        function(x).sum().backward()
    assert len(worker._dropped["dropped calls"]) == 1  # the others were told on the way, and none waits for a garbage collection


def test_a_second_derivative_is_refused() -> None:
    x = torch.randn(3, requires_grad=True)
    (grad,) = torch.autograd.grad(compiled(lambda x: torch.tanh(x))(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()
