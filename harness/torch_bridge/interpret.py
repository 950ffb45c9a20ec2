"""Run a Program node by node, with a place to stand before and after each node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch

from harness.errors import FormatError, FxdiffError, HarnessError
from harness.model.case import Case
from harness.model.program import ModuleRecipe, Node, Program
from harness.model.values import Tensor
from harness.torch_bridge import resolve
from harness.torch_bridge.tensors import Storages, materialize, to_torch


class NodeFailed(FxdiffError):
    """The operator of one node raised; `error` is what it raised."""

    def __init__(self, node: Node, error: Exception) -> None:
        super().__init__(f"{node.target}: {type(error).__name__}: {error}")
        self.node = node
        self.error = error


class Observer(Protocol):
    """What watches a run; `after` may put another result in the node's place."""

    def before(self, node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """See a node's arguments just before it runs."""

    def after(self, node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> Any:
        """See a node's result just after it ran, and return the result to go on with."""


def run_program(
    program: Program,
    arguments: Mapping[str, Any],
    modules: Mapping[str, torch.nn.Module],
    *,
    binding: Mapping[str, int] | None = None,
    observer: Observer | None = None,
) -> Any:
    """The program's output as torch objects; `arguments` holds every placeholder's value by name.

    Raises NodeFailed for what an operator raises; UnknownName, FormatError and HarnessError for what is wrong in the
    program or with us.
    """
    env: dict[str, Any] = {}
    for node in program.nodes:
        if node.op == "placeholder":
            if node.name not in arguments:
                raise HarnessError(f"no argument for placeholder {node.name!r}")
            env[node.name] = arguments[node.name]
            continue
        args = to_torch(node.args, env, binding=binding)
        if node.op == "output":
            return args[0]
        kwargs = to_torch(dict(node.kwargs), env, binding=binding)
        if observer is not None:
            observer.before(node, args, kwargs)
        result = _call(node, args, kwargs, modules)
        env[node.name] = result if observer is None else observer.after(node, args, kwargs, result)
    raise HarnessError("a program without an output")


def _call(node: Node, args: tuple[Any, ...], kwargs: dict[str, Any], modules: Mapping[str, torch.nn.Module]) -> Any:
    if node.op == "call_function":
        function = resolve.function(node.target)
    elif node.op == "call_module":
        if node.target not in modules:
            raise HarnessError(f"no module {node.target!r}")
        function = modules[node.target]
    elif args:
        function, args = resolve.method(args[0], node.target), args[1:]
    else:
        raise FormatError("a method without a receiver", where=f"node {node.name!r}")
    try:
        return function(*args, **kwargs)
    except Exception as error:
        raise NodeFailed(node, error) from error


def build_module_from(recipe: ModuleRecipe, state: Mapping[str, Tensor], *, where: str) -> torch.nn.Module:
    """The module of one recipe, its parameters and buffers holding `state`.

    Raises FormatError where the state does not fit the module or leaves a parameter to chance, NodeFailed where the
    constructor refuses its arguments.
    """
    cls = resolve.module_class(recipe.cls)
    args, kwargs = to_torch(recipe.args), to_torch(dict(recipe.kwargs))
    try:
        module = cls(*args, **kwargs)
    except Exception as error:
        raise NodeFailed(Node(where, "call_module", recipe.cls), error) from error
    module.train(recipe.training)
    own = dict(module.named_parameters()) | dict(module.named_buffers())
    for name in own.keys() - state.keys():
        if isinstance(own[name], torch.nn.Parameter):
            raise FormatError(f"no data for the parameter {name!r} of {recipe.cls}", where=f"module {where!r}")
    storages = Storages()
    with torch.no_grad():
        for name, value in state.items():
            if name not in own:
                raise FormatError(f"{recipe.cls} has no parameter or buffer {name!r}", where=f"module {where!r}")
            tensor = storages.tensor(value)
            if tensor.shape != own[name].shape or tensor.dtype != own[name].dtype:
                raise FormatError(
                    f"{name!r} is {own[name].dtype} of shape {tuple(own[name].shape)}, its data {tensor.dtype} of {tuple(tensor.shape)}",
                    where=f"module {where!r}",
                )
            own[name].copy_(tensor)
    return module


def build_modules(case: Case) -> dict[str, torch.nn.Module]:
    """Fresh modules for every recipe of the case, by attribute name."""
    return {
        attribute: build_module_from(recipe, case.module_state(attribute), where=attribute)
        for attribute, recipe in case.program.modules.items()
    }


def build_arguments(case: Case, index: int) -> dict[str, Any]:
    """Every placeholder of call `index` as fresh torch objects, sharing storages as the case says."""
    return materialize(case.arguments(index), binding=case.calls[index].binding)
