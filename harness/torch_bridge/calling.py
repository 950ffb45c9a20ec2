"""Calling a built module, or whatever a backend made of it: what came back, and what it wrote to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from harness.model.case import Case
from harness.model.outcome import CallResult
from harness.model.program import Node
from harness.model.values import Tensor
from harness.torch_bridge.module import BuiltModule
from harness.torch_bridge.tensors import from_torch, tensor_from_torch


def call_result(built: BuiltModule, index: int, function: Callable[..., Any] | None = None) -> CallResult:
    """Call `function`, made of `built.module` by some backend, with the inputs of call `index`; the module itself by default.

    The result holds the output and every input, parameter and buffer that differs afterwards. What `function` raises is the
    caller's to understand; an output outside the value grammar raises Unrepresentable.
    """
    inputs = built.inputs(index)
    arguments = built.arguments(inputs)
    modules: dict[str, torch.nn.Module] = {name: built.module.get_submodule(name) for name in built.case.program.modules}
    before = snapshot(built.case, arguments, modules)
    output = (function or built.module.forward)(*inputs)
    return CallResult(from_torch(output), changed(before, built.case, arguments, modules))


def snapshot(case: Case, arguments: Mapping[str, Any], modules: Mapping[str, torch.nn.Module]) -> dict[str, Tensor]:
    """Every tensor that a call might write to: inputs, parameters, buffers, and module state as `attribute.local_name`."""
    found = {node.name: tensor_from_torch(arguments[node.name]) for node in case.program.placeholders if _may_change(node)}
    for attribute, module in modules.items():
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            found[f"{attribute}.{name}"] = tensor_from_torch(tensor)
    return found


def _may_change(node: Node) -> bool:
    return node.role in ("input", "parameter", "buffer")


def changed(
    before: Mapping[str, Tensor], case: Case, arguments: Mapping[str, Any], modules: Mapping[str, torch.nn.Module]
) -> dict[str, Tensor]:
    """Those tensors of `snapshot` whose bits, dtype or shape differ now."""
    after = snapshot(case, arguments, modules)
    return {name: value for name, value in after.items() if value != before[name]}
