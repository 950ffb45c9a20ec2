"""Tracing a whole case into an fx graph, and that graph into the torch dialect."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch_mlir.extras.fx_decomp_util import get_decomposition_table
from torch_mlir.extras.fx_importer import FxImporter

from harness.backends.torch_mlir.imported import Imported, Result, first_line, importer_errors
from harness.backends.torch_mlir.pipelines import Toolchain
from harness.backends.torch_mlir.tracing import Recorder, Specialized, Untraceable
from harness.errors import Unsupported
from harness.model.case import Case
from harness.model.program import Node, TensorSpec
from harness.model.symbols import evaluate
from harness.model.values import Value
from harness.torch_bridge.interpret import NodeFailed, build_arguments, build_modules, run_program
from harness.torch_bridge.tensors import TORCH_DTYPES, from_torch, tensor_from_torch


def _fake_mode() -> FakeTensorMode:
    """A mode in which an operator's result may have a size that no one knows yet."""
    env = ShapeEnv(specialize_zero_one=False, duck_shape=False, allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True)
    return FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)


class _Label:
    """Watches the program run and knows the node at work."""

    def __init__(self) -> None:
        self.name = "main"

    def before(self, node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.name = node.name

    def after(self, node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> Any:
        return result


class CaseTracing:
    """One attempt at recording a case for the sizes of one call.

    `fake` runs it on FakeTensors and allows results whose size depends on values; `functional` turns writes into new
    values.
    """

    def __init__(self, case: Case, *, route: str, call: int, functional: bool = False, fake: bool = False) -> None:
        self.case = case
        self.route = route
        self.functional = functional
        self.label = _Label()
        self.call = call
        self.fake = fake
        self.binding = case.calls[call].binding
        self.mode = _fake_mode() if fake else None
        table = get_decomposition_table() if route == "decomposed" else {}
        self.recorder = Recorder(self.mode, label=lambda: self.label.name, decompositions=table, functional=functional)
        self.modules = build_modules(case)
        self.state = {
            f"{attribute}.{local}": tensor
            for attribute, module in self.modules.items()
            for local, tensor in (*module.named_parameters(), *module.named_buffers())
        }
        self.owner: torch.fx.GraphModule | None = None
        self.written: dict[str, torch.Tensor] = {}
        self.output: Any = None
        self.results: list[torch.fx.Node] = []

    def run(self) -> CaseTracing:
        """Record the program.

        Raises Mutates or NeedsFake where another attempt may do, Untraceable where none will.
        """
        names, tensors = self.tensors()
        for name, tensor in zip(names, tensors, strict=True):
            self.recorder.argument(name, tensor)

        def forward(*values: torch.Tensor) -> Any:
            named = dict(zip(names, values, strict=True))
            for attribute, module in self.modules.items():
                set_state(module, {local: named[f"{attribute}.{local}"] for local in state_names(module)})
            arguments = {**self.sizes(), **{n.name: named[n.name] for n in self.case.program.placeholders if n.role != "symint"}}
            return run_program(self.case.program, arguments, self.modules, binding=self.binding, observer=self.label)

        # As torch.export does: decompositions written in Python are seen, and an LSTM is not made an mkldnn call.
        with torch.no_grad(), _without_mkldnn(), self.mode or contextlib.nullcontext(), self.recorder, enable_python_dispatcher():
            try:
                output = self.functionalized(forward, names, tensors) if self.functional else forward(*tensors)
            except NodeFailed as failure:
                raise self.understood(failure.error, failure.node.name) from failure
            except RuntimeError as error:
                raise self.understood(error, self.label.name) from error
        self.output = self.template(output)
        return self

    def functionalized(self, forward: Callable[..., Any], names: list[str], tensors: list[torch.Tensor]) -> Any:
        """Run `forward` with every write turned into a new value; what writes leave in arguments becomes extra results.

        The mode sees what composite kernels write inside, which torch.func.functionalize does not, and keeps views.
        """
        with _Functionalization(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wrapped = [FunctionalTensor.to_functional(tensor) for tensor in tensors]
            output = torch.utils._pytree.tree_map_only(FunctionalTensor, _unwrap, forward(*wrapped))
            for name, before, wrapper in zip(names, tensors, wrapped, strict=True):
                after = _unwrap(wrapper)
                if after is not before:
                    self.written[name] = after
        return output

    def understood(self, error: Exception, node: str) -> Exception:
        """What an operator's exception means for the import."""
        if isinstance(error, Untraceable):
            return error
        return Untraceable(f"at {node}: {type(error).__name__}: {first_line(error)}")

    def sizes(self) -> dict[str, Any]:
        """The size placeholders' values."""
        found: dict[str, Any] = {}
        for node in self.case.program.placeholders:
            if node.role == "symint":
                assert node.spec is not None and not isinstance(node.spec, TensorSpec)
                found[node.name] = evaluate(node.spec, self.binding)
        return found

    def tensors(self) -> tuple[list[str], list[torch.Tensor]]:
        """Every tensor that the program reads: placeholders, then the modules' parameters and buffers."""
        specs = {node.name: node.spec for node in self.case.program.placeholders if isinstance(node.spec, TensorSpec)}
        if self.mode is None:
            real = build_arguments(self.case, self.call)
            return [*specs, *self.state], [*(real[name] for name in specs), *self.state.values()]
        with torch.no_grad(), self.mode:
            placeholders = [fake_tensor(spec, self.binding) for spec in specs.values()]
            state = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype) for t in self.state.values()]
        return [*specs, *self.state], [*placeholders, *state]

    def template(self, value: Any) -> Value:
        """The output with Results for tensors and symbolic sizes; everything else as it is."""
        if isinstance(value, tuple):
            return tuple(self.template(item) for item in value)
        if isinstance(value, list):
            return [self.template(item) for item in value]
        if isinstance(value, dict):
            return {key: self.template(item) for key, item in value.items()}
        if isinstance(value, torch.Tensor | torch.SymInt):
            node = self.recorder.node(value)
            if isinstance(node, int):
                return node
            self.results.append(node)
            return Result(len(self.results) - 1)
        if isinstance(value, torch.SymFloat | torch.SymBool):
            raise Specialized(f"a symbolic {type(value).__name__} in the output")
        return from_torch(value)

    def imported(self, tools: Toolchain) -> Imported:
        """Hand the recorded graph to torch-mlir's importer; raises Unsupported for what it does not take."""
        mutated: dict[str, int] = {}
        for name, tensor in self.written.items():
            mutated[name] = len(self.results)
            self.results.append(self.recorder.node(tensor))
        if not self.results:
            raise Unsupported("import: the program returns no tensor")
        self.recorder.graph.output(tuple(self.results))
        drop_dead_calls(self.recorder.graph)
        if any(node.target is torch.ops.aten.as_strided.default for node in self.recorder.graph.nodes):
            # The importer rewrites as_strided by index tensors, which it hangs on the graph's module.
            self.owner = torch.fx.GraphModule(torch.nn.Module(), self.recorder.graph)
        importer = FxImporter(context=tools.context, config_check=False)
        with importer_errors(), tools.collect():
            importer.import_stateless_graph(self.recorder.graph, func_name="main")
        route = f"{self.route}+functionalized" if self.functional else self.route
        return Imported(
            importer.module,
            route,
            tuple(self.recorder.arguments),
            self.output,
            mutated,
            {name: tensor_from_torch(value) for name, value in (self.state | self.recorder.literals).items()},
        )


@contextlib.contextmanager
def _without_mkldnn() -> Iterator[None]:
    """mkldnn off; `torch.backends.mkldnn.flags` also sets a flag for other hardware, which warns."""
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)


