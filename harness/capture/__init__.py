"""Users' modules as Cases: by torch.fx.symbolic_trace, by TorchDynamo, or by torch.export."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch.utils import _pytree as pytree

from harness.capture import dynamo, export, symbolic_trace
from harness.errors import UnknownName, UsageError
from harness.model.case import MODES, Case

__all__ = ["HOW", "How", "capture"]

How = Literal["symbolic_trace", "dynamo", "export"]
_WAYS = {"symbolic_trace": symbolic_trace.capture, "dynamo": dynamo.capture, "export": export.capture}
HOW = tuple(_WAYS)


def capture(
    module: torch.nn.Module,
    inputs: tuple[Any, ...],
    *,
    kwargs: Mapping[str, Any] | None = None,
    how: How = "dynamo",
    dynamic_shapes: Any = None,
    mode: str | None = None,
) -> tuple[Case, ...]:
    """The module as literal cases: one, or with Dynamo one for each graph, in the order in which they run.

    `dynamic_shapes` is torch.export's; `mode` is by default `grad` where an input requires it, else `fwd`. The module and
    the inputs stay as they are. Raises CaptureError, which names the part that a Program cannot hold; UsageError for a
    way or a mode that does not exist.
    """
    if how not in _WAYS:
        raise UnknownName("way of capturing", how, _WAYS)
    if mode is None:
        mode = "grad" if any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in pytree.tree_leaves(inputs)) else "fwd"
    if mode not in MODES:
        raise UsageError(f"mode {mode!r} is none of {', '.join(MODES)}")
    if not isinstance(inputs, tuple):
        raise UsageError(f"inputs must be a tuple, one item for each argument of forward, not a {type(inputs).__name__}")
    return _WAYS[how](module, inputs, dict(kwargs or {}), dynamic_shapes=dynamic_shapes, mode=mode)
