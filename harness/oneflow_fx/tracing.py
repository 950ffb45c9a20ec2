"""Symbolic tracing: a module or function run on proxies, recorded as a graph."""

from __future__ import annotations

import builtins
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

import oneflow
import onefx
from onefx import _symbolic_trace as onefx_tracing

from harness.oneflow_fx.repairs import find_submodules, forget_dotted_names, name_targets, proxies_on_the_right

name_targets()
find_submodules()


class Tracer(onefx.Tracer):  # type: ignore[misc]
    """onefx's tracer, able to trace what OneFlow 0.9.0 offers.

    Functions such as `oneflow.ones` are layers that are built, called and thrown away: they are followed, so that what they
    make without a proxy becomes a constant. With a proxy among their arguments they are recorded as they are, and so are
    those of `oneflow.linalg`. With `proxy_buffers`, reading a buffer is recorded too, instead of taking its value.
    """

    def __init__(self, *, proxy_buffers: bool = False, autowrap_functions: Iterable[Callable[..., Any]] = ()) -> None:
        super().__init__(
            autowrap_modules=(math, oneflow.linalg),
            autowrap_functions=tuple(autowrap_functions),
            not_wrapped_oneflow_functions=[oneflow.device],
        )
        self.proxy_buffer_attributes = proxy_buffers

    def call_module(self, m: Any, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record a call of a submodule; follow a module that nobody holds."""
        if m is not self.root and m not in (self.submodule_paths or {}):
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def trace(self, root: Any, concrete_args: Mapping[str, Any] | None = None) -> onefx.Graph:
        """The graph of `root`."""
        forget_dotted_names()
        with proxies_on_the_right():
            return super().trace(root, concrete_args)


def symbolic_trace(root: Any, concrete_args: Mapping[str, Any] | None = None, *, proxy_buffers: bool = False) -> onefx.GraphModule:
    """`root`, a module or a function, as a GraphModule with readable `.code`.

    A tensor that is made without a proxy argument becomes the attribute `_tensor_constant0` and so on. `concrete_args` are
    taken as they are. Raises onefx.proxy.TraceError for control flow that depends on values.
    """
    tracer = Tracer(proxy_buffers=proxy_buffers)
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, oneflow.nn.Module) else getattr(root, "__name__", "Function")
    return onefx.GraphModule(tracer.root, graph, name)


class global_wrap:
    """`with global_wrap(len): ...` records calls of these functions, in whatever module the traced code lives.

    Takes functions, or names of Python's builtins. Every loaded module that holds the function under some name is covered,
    since `from a import f` gives f to a module that never heard of a. Nothing is patched outside of tracing.
    Raises TypeError for what is neither, NameError for a function that no loaded module holds.
    """

    def __init__(self, *functions: Callable[..., Any] | str | list[Any]) -> None:
        given = [item for each in functions for item in (each if isinstance(each, list) else [each])]
        self._places = [place for function in given for place in _places(function)]

    def __enter__(self) -> None:
        onefx_tracing._global_wrapped_fns_to_patch[self] = self._places

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        del onefx_tracing._global_wrapped_fns_to_patch[self]


def _places(function: Callable[..., Any] | str) -> list[tuple[dict[str, Any], str]]:
    """Where a function is found by name: the namespaces of modules, each with the name it has there."""
    if isinstance(function, str):
        if not hasattr(builtins, function):
            raise NameError(f"{function!r} is no builtin; give the function itself")
        function = getattr(builtins, function)
    if not callable(function):
        raise TypeError(f"{function!r} is neither a function nor the name of a builtin")
    found = []
    for module in list(sys.modules.values()):
        namespace = getattr(module, "__dict__", None)
        if isinstance(namespace, dict):
            found += [(namespace, name) for name, value in list(namespace.items()) if value is function]
    if not found:
        raise NameError(f"no loaded module holds {function!r}")
    return found
