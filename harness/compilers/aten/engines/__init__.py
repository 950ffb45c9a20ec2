"""Engines by name. Each is imported when it is first asked for, since most need a library of their own."""

from __future__ import annotations

import importlib
from typing import cast

from harness.compilers.aten.engines.protocol import Declared, Engine, Partition, Runnable
from harness.compilers.aten.settings import AtenSettings
from harness.errors import UnknownName

__all__ = ["Declared", "Engine", "Partition", "Runnable", "engine", "names", "register"]

_ENTRIES: dict[str, str] = {
    "eager": "harness.compilers.aten.engines.eager:EagerEngine",
    "numpy-constants": "harness.compilers.aten.engines.numpy_constants:NumpyConstantsEngine",
    "torch-mlir": "harness.compilers.aten.engines.torch_mlir:TorchMlirEngine",
    "oneflow": "harness.compilers.aten.engines.oneflow:OneFlowEngine",
    "tensorrt": "harness.compilers.aten.engines.tensorrt:TensorRTEngine",
}


def register(name: str, entry: str) -> None:
    """Make the engine class at `module:Class` known by `name`."""
    _ENTRIES[name] = entry


def names() -> tuple[str, ...]:
    """Every engine that can be asked for."""
    return tuple(_ENTRIES)


def engine(name: str, settings: AtenSettings | None = None) -> Engine:
    """The engine of this name; raises UnknownName with the nearest, TargetUnavailable where its library is missing.

    An engine with `for_settings` has its own way to a precision, and is given the settings.
    """
    if name not in _ENTRIES:
        raise UnknownName("engine", name, _ENTRIES)
    module, _, cls = _ENTRIES[name].partition(":")
    made = getattr(importlib.import_module(module), cls)
    return cast(Engine, made.for_settings(settings) if settings is not None and hasattr(made, "for_settings") else made())
