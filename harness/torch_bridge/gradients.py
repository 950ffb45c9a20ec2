"""What modes `grad` and `train` compute beside the output: gradients of a fixed loss, and one step of SGD."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.utils._pytree as pytree

from harness.model.fill import Fill
from harness.model.program import Program, TensorSpec
from harness.model.values import Tensor
from harness.torch_bridge.tensors import DTYPE_NAMES, to_torch

LEARNING_RATE = 0.25  # a power of two: the step itself rounds as little as can be


def require_grad(program: Program, arguments: Mapping[str, Any]) -> None:
    """Mark those of `arguments` whose spec asks for a gradient."""
    for node in program.placeholders:
        if isinstance(node.spec, TensorSpec) and node.spec.requires_grad:
            arguments[node.name].requires_grad_(True)


def loss_of(output: Any) -> torch.Tensor | None:
    """The sum over all differentiable floating outputs of output times fixed weights k/4, |k| <= 4; None without any."""
    terms = []
    for position, leaf in enumerate(pytree.tree_leaves(output)):
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.dtype.is_floating_point:
            weights = to_torch(Tensor(DTYPE_NAMES[leaf.dtype], tuple(leaf.shape), Fill("exact/1", position, -4, 4)))
            terms.append((leaf * weights).sum().double())
    return torch.stack(terms).sum() if terms else None


def with_gradients(program: Program, arguments: Mapping[str, Any], modules: Mapping[str, torch.nn.Module], output: Any) -> dict[str, Any]:
    """`output` beside the gradients of `loss_of` by placeholder and `attribute.local_name`; None where none arrives."""
    leaves = {
        node.name: arguments[node.name] for node in program.placeholders if isinstance(node.spec, TensorSpec) and node.spec.requires_grad
    }
    for attribute, module in modules.items():
        leaves |= {f"{attribute}.{name}": parameter for name, parameter in module.named_parameters()}
    loss = loss_of(output)
    found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True) if loss is not None and leaves else [None] * len(leaves)
    return {"output": output, "grads": dict(zip(leaves, found, strict=True))}


def train_step(program: Program, arguments: Mapping[str, Any], modules: Mapping[str, torch.nn.Module], output: Any) -> dict[str, Any]:
    """`with_gradients`, and the parameters after one SGD step, as new tensors."""
    result = with_gradients(program, arguments, modules, output)
    parameters = {node.name: arguments[node.name] for node in program.placeholders if node.role == "parameter"}
    for attribute, module in modules.items():
        parameters |= {f"{attribute}.{name}": parameter for name, parameter in module.named_parameters()}
    with torch.no_grad():
        result["params_after"] = {
            name: parameter.detach() - LEARNING_RATE * grad
            if (grad := result["grads"].get(name)) is not None
            else parameter.detach().clone()
            for name, parameter in parameters.items()
        }
    return result
