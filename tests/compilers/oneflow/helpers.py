"""A model compiled for OneFlow beside its eager twin."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from harness.compilers.oneflow import Placed, placements
from harness.environments.availability import missing

needs_oneflow = pytest.mark.skipif(missing("oneflow") is not None, reason=str(missing("oneflow") or ""))

Function = Callable[..., Any]


def compiled(function: Function, **how: Any) -> Function:
    """`function` for OneFlow."""
    return torch.compile(function, backend="oneflow", **how)


def tensors(value: Any) -> list[torch.Tensor]:
    """Every tensor of a nested value, each of which must be torch's own."""
    found = [leaf for leaf in pytree.tree_leaves(value) if leaf is not None and not isinstance(leaf, bool | int | float | str)]
    assert all(type(leaf) in (torch.Tensor, torch.nn.Parameter) for leaf in found), [type(leaf) for leaf in found]
    return found


def equal(actual: Any, expected: Any, **tolerance: float) -> None:
    """The same structure, shapes, dtypes, and values within tolerance."""
    assert pytree.tree_structure(actual) == pytree.tree_structure(expected)
    torch.testing.assert_close(tensors(actual), tensors(expected), **tolerance)


def placed() -> Placed:
    """Where the nodes of the one graph run that was compiled."""
    (found,) = placements()
    return found


def loss(output: Any) -> torch.Tensor:
    """A fixed sum over everything that has a gradient."""
    terms = [
        (leaf * torch.arange(leaf.numel()).view(leaf.shape).remainder(7).sub(3)).sum() for leaf in tensors(output) if leaf.requires_grad
    ]
    return torch.stack(terms).sum()


def check(function: Function, *inputs: Any, grad: bool = True, **how: Any) -> Any:
    """Run `function` in OneFlow and in eager on equal inputs, and compare outputs, gradients of inputs, and what was written."""
    ours, its = copy.deepcopy(inputs), copy.deepcopy(inputs)
    if grad:
        for value in (*tensors(ours), *tensors(its)):
            value.requires_grad_(value.is_floating_point())
    actual, expected = compiled(function, **how)(*ours), function(*its)
    equal(actual, expected, rtol=1e-4, atol=1e-5)
    if any(leaf.requires_grad for leaf in tensors(expected)):
        assert [leaf.requires_grad for leaf in tensors(actual)] == [leaf.requires_grad for leaf in tensors(expected)]
        loss(actual).backward()
        loss(expected).backward()
        equal([x.grad for x in tensors(ours)], [x.grad for x in tensors(its)], rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        equal(ours, its, rtol=1e-4, atol=1e-5)
    return actual


def train(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], steps: int = 3, **how: Any) -> torch.nn.Module:
    """Train `module` in OneFlow and its twin in eager, step by step; outputs, gradients, parameters and buffers must agree."""
    twin = copy.deepcopy(module)
    function = compiled(module, **how)
    optimizers = [torch.optim.SGD(each.parameters(), lr=1e-3, momentum=0.9) for each in (module, twin)]
    for _ in range(steps):
        outputs = []
        for each, optimizer in zip((function, twin), optimizers, strict=True):
            output = each(*inputs)
            optimizer.zero_grad()
            loss(output).backward()
            optimizer.step()
            outputs.append(output)
        equal(outputs[0], outputs[1], rtol=1e-3, atol=1e-3)
        for (name, mine), its in zip(module.named_parameters(), twin.parameters(), strict=True):
            assert mine.grad is not None and its.grad is not None, name
            torch.testing.assert_close(
                mine.grad, its.grad, rtol=1e-3, atol=1e-3 * float(its.grad.abs().max()) + 1e-5, msg=lambda text, n=name: f"{n}: {text}"
            )
        equal(dict(module.state_dict()), dict(twin.state_dict()), rtol=1e-3, atol=1e-4)
    return twin
