"""What FakeTensor predicts: dtype and shape of every output, without running the program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)

from harness.backends.eager_trace import Announcer
from harness.backends.protocol import Progress
from harness.model.case import Case
from harness.model.outcome import Declared, Diagnostic
from harness.model.values import Tensor, Value, contiguous_strides, leaves, storage_size
from harness.torch_bridge.interpret import NodeFailed, build_modules, run_program
from harness.torch_bridge.tensors import DTYPE_NAMES, TORCH_DTYPES

# FakeTensor's own word that it cannot know without the data.
_DATA_DEPENDENT = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedFakeTensorException)
_READS_DATA = "its data is not allocated yet"  # of c10's Tensor::data, where a composite operator looks into an index tensor


def predict(case: Case, index: int, progress: Progress) -> tuple[tuple[Declared, ...], tuple[Diagnostic, ...]]:
    """The types that FakeTensor claims for call `index`, or the reason why it claims none.

    A diagnostic is a note where the data decides the result, and a warning where FakeTensor refuses what eager does.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    # Shapes seldom come again, so that keys cost more than hits save; and the cache would grow without end.
    mode.cache_enabled = False
    modules = build_modules(case)
    with mode:
        arguments = _arguments(case.arguments(index))
        for module in modules.values():
            _forget_data(module)
    try:
        with mode, torch.no_grad():
            output = run_program(case.program, arguments, modules, binding=case.calls[index].binding, observer=Announcer(progress))
    except NodeFailed as failure:
        needs_data = isinstance(failure.error, _DATA_DEPENDENT) or _READS_DATA in str(failure.error)
        severity = "note" if needs_data else "warning"
        return (), (Diagnostic(severity, f"call {index}, node {failure.node.name}: {failure}", stage="fake"),)
    return tuple(_declared(output, index)), ()


def _arguments(values: Mapping[str, Value]) -> dict[str, Any]:
    """Fake tensors with the layout and the sharing of `values`; made directly, for converting a real one takes 1 ms."""
    flat: dict[str, torch.Tensor] = {}
    for value in values.values():
        if isinstance(value, Tensor) and value.storage is not None:
            size = max(_extent(value), flat[value.storage].numel() if value.storage in flat else 0)
            flat[value.storage] = torch.empty(size, dtype=TORCH_DTYPES[value.dtype])
    return {name: _argument(value, flat) if isinstance(value, Tensor) else value for name, value in values.items()}


def _argument(value: Tensor, flat: Mapping[str, torch.Tensor]) -> torch.Tensor:
    strides = _strides(value)
    if value.storage is not None:
        return flat[value.storage].as_strided(value.shape, strides, value.offset)
    if value.offset == 0:
        return torch.empty_strided(value.shape, strides, dtype=TORCH_DTYPES[value.dtype])
    return torch.empty(_extent(value), dtype=TORCH_DTYPES[value.dtype]).as_strided(value.shape, strides, value.offset)


def _strides(value: Tensor) -> tuple[int, ...]:
    return value.strides if value.strides is not None else contiguous_strides(value.shape)


def _extent(value: Tensor) -> int:
    return storage_size(value.shape, _strides(value), value.offset)


def _forget_data(module: torch.nn.Module) -> None:
    """Put fake parameters and buffers, made under the active mode, in the place of the real ones."""
    for owner in module.modules():
        for name, parameter in owner.named_parameters(recurse=False):
            setattr(owner, name, torch.nn.Parameter(torch.empty(parameter.shape, dtype=parameter.dtype), requires_grad=False))
        for name, buffer in owner.named_buffers(recurse=False):
            setattr(owner, name, torch.empty(buffer.shape, dtype=buffer.dtype))


def _declared(output: object, index: int) -> list[Declared]:
    found = []
    for path, leaf in leaves(output):
        if isinstance(leaf, torch.Tensor):
            shape = tuple(int(size) if isinstance(size, int) else None for size in leaf.shape)
            found.append(Declared("fake", path, DTYPE_NAMES.get(leaf.dtype), shape, call=index))
    return found
