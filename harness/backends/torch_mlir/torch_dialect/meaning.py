"""What a snapshot gives for the calls of a case, and which operation's value a pass has changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch_mlir import ir

from harness.backends.torch_mlir.imported import Imported, Result
from harness.backends.torch_mlir.torch_dialect.interpreter import Run, Traced, Unexecutable, Uninterpretable, Violation, interpret
from harness.model.case import Case
from harness.model.story import Change, Interpreted
from harness.model.values import Tensor, Value, leaves, map_leaves
from harness.torch_bridge.tensors import from_torch, materialize, to_torch

MAX_SHOWN = 8  # elements


@dataclass(frozen=True, slots=True)
class Meaning:
    """The answers of one snapshot, call after call; without answers, why: `unknown` names what the interpreter does not run.

    `refused` is eager's word against an operation of the snapshot, as (op, node, message).
    """

    answers: tuple[Interpreted, ...] = ()
    violations: tuple[tuple[int, Violation], ...] = ()
    traces: tuple[tuple[Traced, ...], ...] = ()
    unknown: str = ""
    undetermined: str = ""
    refused: tuple[str, str, str] | None = None

    @property
    def interpreted(self) -> bool:
        """Whether there are answers to compare."""
        return bool(self.answers)


class Meanings:
    """Gives snapshots of one imported case their meaning."""

    def __init__(self, case: Case, imported: Imported, calls: Sequence[int]) -> None:
        self._imported = imported
        self._calls = tuple(calls)
        self._before: list[dict[str, Value]] = []
        self._arguments: list[list[torch.Tensor]] = []
        for call in self._calls:
            named: dict[str, Value] = {**imported.literals, **case.arguments(call)}
            tensors = materialize({name: named[name] for name in imported.arguments})
            self._before.append(named)
            self._arguments.append([tensors[name] for name in imported.arguments])

    def of(self, module: ir.Module) -> Meaning:
        """The meaning of `module`, whose `main` takes and returns what the imported one does."""
        answers: list[Interpreted] = []
        violations: list[tuple[int, Violation]] = []
        traces: list[tuple[Traced, ...]] = []
        undetermined = ""
        for call, before, arguments in zip(self._calls, self._before, self._arguments, strict=True):
            try:
                run = interpret(module, arguments)
            except Uninterpretable as error:
                return Meaning(violations=tuple(violations), unknown=str(error))
            except Unexecutable as error:
                return Meaning(violations=tuple(violations), refused=(error.op, error.node, str(error)))
            violations.extend((call, found) for found in run.violations)
            traces.append(tuple(run.trace))
            undetermined = undetermined or run.undetermined
            answers.append(self._answer(run, before))
        return Meaning(tuple(answers), tuple(violations), tuple(traces), undetermined=undetermined)

    def _answer(self, run: Run, before: dict[str, Value]) -> Interpreted:
        results = [from_torch(value) for value in run.results]
        output = map_leaves(self._imported.output, lambda leaf: results[leaf.index] if isinstance(leaf, Result) else leaf)
        mutated = {name: results[position] for name, position in self._imported.mutated.items()}
        return Interpreted(output, {name: after for name, after in mutated.items() if _changed(before[name], after)})

    def agree(self, before: Meaning, after: Meaning) -> bool:
        """Whether the answers are the same, but for rounding."""
        return all(_results_alike(*pair) for pair in zip(before.answers, after.answers, strict=True))

    def change(self, before: Meaning, after: Meaning) -> Change | None:
        """The first node whose value differs between two snapshots, by its last operation in each; None if none does."""
        for call, first, second in zip(self._calls, before.traces, after.traces, strict=False):
            later = {item.node: item for item in second if item.node}
            earlier = {item.node: item for item in first if item.node}
            for node, old in earlier.items():
                new = later.get(node)
                if new is None or old is new:
                    continue
                if not _alike(old.values[0], new.values[0]):
                    return Change(old.op, node, _shown(old.values[0]), _shown(new.values[0]), call)
            if first and second and not _alike(first[-1].values[0], second[-1].values[0]):
                old, new = first[-1], second[-1]  # a pass that loses its locations
                return Change(old.op, old.node, _shown(old.values[0]), _shown(new.values[0]), call)
        return None


def _changed(before: Tensor, after: Tensor) -> bool:
    return (before.dtype, before.shape) != (after.dtype, after.shape) or before.array().tobytes() != after.array().tobytes()


def _results_alike(before: Interpreted, after: Interpreted) -> bool:
    first, second = list(leaves(before.output)), list(leaves(after.output))
    if [path for path, _ in first] != [path for path, _ in second] or before.mutated.keys() != after.mutated.keys():
        return False
    pairs = [(one, other) for (_, one), (_, other) in zip(first, second, strict=True)]
    pairs += [(before.mutated[name], after.mutated[name]) for name in before.mutated]
    return all(_alike(to_torch(a), to_torch(b)) if isinstance(a, Tensor) and isinstance(b, Tensor) else a == b for a, b in pairs)


def _alike(old: Any, new: Any) -> bool:
    """Equal, or equal but for rounding: a hint for people, not a verdict."""
    if not isinstance(old, torch.Tensor) or not isinstance(new, torch.Tensor):
        return type(old) is type(new)
    if old.dtype != new.dtype or old.shape != new.shape:
        return False
    if old.is_floating_point() or old.is_complex():
        return torch.allclose(old, new, rtol=1e-3, atol=1e-5, equal_nan=True)
    return torch.equal(old, new)


def _shown(value: torch.Tensor) -> str:
    flat = value.reshape(-1)
    listed = ", ".join(f"{item:.6g}" if isinstance(item, float) else str(item) for item in flat[:MAX_SHOWN].tolist())
    more = ", ..." if flat.numel() > MAX_SHOWN else ""
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)} [{listed}{more}]"
