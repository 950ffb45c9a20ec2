"""The users' route into the torch dialect: torch.export and torch_mlir.fx.export_and_import."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch_mlir.fx
from torch.export.graph_signature import OutputKind
from torch_mlir.extras.fx_decomp_util import get_decomposition_table
from torch_mlir.extras.fx_importer import FxImporter

from harness.backends.torch_mlir.imported import Imported, Result, first_line, importer_errors
from harness.backends.torch_mlir.pipelines import Toolchain
from harness.backends.torch_mlir.tracing import Specialized
from harness.errors import Unsupported
from harness.model.case import Case
from harness.model.outcome import OWN_LIMIT
from harness.model.program import TensorSpec
from harness.model.symbols import Sym, free_symbols
from harness.model.values import Value, map_leaves
from harness.torch_bridge.module import BuiltModule, build
from harness.torch_bridge.tensors import from_torch


def import_by_export(case: Case, tools: Toolchain, *, call: int, dynamic: bool) -> Imported:
    """Import `case` as a user would: parameters become literals in the IR, and nothing may be mutated.

    Raises Specialized where the sizes do not stay dynamic, Unsupported where torch.export or the importer refuses.
    """
    built = build(case)
    for module in built.module.modules():
        module._non_persistent_buffers_set.clear()  # the importer finds no value for such a buffer
    wrapper = _FlatOutput(built, call)
    names = wrapper.tensor_names
    inputs = tuple(value for name, value in zip(built.input_names, built.inputs(call), strict=True) if name in names)
    if dynamic and len(names) < len(built.input_names):
        raise Specialized("a size that no tensor carries")
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            shapes = (_dynamic_shapes(case, names),) if dynamic else None
            program = torch.export.export(wrapper, inputs, dynamic_shapes=shapes, strict=False)
    except Exception as error:  # torch.export documents no exceptions, and whatever it raises, torch-mlir saw nothing yet
        text = first_line(error)
        if dynamic:
            raise Specialized(f"torch.export: {text}") from error
        raise Unsupported(f"import: torch.export: {type(error).__name__}: {text}") from error
    written = _written(program, names)
    if not wrapper.seen.count:
        raise Unsupported("import: the program returns no tensor")
    if dynamic:
        _check_ranges(built, program, names)
    importer = FxImporter(context=tools.context)
    with importer_errors(), tools.collect(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = torch_mlir.fx.export_and_import(program, output_type="raw", fx_importer=importer)
    output = map_leaves(wrapper.seen.output, lambda leaf: Result(leaf.index + len(written)) if isinstance(leaf, Result) else leaf)
    mutated = {name: position for position, name in enumerate(written)}
    return Imported(module, "export", names, output, mutated, dynamic=dynamic)


def _written(program: torch.export.ExportedProgram, names: tuple[str, ...]) -> tuple[str, ...]:
    """The inputs that the program writes to, whose new contents export_and_import returns before the outputs.

    torch.export keeps writes as they are until they are functionalized with the decompositions, as export_and_import does.
    Raises Unsupported for a write to anything but an input, and for what cannot be functionalized.
    """
    targets = (node.target for node in program.graph.nodes)
    if not any(isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable for target in targets):
        return ()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = program.run_decompositions(get_decomposition_table())
    except Exception as error:  # as undocumented as torch.export's own, and torch-mlir saw nothing yet
        raise Unsupported(f"import: torch.export: {type(error).__name__}: {first_line(error)}") from error
    found = []
    for spec in program.graph_signature.output_specs:
        if spec.kind is OutputKind.USER_INPUT_MUTATION:
            found.append(names[program.graph_signature.user_inputs.index(spec.target)])
        elif spec.kind is not OutputKind.USER_OUTPUT:
            raise Unsupported(f"import: {OWN_LIMIT} hand torch-mlir a program that writes to its buffers or parameters")
    return tuple(found)


class _Seen:
    """What tracing saw of the output; no container, for torch.export puts a module's containers back afterwards."""

    def __init__(self) -> None:
        self.output: Value = None
        self.count = 0


class _FlatOutput(torch.nn.Module):
    """The case's module, returning its tensors alone: a None or an int among a function's results is the harness's matter."""

    def __init__(self, built: BuiltModule, call: int) -> None:
        super().__init__()
        self.inner = built.module
        values = dict(zip(built.input_names, built.inputs(call), strict=True))
        self.tensor_names = tuple(name for name, value in values.items() if isinstance(value, torch.Tensor))
        self.input_names = built.input_names
        self.sizes = {name: value for name, value in values.items() if not isinstance(value, torch.Tensor)}
        self.seen = _Seen()

    def forward(self, *inputs: torch.Tensor) -> tuple[Any, ...]:
        named = {**self.sizes, **dict(zip(self.tensor_names, inputs, strict=True))}
        found: list[Any] = []
        output = _template(self.inner(*(named[name] for name in self.input_names)), found)
        self.seen.output, self.seen.count = output, len(found)
        return tuple(found)


def _template(value: Any, found: list[Any]) -> Value:
    if isinstance(value, tuple | list):
        items = [_template(item, found) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: _template(item, found) for key, item in value.items()}
    if isinstance(value, torch.Tensor | torch.SymInt):
        found.append(value)
        return Result(len(found) - 1)
    return from_torch(value)


def _dynamic_shapes(case: Case, names: tuple[str, ...]) -> tuple[dict[int, Any], ...]:
    specs = {node.name: node.spec for node in case.program.placeholders if isinstance(node.spec, TensorSpec)}
    return tuple(
        {d: torch.export.Dim.DYNAMIC for d, dim in enumerate(specs[name].shape) if isinstance(dim, Sym) and free_symbols(dim)}
        for name in names
    )


def _check_ranges(built: BuiltModule, program: torch.export.ExportedProgram, names: tuple[str, ...]) -> None:
    """Raise Specialized where a call's size is outside what torch.export assumed."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    user = [nodes[name] for name in program.graph_signature.user_inputs if isinstance(name, str)]
    for call in range(len(built.case.calls)):
        values = dict(zip(built.input_names, built.inputs(call), strict=True))
        for name, node in zip(names, user, strict=True):
            for size, symbolic in zip(values[name].shape, node.meta["val"].shape, strict=True):
                allowed = program.range_constraints.get(symbolic.node.expr) if isinstance(symbolic, torch.SymInt) else None
                if allowed is not None and not allowed.lower <= size <= allowed.upper:
                    raise Specialized(f"torch.export assumed {allowed} of a size that is {size} in call {call}")
