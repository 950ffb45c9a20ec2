"""The targets that run a whole program as a module: one class for each way, since a target's entry is a class."""

from __future__ import annotations

from collections.abc import Mapping

from harness.backends.oneflow.graph import AT_IMPORT, as_graph, environment, through_mlir
from harness.backends.oneflow.traced import as_fused, as_profiled, as_traced
from harness.backends.oneflow.ways import ModuleBackend, Way, as_it_is

_WAYS: Mapping[str, Way] = {
    "eager": as_it_is,
    "graph": as_graph,
    "graph-mlir": through_mlir,
    "fx": as_traced,
    "fused": as_fused,
    "profile": as_profiled,
}


class GraphBackend(ModuleBackend):
    """The target `oneflow:graph`."""

    def __init__(self) -> None:
        super().__init__("graph", _WAYS)


class GraphMlirBackend(ModuleBackend):
    """The target `oneflow:graph-mlir`."""

    def __init__(self) -> None:
        super().__init__("graph-mlir", _WAYS)

    def start(self) -> None:
        """Import OneFlow in this worker, ready to run code that MLIR generates."""
        with environment(AT_IMPORT):
            super().start()


class FxBackend(ModuleBackend):
    """The target `oneflow:fx`."""

    def __init__(self) -> None:
        super().__init__("fx", _WAYS)


class FusedBackend(ModuleBackend):
    """The target `oneflow:fused`."""

    def __init__(self) -> None:
        super().__init__("fused", _WAYS)
