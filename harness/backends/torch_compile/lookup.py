"""A backend by name: one that torch knows, or `module:function` of anybody's."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, cast

import torch._dynamo

from harness.errors import TargetUnavailable, UnknownName


def backend_named(name: str) -> Callable[..., Any]:
    """The backend's function; raises TargetUnavailable that says what is missing, with the nearest name."""
    module_name, colon, function = name.partition(":")
    if colon:
        try:
            found = getattr(importlib.import_module(module_name), function, None)
        except ImportError as error:
            raise TargetUnavailable(f"the backend {name}: {module_name} cannot be imported: {error}") from error
        if not callable(found):
            raise TargetUnavailable(f"the backend {name}: {module_name} has no function {function!r}")
        return cast(Callable[..., Any], found)
    known = torch._dynamo.list_backends(exclude_tags=None)
    if name not in known:
        raise TargetUnavailable(str(UnknownName("torch.compile backend", name, known)))
    try:
        return torch._dynamo.lookup_backend(name)
    except ImportError as error:
        raise TargetUnavailable(f"the backend {name} needs what is not installed: {error}") from error
