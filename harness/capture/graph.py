"""An fx graph of any origin as a Program."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx

from harness.capture.recipes import recipe_of
from harness.capture.sizes import Sizes
from harness.capture.storages import describe
from harness.errors import CaptureError
from harness.model.case import Call, Case
from harness.model.fill import Data
from harness.model.program import ModuleRecipe, Node, Program, TensorSpec
from harness.model.symbols import Dim, Sym
from harness.model.values import Device, DType, Layout, MemoryFormat, Ref, Tensor, Value
from harness.torch_bridge import resolve
from harness.torch_bridge.tensors import from_torch

# Checks and notices that compute nothing.
_IGNORED = {
    "torch._assert",
    "torch._check",
    "torch._check_is_size",
    "torch._C._set_grad_enabled",
    "torch._C._autograd._set_grad_enabled",
    "torch._C._log_api_usage_once",
    "aten._assert_tensor_metadata.default",
    "aten._assert_scalar.default",
    "aten._assert_async.msg",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
}


# Where tracers find bindings that have a public name of the same meaning.
_BINDINGS: tuple[tuple[Any, str], ...] = (
    (torch._C._nn, "torch.nn.functional"),
    (torch._VF, "torch"),
    (torch._C._VariableFunctions, "torch"),
)


@dataclass(frozen=True, slots=True)
class Source:
    """What a graph's placeholder or attribute stands for: its role, its path in the module, and its value in this run."""

    role: str
    name: str
    value: Any
    fqn: str | None = None
    shape: tuple[int | Sym | torch.SymInt, ...] | None = None


