"""Capture by torch.export: one whole graph, in aten's names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
import torch.export
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, SymIntArgument, TensorArgument
from torch.utils import _pytree as pytree

from harness.capture.graph import GraphReader, Source
from harness.capture.inputs import leaf_names, private_copy
from harness.errors import CaptureError
from harness.model.case import Case
from harness.model.values import Value

_ROLES = {InputKind.PARAMETER: "parameter", InputKind.BUFFER: "buffer", InputKind.CONSTANT_TENSOR: "constant"}


def capture(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, dynamic_shapes: Any = None, mode: str = "fwd"
) -> tuple[Case, ...]:
    """The module as one case; raises CaptureError where torch.export or a Program cannot follow."""
    own, own_args, own_kwargs = private_copy(module, args, kwargs)
    try:
        with torch.set_grad_enabled(mode != "fwd"):
            program = torch.export.export(own, own_args, own_kwargs, dynamic_shapes=dynamic_shapes, strict=False)
    except Exception as error:  # the user's own code runs here and may raise anything
        raise CaptureError(f"torch.export stops at {type(error).__name__}: {error}") from error
    inputs = pytree.tree_leaves((own_args, own_kwargs))
    names = leaf_names(inspect.signature(module.forward), own_args, own_kwargs)
    sources = _sources(program, inputs, names)
    reader = GraphReader(program.graph, program.graph_module, sources, meta="val", mode=mode)
    return (reader.read(lambda flat: _output(program, flat)),)


def _sources(program: torch.export.ExportedProgram, inputs: list[Any], names: list[str]) -> dict[str, Source]:
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    found: dict[str, Source] = {}
    given = iter(zip(inputs, names, strict=True))
    for spec in program.graph_signature.input_specs:
        name = spec.arg.name
        fake = values.get(name)
        shape = tuple(fake.shape) if isinstance(fake, torch.Tensor) else None
        if spec.kind is InputKind.USER_INPUT:
            value, own = next(given)
            if isinstance(spec.arg, SymIntArgument):
                found[name] = Source("symint", own, value, None, (fake,) if isinstance(fake, torch.SymInt) else None)
            elif isinstance(spec.arg, TensorArgument | ConstantArgument):
                found[name] = Source("input", own, value, own, shape)
            else:
                raise CaptureError(f"the input {own!r} is a {type(spec.arg).__name__}, which no placeholder can be")
        elif spec.kind in _ROLES and spec.target is not None:
            tensor = program.state_dict.get(spec.target)
            tensor = tensor if tensor is not None else program.constants[spec.target]
            if not isinstance(tensor, torch.Tensor):
                raise CaptureError(f"{spec.target!r} is a {type(tensor).__name__}")
            found[name] = Source(_ROLES[spec.kind], spec.target.replace(".", "_"), tensor, spec.target, shape)
        else:
            raise CaptureError(f"the placeholder {name!r} is a {spec.kind.name.lower()}, which a Program cannot hold")
    return found


def _output(program: torch.export.ExportedProgram, flat: Value) -> Value:
    """The user's outputs in their own structure; what torch.export appends for mutations is left out."""
    leaves = []
    for value, spec in zip(flat, program.graph_signature.output_specs, strict=True):
        if spec.kind is OutputKind.USER_OUTPUT:
            leaves.append(value)
    spec = program.call_spec.out_spec
    assert spec is not None
    return pytree.tree_unflatten(leaves, spec)
