"""Capture by torch.fx.symbolic_trace: layers stay call_module where their constructor is known, the rest is inlined."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.fx
from torch.utils import _pytree as pytree

from harness.capture.graph import GraphReader, Source
from harness.capture.inputs import dynamic_axes, leaf_names, private_copy, tensor_roles
from harness.capture.recipes import recipe_of
from harness.capture.sizes import Sizes
from harness.errors import CaptureError
from harness.model.case import Case


class _Proxy(torch.fx.Proxy):
    """A proxy that writes in place where Python code does; fx's own turns `a += b` into `a = a + b` and knows no `a[i] = b`."""

    def __setitem__(self, index: Any, value: Any) -> None:
        self.tracer.create_proxy("call_function", operator.setitem, (self, index, value), {})


def _in_place(function: Callable[[Any, Any], Any]) -> Callable[[_Proxy, Any], Any]:
    return lambda self, other: self.tracer.create_proxy("call_function", function, (self, other), {})


for _name in ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"]:
    setattr(_Proxy, f"__i{_name}__", _in_place(getattr(operator, f"i{_name}")))


class _Tracer(torch.fx.Tracer):
    """Gives forward its arguments as the user did: a proxy for each tensor, every other leaf as it is."""

    def __init__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], names: list[str]) -> None:
        super().__init__()
        self.inputs = (args, dict(kwargs))
        self.names = iter(names)
        self.placeholders: list[str] = []

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        return recipe_of(m) is not None

    def proxy(self, node: torch.fx.Node) -> torch.fx.Proxy:
        return _Proxy(node, self)

    def call_module(self, m: torch.nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            self.path_of_module(m)
        except NameError:  # made inside forward: there is no attribute to call it by
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        def stand_in(leaf: Any) -> Any:
            name = next(self.names)
            if not isinstance(leaf, torch.Tensor):
                return leaf
            proxy = self.create_proxy("placeholder", name, (), {})
            self.placeholders.append(proxy.node.name)
            return proxy

        args, kwargs = pytree.tree_map(stand_in, self.inputs)
        return (lambda *given: root_fn(*given, **kwargs)), [self.root, *args]


def capture(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, dynamic_shapes: Any = None, mode: str = "fwd"
) -> tuple[Case, ...]:
    """The module as one case; raises CaptureError where its Python cannot be run on proxies."""
    own, args, kwargs = private_copy(module, args, kwargs)  # tracing leaves constants on the module
    names = leaf_names(inspect.signature(module.forward), args, kwargs)
    tracer = _Tracer(args, kwargs, names)
    try:
        graph = tracer.trace(own)
    except Exception as error:  # the user's own code runs here, on proxies, and may raise anything
        raise CaptureError(f"symbolic_trace stops at {type(error).__name__}: {error}; try how='dynamo'") from error
    leaves = [leaf for leaf in pytree.tree_leaves((args, dict(kwargs))) if isinstance(leaf, torch.Tensor)]
    sizes = Sizes()
    axes = dynamic_axes(inspect.signature(module.forward), args, kwargs, dynamic_shapes)
    sources = {}
    for placeholder, leaf, wanted in zip(tracer.placeholders, leaves, axes, strict=True):
        shape = tuple(sizes.named(wanted[axis], size) if axis in wanted else size for axis, size in enumerate(leaf.shape))
        sources[placeholder] = Source("input", placeholder, leaf, placeholder, shape)
    return (GraphReader(graph, own, sources, tensor_roles(own), mode=mode, sizes=sizes).read(),)
