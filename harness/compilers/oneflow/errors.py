"""What goes wrong in a model that is compiled with backend "oneflow"."""

from __future__ import annotations

from harness.errors import FxdiffError


class CompiledError(FxdiffError):
    """Base of what the backend raises; `node` is the name of the guilty node in Dynamo's graph, where there is one."""

    def __init__(self, message: str, node: str = "") -> None:
        super().__init__(message)
        self.node = node

    def add(self, text: str) -> None:
        """Say more at the end of the text."""
        self.args = (f"{self}{text}",)


class NotInOneFlow(CompiledError):
    """Operators that OneFlow does not do, where they may not run in torch instead."""


class NodeFailed(CompiledError):
    """OneFlow raised an error while it ran a node or its derivative."""


class WorkerDied(CompiledError):
    """OneFlow's process died or hung in the middle of a call. The next call gets a new process.

    `signal` is the name of the signal that ended it, empty where it exited by itself or was ended for taking too long, which
    `hung` says; `printed` is the end of what it wrote.
    """

    def __init__(self, message: str, node: str = "", *, signal: str = "", hung: bool = False, printed: str = "") -> None:
        super().__init__(message, node)
        self.signal, self.hung, self.printed = signal, hung, printed


class NodeRefused(CompiledError):
    """OneFlow says that it does not do a node, or its derivative; caught where the node can run in torch instead."""

    def __init__(self, node: str, message: str, *, backward: bool) -> None:
        super().__init__(message, node)
        self.backward = backward
