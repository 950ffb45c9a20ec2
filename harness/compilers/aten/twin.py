"""The backend without Dynamo: a module is traced here, and goes through the same compiler, at a third of the price.

Forward passes are traced by make_fx on copies of the real inputs, parameters lifted. Training, writes to inputs and inputs
that share memory go through AOTAutograd, as in torch.compile: it alone knows which outputs are views of what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.func
import torch.fx
from torch._functorch.aot_autograd import aot_module_simplified
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from harness.compilers.aten.backend import AtenBackend
from harness.compilers.aten.capability import writes
from harness.compilers.aten.compiler import untouched
from harness.compilers.aten.decompositions import table_for_torch
from harness.torch_bridge.flat import flat_outputs


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled module: called as the module is, with inputs of the shapes that it was compiled for."""

    call: Callable[..., Any]

    def __call__(self, *inputs: Any) -> Any:
        """What the module returns."""
        return self.call(*inputs)


def compile_module(module: torch.fx.GraphModule, inputs: Sequence[Any], backend: AtenBackend, *, training: bool = False) -> Compiled:
    """`module` compiled for inputs like these: tensors, or numbers that are taken for constants.

    `training` keeps what backward needs. Neither the module nor `inputs` are written to. Raises what tracing raises, and the
    compiler's AtenErrors.
    """
    with untouched(module, "twin"), torch.set_grad_enabled(training):
        if training or _shares_memory([*module.parameters(), *module.buffers(), *inputs]):
            return Compiled(_through_aot(module, inputs, backend))
        return Compiled(_through_make_fx(module, inputs, backend) or _through_aot(module, inputs, backend))


def _shares_memory(values: Sequence[Any]) -> bool:
    tensors = list({id(value): value for value in values if isinstance(value, torch.Tensor)}.values())
    places = [value.untyped_storage().data_ptr() for value in tensors if value.untyped_storage().nbytes()]
    return len(set(places)) < len(places)


def _through_make_fx(module: torch.fx.GraphModule, inputs: Sequence[Any], backend: AtenBackend) -> Callable[..., Any] | None:
    """The compiled trace; None where the module writes to what it is given."""
    state: dict[str, torch.Tensor] = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    names = list(state)
    places = [index for index, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
    structure: list[Any] = []

    def flat(*tensors: torch.Tensor) -> list[Any]:
        arguments = list(inputs)
        for index, value in zip(places, tensors[len(names) :], strict=True):
            arguments[index] = value
        output = torch.func.functional_call(module, dict(zip(names, tensors, strict=False)), tuple(arguments))
        leaves, spec = pytree.tree_flatten(output)
        structure[:] = [spec, leaves]
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    copies = [_copy(value) for value in (*state.values(), *(inputs[index] for index in places))]
    functional = torch.func.functionalize(flat, remove="mutations")
    graph = make_fx(functional, decomposition_table=table_for_torch(), tracing_mode="real")(*copies)
    if any(writes(node) for node in graph.graph.nodes):
        return None
    spec, leaves = structure
    # What the trace saw of each leaf: a number stays as it was, a tensor is a place to fill.
    pattern = [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]
    compiled = backend.compiler("inference")(graph, copies)
    current: Mapping[str, torch.Tensor] = state

    def call(*arguments: Any) -> Any:
        results = iter(compiled([*current.values(), *(arguments[index] for index in places)]))
        return pytree.tree_unflatten([next(results) if each is None else each[0] for each in pattern], spec)

    return call


def _copy(value: torch.Tensor) -> torch.Tensor:
    """Fresh memory in the same layout, overlapping elements included."""
    if value.layout is not torch.strided:
        return value.detach().clone()
    extent = 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True)) if value.numel() else 0
    memory = value.detach().as_strided((extent,), (1,)).clone() if extent else value.new_empty(0)
    return memory.as_strided(value.shape, value.stride(), 0)


def _through_aot(module: torch.fx.GraphModule, inputs: Sequence[Any], backend: AtenBackend) -> Callable[..., Any]:
    flat, rebuild = flat_outputs(module)
    stages = {"fw_compiler": "forward", "bw_compiler": "backward", "inference_compiler": "inference"}
    compilers: dict[str, Any] = {name: backend.compiler(stage) for name, stage in stages.items()}
    compiled = aot_module_simplified(flat, list(inputs), decompositions=table_for_torch(), **compilers)
    return lambda *arguments: rebuild(compiled(*arguments))
