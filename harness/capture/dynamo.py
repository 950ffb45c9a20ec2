"""Capture by TorchDynamo: one case for each graph, since code that depends on data breaks a module into several."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch._dynamo
import torch.fx
from torch.utils import _pytree as pytree

from harness.capture.graph import GraphReader, Source, with_output
from harness.capture.inputs import dynamic_axes, leaf_names, private_copy, tensor_roles
from harness.errors import CaptureError
from harness.model.case import Case
from harness.model.values import Ref, Value

# Dynamo's own names say where a value comes from: L_x_ is the local x, L_self_modules_conv_parameters_weight_ a parameter.
_LOCAL = re.compile(r"^[lL]_(?:self_)?(\w+?)_*$")


@dataclass
class _Recorder:
    """A backend that compiles nothing: it reads each graph at its first call and runs it as it is."""

    roles: Mapping[int, tuple[str, str]]
    names: Mapping[int, str]
    mode: str
    cases: list[Case] = field(default_factory=list)
    inputs: list[Mapping[int, Ref]] = field(default_factory=list)
    outputs: list[tuple[Any, ...]] = field(default_factory=list)

    def __call__(self, module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            number = self._record(module, args)
            result = module(*args)
            self.outputs[number] = tuple(result)
            return result

        return run

    def _record(self, module: torch.fx.GraphModule, args: tuple[Any, ...]) -> int:
        """Read the graph now, while its inputs are as they were: running it may change them."""
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        sources = {node.name: self._source(node, value) for node, value in zip(placeholders, args, strict=True)}
        reader = GraphReader(module.graph, module, sources, self.roles, mode=self.mode)
        self.cases.append(reader.read())
        self.inputs.append(reader.by_identity)
        self.outputs.append(())
        return len(self.outputs) - 1

    def _source(self, node: torch.fx.Node, value: Any) -> Source:
        example = node.meta.get("example_value")
        if isinstance(example, torch.SymInt):
            return Source("symint", node.name, value, None, (example,))
        match = _LOCAL.match(node.name)
        name = match[1] if match is not None else node.name
        role, fqn = self.roles.get(id(value), ("input", self.names.get(id(value), name)))
        shape = tuple(example.shape) if isinstance(example, torch.Tensor) else None
        return Source(role, fqn.replace(".", "_"), value, fqn, shape)


def capture(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, dynamic_shapes: Any = None, mode: str = "fwd"
) -> tuple[Case, ...]:
    """One case for each graph, in the order in which they run; what Python runs between graphs is in none of them.

    Raises CaptureError where Dynamo or a Program cannot follow.
    """
    own, own_args, own_kwargs = private_copy(module, args, kwargs)
    signature = inspect.signature(module.forward)
    leaves = pytree.tree_leaves((own_args, own_kwargs))
    names = {
        id(leaf): name
        for leaf, name in zip(leaves, leaf_names(signature, own_args, own_kwargs), strict=True)
        if isinstance(leaf, torch.Tensor)
    }
    axes = dynamic_axes(signature, own_args, own_kwargs, dynamic_shapes)
    for leaf, wanted in zip((leaf for leaf in leaves if isinstance(leaf, torch.Tensor)), axes, strict=True):
        for axis in wanted:
            torch._dynamo.maybe_mark_dynamic(leaf, axis)
    recorder = _Recorder(tensor_roles(own), names, mode)
    torch._dynamo.reset()
    try:
        compiled = torch.compile(own, backend=recorder, dynamic=None if dynamic_shapes is not None else False)
        # Without these, Dynamo leaves LSTM and its kin, and operators such as masked_select, to Python.
        with torch.set_grad_enabled(mode != "fwd"), torch._dynamo.config.patch(allow_rnn=True, capture_dynamic_output_shape_ops=True):
            result = compiled(*own_args, **own_kwargs)
    except CaptureError:
        raise
    except Exception as error:
        cause = error.__cause__
        while cause is not None:
            if isinstance(cause, CaptureError):
                raise cause from error
            cause = cause.__cause__
        raise CaptureError(f"Dynamo stops at {type(error).__name__}: {error}") from error
    finally:
        torch._dynamo.reset()
    if not recorder.cases:
        raise CaptureError("Dynamo found no tensor operation to capture")
    if len(recorder.cases) > 1:
        return tuple(recorder.cases)
    structure = _structure(result, recorder.outputs[0], recorder.inputs[0])
    return (with_output(recorder.cases[0], structure) if structure is not None else recorder.cases[0],)


def _structure(result: Any, outputs: tuple[Any, ...], inputs: Mapping[int, Ref]) -> Callable[[Value], Value] | None:
    """How the module's result is made of the graph's outputs and inputs, by identity; None where some leaf is neither."""
    places: dict[int, int] = {}
    for index, value in enumerate(outputs):
        places.setdefault(id(value), index)
    leaves, spec = pytree.tree_flatten(result)
    if any(isinstance(leaf, torch.Tensor) and id(leaf) not in places and id(leaf) not in inputs for leaf in leaves):
        return None

    def rebuild(flat: Value) -> Value:
        items = list(flat)

        def original(leaf: Any) -> Value:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            return items[places[id(leaf)]] if id(leaf) in places else inputs[id(leaf)]

        return pytree.tree_unflatten([original(leaf) for leaf in leaves], spec)

    return rebuild
