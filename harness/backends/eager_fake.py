"""What FakeTensor predicts: dtype and shape of every output, without running the program."""

from __future__ import annotations

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
from harness.model.values import leaves
from harness.torch_bridge.interpret import NodeFailed, build_arguments, build_modules, run_program
from harness.torch_bridge.tensors import DTYPE_NAMES

# FakeTensor's own word that it cannot know without the data.
_DATA_DEPENDENT = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedFakeTensorException)
_READS_DATA = "its data is not allocated yet"  # of c10's Tensor::data, where a composite operator looks into an index tensor


def predict(case: Case, index: int, progress: Progress) -> tuple[tuple[Declared, ...], tuple[Diagnostic, ...]]:
    """The types that FakeTensor claims for call `index`, or the reason why it claims none.

    A diagnostic is a note where the data decides the result, and a warning where FakeTensor refuses what eager does.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    arguments = {
        name: mode.from_tensor(value) if isinstance(value, torch.Tensor) else value for name, value in build_arguments(case, index).items()
    }
    modules = build_modules(case)
    try:
        with mode, torch.no_grad():
            output = run_program(case.program, arguments, modules, binding=case.calls[index].binding, observer=Announcer(progress))
    except NodeFailed as failure:
        needs_data = isinstance(failure.error, _DATA_DEPENDENT) or _READS_DATA in str(failure.error)
        severity = "note" if needs_data else "warning"
        return (), (Diagnostic(severity, f"call {index}, node {failure.node.name}: {failure}", stage="fake"),)
    return tuple(_declared(output, index)), ()


def _declared(output: object, index: int) -> list[Declared]:
    found = []
    for path, leaf in leaves(output):
        if isinstance(leaf, torch.Tensor):
            shape = tuple(int(size) if isinstance(size, int) else None for size in leaf.shape)
            found.append(Declared("fake", path, DTYPE_NAMES.get(leaf.dtype), shape, call=index))
    return found