@dataclass
class GraphReader:
    """Reads one graph; `owner` holds its attributes and submodules, `sources` says what its placeholders are.

    `roles` maps a tensor's identity to its role and path in the user's module. `meta` is the key under which the tracer
    left each node's fake value, if it did.
    """

    graph: torch.fx.Graph
    owner: torch.nn.Module
    sources: Mapping[str, Source]
    roles: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    meta: str = "example_value"
    mode: str = "fwd"
    sizes: Sizes = field(default_factory=Sizes)

    def __post_init__(self) -> None:
        self.values: dict[str, Value] = {}
        self.taken: set[str] = {"self", "output"}
        self.modules: dict[str, ModuleRecipe] = {}
        self.state: dict[str, Data] = {}
        self.lifted: dict[str, str] = {}
        self.held: list[tuple[str, Source]] = []
        self.placeholders: list[tuple[str, Source]] = []
        self.by_identity: dict[int, Ref] = {}  # the placeholder that a tensor of this run became
        self.nodes: list[Node] = []

    def read(self, output: Callable[[Value], Value] | None = None) -> Case:
        """The graph as a case of one call; `output` puts the original structure around the graph's own output.

        Raises CaptureError naming the part that a Program cannot hold.
        """
        result: Value = None
        for node in self.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "get_attr":
                self._attribute(node)
            elif node.op == "output":
                result = self._value(node.args[0])
            elif not self._is_size(node):
                self._operator(node)
        return self._case(plain(output(result)) if output is not None else result)

    def _case(self, output: Value) -> Case:
        described = self._describe([*self.placeholders, *self.held])
        nodes: list[Node] = []
        data: dict[str, Data] = {}
        for name, source in [*self.placeholders, *self.held]:
            if name not in described:
                nodes.append(Node(name, "placeholder", name, role="symint", fqn=source.fqn, spec=self._size_spec(source)))
                continue
            spec, storage, literal = described[name]
            if self.mode != "fwd" and isinstance(source.value, torch.Tensor) and source.value.requires_grad:
                spec = dataclasses.replace(spec, requires_grad=True)
            (data if source.role == "input" else self.state)[storage] = literal
            nodes.append(Node(name, "placeholder", name, role=source.role, fqn=source.fqn, spec=spec))
        used = {ref for node in self.nodes for ref in node.inputs()} | set(Node("", "output", "", (output,)).inputs())
        program = Program((*nodes, *_without_dead_sizes(self.nodes, used), Node("output", "output", "output", (output,))), self.modules)
        symbols = tuple(symbol for symbol in self.sizes.symbols() if symbol.name in program.symbols())
        binding = {symbol.name: self.sizes.binding[symbol.name] for symbol in symbols}
        case = Case(program, (Call(binding, data),), symbols, self.state, self.mode)
        case.validate()
        return case

    def _describe(self, sources: Sequence[tuple[str, Source]]) -> dict[str, tuple[TensorSpec, str, Data]]:
        result = {}
        for inputs in (True, False):
            chosen = [
                (name, source) for name, source in sources if isinstance(source.value, torch.Tensor) and (source.role == "input") is inputs
            ]
            found = describe([(name, source.value, self._shape(source)) for name, source in chosen])
            for (name, _), each in zip(chosen, found, strict=True):
                result[name] = (each.spec, each.storage, each.data)
        return result

    def _shape(self, source: Source) -> tuple[Dim, ...] | None:
        return tuple(self.sizes.dim(size) for size in source.shape) if source.shape is not None else None

    def _size_spec(self, source: Source) -> Dim:
        assert source.shape is not None
        return self.sizes.dim(source.shape[0])

    def _placeholder(self, node: torch.fx.Node) -> None:
        source = self.sources.get(node.name)
        if source is None:
            raise CaptureError(f"nothing is known of the graph's placeholder {node.name!r}")
        if isinstance(source.value, torch.Tensor):
            if source.shape is not None:
                for size, value in zip(source.shape, source.value.shape, strict=True):
                    self.sizes.bind(size, int(value))
        elif source.shape is not None and isinstance(source.value, int):
            self.sizes.bind(source.shape[0], source.value)
            size = self.sizes.dim(source.shape[0])
            source = dataclasses.replace(source, name=str(size) if isinstance(size, Sym) else source.name)
        elif source.value is None or isinstance(source.value, bool | int | float | str):
            self.values[node.name] = source.value  # specialized: the graph holds for this value only
            return
        else:
            raise CaptureError(f"the input {source.name!r} is a {type(source.value).__name__}, which no placeholder can be")
        name = self._fresh(source.name)
        self.values[node.name] = self.by_identity[id(source.value)] = Ref(name)
        self.placeholders.append((name, source))

    def _attribute(self, node: torch.fx.Node) -> None:
        target = str(node.target)
        if target not in self.lifted:
            value = _attribute(self.owner, target)
            if not isinstance(value, torch.Tensor):
                users = ", ".join(sorted(str(user.target) for user in node.users)) or "nothing"
                raise CaptureError(f"{users} calls {target!r}, a {type(value).__name__}, which a Program cannot hold")
            role, fqn = self.roles.get(id(value), ("constant", target))
            name = self.lifted[target] = self._fresh(fqn.replace(".", "_"))
            self.held.append((name, Source(role, name, value, fqn)))
        self.values[node.name] = Ref(self.lifted[target])

    def _is_size(self, node: torch.fx.Node) -> bool:
        """Put a size that follows from the inputs' sizes in the place of the node that computes it."""
        value = node.meta.get(self.meta)
        if isinstance(value, torch.SymInt) and self.sizes.is_backed(value):
            self.values[node.name] = self.sizes.dim(value)
            return True
        return False

    def _operator(self, node: torch.fx.Node) -> None:
        op, target = node.op, node.target
        if op == "call_module":
            self._module(str(target))
        elif op == "call_function":
            if isinstance(target, torch._ops.HigherOrderOperator):
                raise CaptureError(f"{target} calls another graph, which a Program cannot hold")
            assert callable(target)
            if _qualified(target) in _IGNORED:
                return
            op, target = function_target(target)
        name = self._fresh(node.name)
        args = tuple(self._value(arg) for arg in node.args)
        kwargs = {key: self._value(arg) for key, arg in node.kwargs.items()}
        self.values[node.name] = Ref(name)
        self.nodes.append(Node(name, op, str(target), args, kwargs))

    def _module(self, attribute: str) -> None:
        if attribute in self.modules:
            return
        module = self.owner.get_submodule(attribute)
        found = recipe_of(module)
        if found is None:
            raise CaptureError(f"{attribute!r} is a {type(module).__qualname__}, whose constructor arguments cannot be read back")
        self.modules[attribute], data = found
        self.state.update({f"{attribute}.{key}": literal for key, literal in data.items()})

    def _value(self, value: Any) -> Value:
        if isinstance(value, torch.fx.Node):
            if value.name not in self.values:
                raise CaptureError(f"{value.format_node()} gives nothing that another node can read")
            return self.values[value.name]
        if isinstance(value, tuple):
            return tuple([self._value(item) for item in value])
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if isinstance(value, dict):
            return {key: self._value(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(*(self._value(part) for part in (value.start, value.stop, value.step)))
        if isinstance(value, torch.SymInt):
            return self.sizes.dim(value)
        if isinstance(value, range):
            return list(value)
        return from_torch(value)

    def _fresh(self, name: str) -> str:
        base = "".join(char if char.isalnum() or char == "_" else "_" for char in name).strip("_") or "value"
        base = f"_{base}" if base[0].isdigit() else base
        candidate, count = base, 1
        while candidate in self.taken:
            candidate, count = f"{base}_{count}", count + 1
        self.taken.add(candidate)
        return candidate


def with_output(case: Case, output: Callable[[Value], Value]) -> Case:
    """`case` with another structure around its output."""
    program = case.program
    last = Node("output", "output", "output", (plain(output(program.output)),))
    case = dataclasses.replace(case, program=dataclasses.replace(program, nodes=(*program.nodes[:-1], last)))
    case.validate()
    return case


def plain(value: Any) -> Value:
    """An output structure of any class as tuples, lists and dicts of Values; raises CaptureError for other leaves."""
    if isinstance(value, tuple):
        return tuple([plain(item) for item in value])
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return value if isinstance(value, Ref | Sym | Tensor | DType | Device | Layout | MemoryFormat) else from_torch(value)


def _without_dead_sizes(nodes: list[Node], used: set[str]) -> list[Node]:
    """Drop what only fed a size or a check: shape reads and arithmetic that nothing reads any more."""
    pure = ("operator.", "builtins.", "math.", "torch.sym_", "aten.sym_")
    kept: list[Node] = []
    for node in reversed(nodes):
        reads = node.target in ("size", "dim", "stride", "numel") if node.op == "call_method" else node.target.startswith(pure)
        writes = node.target.startswith("operator.i") or node.target == "operator.setitem"
        if reads and not writes and node.name not in used and not any(node.name in other.inputs() for other in kept):
            continue
        kept.append(node)
    return kept[::-1]


def _attribute(owner: torch.nn.Module, path: str) -> Any:
    value: Any = owner
    for part in path.split("."):
        if not hasattr(value, part):
            raise CaptureError(f"the graph reads the attribute {path!r}, which the module lacks")
        value = getattr(value, part)
    return value


def _qualified(target: Any) -> str:
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    return f"{getattr(target, '__module__', None)}.{getattr(target, '__name__', '')}"


def function_target(target: Callable[..., Any]) -> tuple[str, str]:
    """The opcode and target of a call_function; methods that are called as functions become call_method.

    Raises CaptureError for a function that cannot be named in a Program.
    """
    try:
        return "call_function", resolve.function_name(target)
    except CaptureError:
        name = getattr(target, "__name__", "")
        if isinstance(target, types.MethodDescriptorType | types.WrapperDescriptorType) and name in resolve.tensor_methods():
            return "call_method", name
        for own, public in _BINDINGS:
            if getattr(own, name, None) is target and f"{public}.{name}" in resolve.functions():
                return "call_function", f"{public}.{name}"
        private = _aten_name(name) if getattr(torch, name, None) is target else None
        if private is None:
            raise
        return "call_function", private


def _aten_name(name: str) -> str | None:
    """The aten operator behind one of torch's private functions, where it has but one overload that returns its result."""
    packet = getattr(torch.ops.aten, name, None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return None
    overloads = [overload for overload in packet.overloads() if not overload.endswith("out")]  # type: ignore[no-untyped-call]
    return f"aten.{name}.{overloads[0]}" if len(overloads) == 1 else None
