"""A right target that rounds otherwise: every node in float64 and rounded once, or with a few ulps of error as other libraries have."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch

from harness.backends.eager import Silent, changed, snapshot
from harness.backends.eager_trace import Announcer, storages
from harness.model.case import Case
from harness.model.outcome import CallResult, NodeResult, Outcome, Status
from harness.model.program import Node
from harness.torch_bridge import interpret
from harness.torch_bridge.interpret import NodeFailed, build_arguments, build_modules, run_program
from harness.torch_bridge.tensors import from_torch


def _mapped(value: Any, function: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, tuple | list):
        items = [_mapped(item, function) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return {key: _mapped(item, function) for key, item in value.items()} if isinstance(value, dict) else value


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


class Careful(Announcer):
    """Replaces every node's floating results by those of float64, rounded to the dtype; leaves what writes in place."""

    def __init__(self, modules: Mapping[str, torch.nn.Module]) -> None:
        super().__init__(Silent())
        self.modules = modules

    def after(self, node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> Any:
        """The careful result, or eager's where float64 cannot do the same."""
        if node.target.rpartition(".")[2] == "nan_to_num":
            return result  # it puts the largest number of the dtype itself in infinity's place
        if node.target.endswith("_") or storages((args, dict(kwargs))) & storages(result) or "setitem" in node.target:
            return result
        modules = {name: copy.deepcopy(module).double() for name, module in self.modules.items() if name == node.target}
        try:
            wide = interpret._call(node, _mapped(args, _widened), _mapped(dict(kwargs), _widened), modules)
        except NodeFailed:
            return result
        narrow: list[torch.Tensor] = []
        _mapped(result, narrow.append)
        rest = iter(narrow)

        def rounded(tensor: torch.Tensor) -> torch.Tensor:
            mine = next(rest)
            comparable = tensor.shape == mine.shape and (tensor.is_floating_point() or tensor.is_complex())
            return tensor.to(mine.dtype) if comparable and mine.is_complex() == tensor.is_complex() else mine

        return _mapped(wide, rounded)


def whole(case: Case) -> Outcome:
    """The whole program, each node carefully."""
    calls = []
    for index in range(len(case.calls)):
        arguments, modules = build_arguments(case, index), build_modules(case)
        before = snapshot(case, arguments, modules)
        torch.manual_seed(0)
        with torch.no_grad():
            output = run_program(case.program, arguments, modules, binding=case.calls[index].binding, observer=Careful(modules))
        calls.append(CallResult(from_torch(output), changed(before, case, arguments, modules)))
    return Outcome("careful", Status.OK, "run", tuple(calls))


def lockstep(case: Case) -> Outcome:
    """Every node carefully, fed eager's inputs."""
    nodes: list[NodeResult] = []
    for index in range(len(case.calls)):
        arguments, modules = build_arguments(case, index), build_modules(case)

        class Recorder(Careful):
            def after(self, node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any, call: int = index) -> Any:
                nodes.append(NodeResult(node.name, call, Status.OK, from_torch(super().after(node, args, kwargs, result))))
                return result

        torch.manual_seed(0)
        with torch.no_grad():
            run_program(case.program, arguments, modules, binding=case.calls[index].binding, observer=Recorder(modules))
    return Outcome("careful", Status.OK, "run", nodes=tuple(nodes))
