"""Calling a built module, or whatever a backend made of it: what came back, and what it wrote to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from harness.model.case import Case
from harness.model.outcome import CallResult
from harness.model.program import Node
from harness.model.values import Tensor
from harness.torch_bridge.gradients import require_grad, train_step, with_gradients
from harness.torch_bridge.module import BuiltModule
from harness.torch_bridge.tensors import from_torch, tensor_from_torch


def call_result(built: BuiltModule, index: int, function: Callable[..., Any] | None = None) -> CallResult:
    """Call `function`, made of `built.module` by some backend, with the inputs of call `index`; the module itself by default.

    In modes `grad` and `train` the output stands beside the gradients of a fixed loss, as the reference gives them. The result
    holds the output and every input, parameter and buffer that differs afterwards. What `function` raises is the caller's to
    understand; an output outside the value grammar raises Unrepresentable.
    """
    case, program = built.case, built.case.program
    inputs = built.inputs(index)
    arguments = built.arguments(inputs)
    modules: dict[str, torch.nn.Module] = {name: built.module.get_submodule(name) for name in program.modules}
    before = snapshot(case, arguments, modules)
    run = function if function is not None else built.module.forward  # a compiled module may have no truth value
    if case.mode == "fwd":
        output = run(*inputs)
    else:
        with torch.enable_grad():
            require_grad(program, arguments)
            output = run(*inputs)
            output = (with_gradients if case.mode == "grad" else train_step)(program, arguments, modules, output)
    return CallResult(from_torch(output), changed(before, case, arguments, modules))


class SavedState:
    """A module's parameters and buffers as they are now, to be put back after a call that wrote to them.

    The reference makes its module anew for every call; what was compiled for one module is kept for the next call by putting
    its state back instead.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self._tensors = [*module.parameters(), *module.buffers()]
        self._values = [tensor.detach().clone(memory_format=torch.preserve_format) for tensor in self._tensors]

    def put_back(self) -> bool:
        """Write every changed tensor's values back; whether that can be done: not where one was given another shape.

        Values are compared, not versions: batch norm writes its statistics without counting it.
        """
        with torch.no_grad():
            for tensor, value in zip(self._tensors, self._values, strict=True):
                if tensor.shape != value.shape or tensor.dtype != value.dtype:
                    return False
                if not torch.equal(tensor, value):
                    tensor.copy_(value)
        return True


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
