"""What this compiler raises: its own mistakes found by its own checks, and engines that cannot be built."""

from __future__ import annotations

from harness.errors import FxdiffError


class AtenError(FxdiffError):
    """Base of what the aten path raises about a graph."""


class PartitionError(AtenError):
    """The partitioned graph is not the graph that was given; names the partition, and the node where one is guilty."""

    def __init__(self, message: str, *, partition: str = "", node: str = "") -> None:
        super().__init__(": ".join(part for part in (partition, node, message) if part))
        self.partition = partition
        self.node = node


class EngineBuildError(AtenError):
    """An engine could not be built for a partition."""

    def __init__(self, partition: str, engine: str, error: BaseException) -> None:
        super().__init__(f"{partition}: engine {engine} cannot be built: {type(error).__name__}: {error}")
        self.partition = partition
        self.engine = engine


class EngineResultError(AtenError):
    """An engine returned what its partition does not: another count, dtype or shape, or a tensor without data."""

    def __init__(self, partition: str, message: str) -> None:
        super().__init__(f"{partition}: {message}")
        self.partition = partition


class HygieneError(AtenError):
    """Tracing leaked into an engine: a fake tensor among what it keeps or returns, or a mode that was on or left on."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(f"{where}: {message}")
        self.where = where
