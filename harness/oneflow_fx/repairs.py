"""What is broken in onefx 0.0.3 and OneFlow 0.9.0 for tracing, and mended here.

* A node whose target has no name, or is neither a text nor callable, ends in a bare assert or an AttributeError.
* GraphModules are asked for `get_submodule`, which OneFlow's modules do not have, whenever a graph is given a call of a module.
* The code that is generated for a graph asks for functions to be wrapped by their dotted names, which are no globals. Those
  that onefx does not find elsewhere make every later trace of the process fail.
* `tensor + proxy` segfaults, and every other operator raises where Python should be told to ask the proxy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import oneflow
import onefx
from onefx import _symbolic_trace as onefx_tracing
from onefx.graph import Graph
from onefx.utils._submodule import get_submodule

# Python's names of binary operators whose right side may be a Proxy, by the method that a tensor defines.
_BINARY = {
    f"__{name}__": getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "eq", "ne", "lt", "le", "gt", "ge")
} | {"__and__": operator.and_, "__or__": operator.or_, "__xor__": operator.xor}


class UnnamedTarget(TypeError):
    """A node cannot be named after its target."""


def name_targets() -> None:
    """Have every graph say which target it cannot name, and name partials and modules after what they hold; once is enough."""
    if not hasattr(Graph._target_to_str, "repaired"):
        Graph._target_to_str = _repaired(Graph._target_to_str)


def _repaired(original: Callable[[Graph, Any], str]) -> Callable[[Graph, Any], str]:
    def target_to_str(graph: Graph, target: Any) -> str:
        if isinstance(target, str) or (callable(target) and isinstance(getattr(target, "__name__", None), str)):
            return original(graph, target)
        if not callable(target):
            raise UnnamedTarget(f"a node's target must be a name or a function, and {target!r} is a {type(target).__name__}")
        raise UnnamedTarget(
            f"a node cannot call {target!r}: a {type(target).__name__} has no name. Wrap it in a function; "
            "if it is a module, call it as a submodule"
        )

    target_to_str.repaired = True  # type: ignore[attr-defined]
    return target_to_str


def find_submodules() -> None:
    """Let GraphModules find their submodules by path; once is enough."""
    if not hasattr(onefx.GraphModule, "get_submodule"):
        onefx.GraphModule.get_submodule = get_submodule


def forget_dotted_names() -> None:
    """Drop what generated code asked to be wrapped under names that no module can hold."""
    wanted = onefx_tracing._wrapped_fns_to_patch
    wanted[:] = [(namespace, name) for namespace, name in wanted if "." not in name]


@contextmanager
def proxies_on_the_right() -> Iterator[None]:
    """Record `tensor OP proxy` as a call of Python's operator, for as long as something is traced."""
    originals = {name: getattr(oneflow.Tensor, name) for name in _BINARY if hasattr(oneflow.Tensor, name)}

    def recorded(name: str, original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def method(self: Any, other: Any) -> Any:
            if isinstance(other, onefx.Proxy):
                return other.tracer.create_proxy("call_function", _BINARY[name], (self, other), {})
            return original(self, other)

        return method

    for name, original in originals.items():
        setattr(oneflow.Tensor, name, recorded(name, original))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(oneflow.Tensor, name, original)
