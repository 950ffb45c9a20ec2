"""torch-mlir as an engine: a partition is imported, lowered to linalg and compiled by the wheel's ExecutionEngine."""

from __future__ import annotations

import functools
import importlib.metadata
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensorMode

from harness.compilers.aten.engines.protocol import Declared, Partition, Runnable
from harness.errors import TargetUnavailable, Unsupported
from harness.model.dtypes import DTYPES
from harness.model.values import Tensor
from harness.torch_bridge.tensors import DTYPE_NAMES, tensor_from_torch, to_torch

try:
    from torch_mlir.extras.fx_importer import FxImporter

    from harness.backends.torch_mlir.boundary import WRAPPER_PASSES, carries_bfloat16, wrap_bfloat16
    from harness.backends.torch_mlir.imported import importer_errors
    from harness.backends.torch_mlir.jit import Executable
    from harness.backends.torch_mlir.lowerings import LINALG
    from harness.backends.torch_mlir.pipelines import (
        REFERENCE_LLVM_PASSES,
        TORCH_PASSES,
        StageFailure,
        Toolchain,
        short_llvm_passes,
    )
except ImportError as error:
    raise TargetUnavailable(f"the engine torch-mlir needs torch-mlir: {error}") from error

_TRIALS = 4096


@functools.cache
def _toolchain() -> Toolchain:
    return Toolchain()


class TorchMlirEngine:
    """Takes what torch-mlir compiles when it is tried on that operator alone, with these types and arguments."""

    name = "torch-mlir"

    def __init__(self) -> None:
        self._tried: dict[Any, bool] = {}

    def supports(self, node: torch.fx.Node) -> bool:
        """Whether the operator compiles by itself; remembered for all nodes that look alike. Static sizes only."""
        types = [_declared(node)] + [_declared(each) for each in node.all_input_nodes]
        if not all(types) or not all(each.is_static and each.dtype in DTYPE_NAMES for several in types for each in several or ()):
            return False
        key = (str(node.target), repr(_pattern(node)), tuple(types))
        if key not in self._tried:
            if len(self._tried) >= _TRIALS:
                self._tried.clear()
            self._tried[key] = _compiles(node)
        return self._tried[key]

    def build(self, partition: Partition) -> Runnable:
        """Machine code for the partition; raises Unsupported where torch-mlir says that it does not do this, RuntimeError else."""
        return _Compiled(_executable(partition.module.graph, partition.inputs), partition.outputs)

    def versions(self) -> Mapping[str, str]:
        """The version of torch-mlir."""
        return {"torch-mlir": importlib.metadata.version("torch-mlir")}


class _Compiled:
    def __init__(self, executable: Executable, outputs: Sequence[Declared | None]) -> None:
        self._executable = executable
        self._outputs = tuple(outputs)

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        results = self._executable([tensor_from_torch(value) for value in inputs])
        return [_tensor(value, due) for value, due in zip(results, self._outputs, strict=True)]


def _tensor(value: Any, due: Declared | None) -> torch.Tensor:
    if isinstance(value, Tensor):
        made: torch.Tensor = to_torch(value)
        return made
    return torch.tensor(value, dtype=due.dtype if due is not None else None)


def _declared(node: torch.fx.Node) -> tuple[Declared, ...] | None:
    """The types of a node's tensors, from tracing or from a partition; None where something else is among them."""
    given = node.meta["declared"] if "declared" in node.meta else node.meta.get("val")
    values = given if isinstance(given, tuple | list) else (given,)
    found = [_type(value) for value in values]
    return None if any(each is None for each in found) else tuple(each for each in found if each is not None)


def _type(value: Any) -> Declared | None:
    if isinstance(value, Declared):
        return value
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return Declared(value.dtype, tuple(size if isinstance(size, int) else None for size in value.shape))


def _pattern(node: torch.fx.Node) -> Any:
    return torch.fx.map_arg((node.args, dict(node.kwargs)), lambda each: "%")


def _compiles(node: torch.fx.Node) -> bool:
    graph = torch.fx.Graph()
    known: dict[torch.fx.Node, torch.fx.Node] = {}
    inputs: list[Declared | None] = []
    for each in node.all_input_nodes:
        types = _declared(each)
        if types is None or len(types) != 1:
            return False
        known[each] = graph.placeholder(each.name)
        inputs += types
    copied = graph.node_copy(node, known.__getitem__)
    types = _declared(node)
    assert types is not None
    several = len(types) > 1 or isinstance(node.meta.get("val"), tuple | list)
    copied.meta = {"declared": types if several else types[0]}
    results = [graph.call_function(operator.getitem, (copied, index)) for index in range(len(types))] if several else [copied]
    for result, due in zip(results, types, strict=True):
        result.meta = {"declared": due}
    graph.output(tuple(results))
    try:
        _executable(graph, inputs)
    except (Unsupported, StageFailure, RuntimeError):
        return False
    return True


def _executable(graph: torch.fx.Graph, inputs: Sequence[Declared | None]) -> Executable:
    """The graph's machine code. The importer reads types from fake tensors: they are made here, for it, and left with it."""
    tools = _toolchain()
    imported = torch.fx.Graph()
    known: dict[torch.fx.Node, torch.fx.Node] = {}
    imported.output(imported.graph_copy(graph, known))
    mode = FakeTensorMode()
    for old, new in known.items():
        new.meta = {"val": _fake(mode, old.meta.get("declared"))}
    for placeholder, due in zip((node for node in imported.nodes if node.op == "placeholder"), inputs, strict=True):
        placeholder.meta = {"val": _fake(mode, due)}
    owner = torch.fx.GraphModule(graph.owning_module or torch.nn.Module(), imported)
    importer = FxImporter(context=tools.context, config_check=False)
    with importer_errors(), tools.collect():
        importer.import_stateless_graph(owner.graph, func_name="main")
    module = importer.module
    broken = tools.invalid(module)
    if broken:
        raise Unsupported(f"the import made IR that does not verify: {broken[0].message}")
    tools.run(module, (TORCH_PASSES,), stage="torch-pipeline")
    for step in LINALG.steps:
        tools.run(module, (step.passes,), stage=step.stage)
    linalg = module.operation.get_asm()
    wrapping: tuple[str, ...] = ()
    if carries_bfloat16(module):
        wrapping, linalg = WRAPPER_PASSES, wrap_bfloat16(module, linalg)
    (results,) = graph.output_node().args
    dtypes = [DTYPE_NAMES[types[0].dtype] if (types := _declared(node)) else None for node in results]  # type: ignore[union-attr, arg-type]
    for passes in (short_llvm_passes(linalg), REFERENCE_LLVM_PASSES):
        lowered = tools.parse(linalg)
        try:
            tools.run(lowered, (*wrapping, *passes), stage="llvm")
            executable = Executable(lowered, dtypes)
            executable.compile()
        except (StageFailure, RuntimeError):
            if passes is REFERENCE_LLVM_PASSES:
                raise
        else:
            return executable
    raise AssertionError("unreachable")


def _fake(mode: FakeTensorMode, due: Any) -> Any:
    if isinstance(due, tuple):
        return tuple(_fake(mode, each) for each in due)
    if not isinstance(due, Declared):
        return None
    assert due.dtype in DTYPE_NAMES and DTYPES[DTYPE_NAMES[due.dtype]] is not None
    with mode:
        return torch.empty(tuple(size if size is not None else 1 for size in due.shape), dtype=due.dtype)
