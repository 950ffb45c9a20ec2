"""Run drawn cases in eager PyTorch and compare every node with what the generator predicted of it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from generators.builder import Var
from generators.cases import Drawn
from harness.model.program import Node
from harness.model.values import map_leaves
from harness.torch_bridge import resolve
from harness.torch_bridge.interpret import NodeFailed, build_arguments, build_modules, run_program


@dataclass
class Report:
    """What eager said of one case: the refusal if any, and every broken prediction."""

    rejected: str | None = None
    node: str = ""
    wrong: list[str] = field(default_factory=list)
    inexact: list[str] = field(default_factory=list)


class _Checker:
    def __init__(
        self, drawn: Drawn, index: int, report: Report, twin: bool, modules: Mapping[str, torch.nn.Module], arguments: Mapping[str, Any]
    ) -> None:
        self.vars = {var.name: var for var in drawn.vars}
        self.index, self.report, self.twin, self.modules = index, report, twin, modules
        self.saved: tuple[Any, Any] = ((), {})
        self.roots = {var.name: var.root for var in drawn.vars}
        first: dict[str, str] = {}
        for node in drawn.case.program.placeholders:
            self.roots[node.name] = first.setdefault(getattr(node.spec, "storage", None) or node.name, node.name)
        self.storages = {name: item.untyped_storage().data_ptr() for name, item in arguments.items() if isinstance(item, torch.Tensor)}

    def before(self, node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if self.twin:
            self.saved = (_doubled(args), _doubled(dict(kwargs)))

    def after(self, node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> Any:
        var = self.vars.get(node.name)
        if var is not None:
            self.report.wrong += [f"{node.name} ({node.target}): {text}" for text in _compare(var, result, self.index)]
            self.report.wrong += self._sharing(node, var, result)
        if self.twin and var is not None:
            self._against_double(node, result)
        return result

    def _sharing(self, node: Node, var: Var, result: Any) -> list[str]:
        """Memory shared with an operand that the generator did not foresee."""
        if not isinstance(result, torch.Tensor) or not result.numel():
            return []
        mine = result.untyped_storage().data_ptr()
        self.storages[node.name] = mine
        return [
            f"{node.name} ({node.target}): shares memory with {name}"
            for name in node.inputs()
            if self.storages.get(name) == mine and name in self.roots and self.roots[name] != var.root
        ]

    def _against_double(self, node: Node, result: torch.Tensor) -> None:
        args, kwargs = self.saved
        if node.op == "call_method":
            expected = getattr(args[0], node.target)(*args[1:], **kwargs)
        elif node.op == "call_module":
            expected = copy.deepcopy(self.modules[node.target]).double()(*args, **kwargs)
        else:
            expected = resolve.function(node.target)(*args, **kwargs)
        if not torch.equal(torch.as_tensor(expected).double(), result.double()):
            self.report.inexact.append(f"{node.name} ({node.target}, {result.dtype}): {args} {kwargs}")


def _doubled(value: Any) -> Any:
    def wide(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.double() if leaf.dtype in (torch.float32, torch.float16, torch.bfloat16) else leaf.clone()
        return leaf

    return map_leaves(value, wide)


def _compare(var: Var, result: Any, index: int) -> list[str]:
    shape = tuple(size.values[index] for size in var.dims)
    if not isinstance(result, torch.Tensor):
        return [f"a {type(result).__name__}"]
    said = []
    if tuple(result.shape) != shape:
        said.append(f"shape {tuple(result.shape)}, predicted {shape}")
    dtype = str(result.dtype).removeprefix("torch.")
    if dtype != var.dtype:
        said.append(f"dtype {dtype}, predicted {var.dtype}")
    if var.contiguous and not result.is_contiguous():
        said.append("not contiguous")
    if (
        not var.overlapping
        and var.writable
        and result.numel()
        and any(s == 0 and n > 1 for s, n in zip(result.stride(), result.shape, strict=True))
    ):
        said.append("overlapping memory")
    if result.numel() and not said:
        values = result.double() if dtype != "int64" else result
        finite = torch.isfinite(values)
        if not var.vals.special and not bool(finite.all()):
            said.append("NaN or infinity")
        kept = values[finite]
        if kept.numel() and not var.vals.special:
            low, high, slack = kept.min().item(), kept.max().item(), 1e-2 * max(1.0, var.vals.peak) if var.vals.grain is None else 0
            if low < var.vals.lo - slack or high > var.vals.hi + slack:
                said.append(f"values {low}..{high}, predicted {var.vals.lo}..{var.vals.hi}")
    return said


def check(drawn: Drawn, *, twin: bool = False) -> Report:
    """Run every call of a drawn case and report."""
    report = Report()
    order = [
        drawn.bindings.index(b) if b in drawn.bindings else _binding(drawn, dict(b)) for b in (dict(c.binding) for c in drawn.case.calls)
    ]
    for number, index in enumerate(order):
        modules = build_modules(drawn.case)
        arguments = build_arguments(drawn.case, number)
        checker = _Checker(drawn, index, report, twin, modules, arguments)
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run_program(drawn.case.program, arguments, modules, binding=drawn.case.calls[number].binding, observer=checker)
        except NodeFailed as error:
            report.rejected, report.node = str(error), error.node.name
            return report
    return report


def _binding(drawn: Drawn, binding: dict[str, int]) -> int:
    return next(i for i, known in enumerate(drawn.bindings) if binding.items() <= dict(known).items())
