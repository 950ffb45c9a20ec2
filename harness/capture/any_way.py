"""Capture by whichever way can express a module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from harness.capture import capture
from harness.errors import CaptureError, FormatError
from harness.model.case import Case

# Dynamo keeps graph breaks apart and names the user's own operators; torch.export sees whole graphs that Dynamo cannot.
ORDER = ("dynamo", "export", "symbolic_trace")


def capture_any(
    module: torch.nn.Module,
    inputs: tuple[Any, ...],
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    mode: str = "fwd",
    trying: Callable[[str], None] = lambda how: None,
) -> tuple[str, tuple[Case, ...]]:
    """The first way that can express the module, and its cases; `trying` hears each way before it is tried.

    Raises CaptureError with the reason of every way, UsageError for inputs or sizes that do not fit the module.
    """
    reasons = []
    for how in ORDER:
        trying(how)
        try:
            return how, capture(module, inputs, kwargs=kwargs, how=how, dynamic_shapes=dynamic_shapes, mode=mode)  # type: ignore[arg-type]
        except (CaptureError, FormatError) as error:
            reasons.append(f"{how}: {first_line(error)}")
    raise CaptureError("it cannot be captured. " + ". ".join(reasons))


def first_line(error: BaseException) -> str:
    """The first line of an error's text, cut where it is long."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else "no message")[:300]