class _Functionalization(FunctionalTensorMode):  # type: ignore[no-untyped-call]
    """FunctionalTensorMode over our recorder, which keeps none of the proxies that this hook annotates for view replay."""

    def _sync_view_replay_annotations(self, args: Any, kwargs: Any) -> None:
        pass


def _unwrap(wrapper: FunctionalTensor) -> torch.Tensor:
    torch._sync(wrapper)  # type: ignore[attr-defined, no-untyped-call]
    return torch._from_functional_tensor(wrapper.elem)


def drop_dead_calls(graph: torch.fx.Graph) -> None:
    """Erase calls whose results nobody reads, as torch.export does."""
    for node in reversed(graph.nodes):
        if node.op == "call_function" and not node.users:
            graph.erase_node(node)


def fake_tensor(spec: TensorSpec, binding: Mapping[str, Any]) -> Any:
    """An empty tensor with the shape and layout of `spec`, as `binding` sizes it. Call it inside a FakeTensorMode."""
    dtype = TORCH_DTYPES[spec.dtype]
    shape = spec.concrete_shape(binding)
    if spec.strides is not None:
        return torch.empty_strided(shape, spec.strides, dtype=dtype)
    order = spec.order if spec.order is not None else tuple(range(len(shape)))
    memory = torch.empty([1 if dim in spec.expanded else shape[dim] for dim in order], dtype=dtype)
    if spec.order is not None:
        memory = memory.permute([order.index(dim) for dim in range(len(shape))])
    return memory.expand(shape) if spec.expanded else memory


def state_names(module: torch.nn.Module) -> list[str]:
    """The local names of a module's parameters and buffers."""
    return [name for name, _ in module.named_parameters()] + [name for name, _ in module.named_buffers()]


def set_state(module: torch.nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    """Put plain tensors in the place of a module's parameters and buffers."""
    for name, tensor in state.items():
        path, _, local = name.rpartition(".")
        owner = module.get_submodule(path)
        if local in owner._parameters:
            owner._parameters[local] = tensor  # type: ignore[assignment]
        else:
            owner._buffers[local] = tensor
    for part in module.modules():
        if isinstance(part, torch.nn.RNNBase):
            part._flat_weights = [getattr(part, name) for name in part._flat_weights_names]
