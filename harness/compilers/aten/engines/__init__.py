"""Engines by name. Each is imported when it is first asked for, since most need a library of their own."""

from __future__ import annotations

import importlib
from typing import cast

from harness.compilers.aten.engines.protocol import Declared, Engine, Partition, Runnable
from harness.errors import UnknownName

__all__ = ["Declared", "Engine", "Partition", "Runnable", "engine", "names", "register"]

_ENTRIES: dict[str, str] = {
    "eager": "harness.compilers.aten.engines.eager:EagerEngine",
    "numpy-constants": "harness.compilers.aten.engines.numpy_constants:NumpyConstantsEngine",
}


def register(name: str, entry: str) -> None:
    """Make the engine class at `module:Class` known by `name`."""
    _ENTRIES[name] = entry


def names() -> tuple[str, ...]:
    """Every engine that can be asked for."""
    return tuple(_ENTRIES)


def engine(name: str) -> Engine:
    """The engine of this name; raises UnknownName with the nearest, TargetUnavailable where its library is missing."""
    if name not in _ENTRIES:
        raise UnknownName("engine", name, _ENTRIES)
    module, _, cls = _ENTRIES[name].partition(":")
    return cast(Engine, getattr(importlib.import_module(module), cls)())
