"""What a compiled module may raise that is the backend's doing; everything else is a fault of ours until shown otherwise."""

from __future__ import annotations

import torch._dynamo.exc

from harness.backends.eager import REFUSALS
from harness.errors import FxdiffError, Unsupported
from harness.torch_bridge.tensors import Unrepresentable

# A graph of data-dependent size or a branch on data is beyond what a backend without Dynamo can be asked to take.
_BY_DATA = (
    "data-dependent",
    "Data-dependent",
    "data dependent",
    "DataDependent",
    "unbacked symbol",
    "_local_scalar_dense",
    "GuardOnData",
    "DynamicOutputShape",
    "Dynamic shape operator",
    "Data dependent operator",
)


def is_failure(error: BaseException) -> bool:
    """Whether `error` is evidence against the backend: torch.compile's own errors, and what operators raise."""
    if isinstance(error, Unrepresentable):
        return True
    if isinstance(error, FxdiffError):
        return False
    return isinstance(error, (*REFUSALS, torch._dynamo.exc.TorchDynamoException, NotImplementedError))


def message_of(error: BaseException) -> str:
    """The error in one line, with the innermost cause that torch wraps: that is what the backend said."""
    inner = getattr(error, "inner_exception", None)
    cause = inner if isinstance(inner, BaseException) else error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return f"{type(cause).__name__}: {lines[0] if lines else 'no message'}"


def depends_on_data(text: str) -> bool:
    """Whether a message says that sizes or branches depend on values."""
    return any(word in text for word in _BY_DATA)


def refuse_by_data(error: BaseException) -> None:
    """Raise Unsupported where `error` says that the program depends on data."""
    text = f"{type(error).__name__}: {error}"
    if depends_on_data(text):
        raise Unsupported(f"sizes or branches depend on data: {message_of(error)}") from error
