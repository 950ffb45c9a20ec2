"""A module as data: an FX graph that can be written to JSON and knows no operator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from harness.errors import FormatError
from harness.model.symbols import Dim, Sym, evaluate, free_symbols
from harness.model.values import Device, DType, Layout, MemoryFormat, Value, contiguous_strides, leaves, refs

OPCODES = ("placeholder", "call_function", "call_method", "call_module", "output")
ROLES = ("input", "parameter", "buffer", "constant", "symint")
# Programs are printed as source, so whatever stands there unquoted is a name and nothing else.
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_QUALIFIED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_DEVICE = re.compile(r"[a-z]+(?::\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The dtype, shape and memory layout of a placeholder, for every binding of the symbols.

    `order` lists dims from outermost to innermost in memory (None: as written); `expanded` dims have stride 0;
    `strides` in elements, where given, wins over both. Specs with one `storage` name share memory.
    """

    dtype: str
    shape: tuple[Dim, ...]
    order: tuple[int, ...] | None = None
    expanded: tuple[int, ...] = ()
    strides: tuple[int, ...] | None = None
    offset: int = 0
    storage: str | None = None
    requires_grad: bool = False

    def concrete_shape(self, binding: Mapping[str, int]) -> tuple[int, ...]:
        """The shape in one call."""
        return tuple(evaluate(dim, binding) for dim in self.shape)

    def concrete_strides(self, binding: Mapping[str, int]) -> tuple[int, ...]:
        """The strides in one call, in elements."""
        if self.strides is not None:
            return self.strides
        shape = self.concrete_shape(binding)
        order = self.order if self.order is not None else tuple(range(len(shape)))
        if sorted(order) != list(range(len(shape))) or any(dim not in order for dim in self.expanded):
            raise FormatError(f"memory order {order} and expanded dims {self.expanded} for {len(shape)} dims")
        in_memory = tuple(1 if dim in self.expanded else shape[dim] for dim in order)
        strides = [0] * len(shape)
        for dim, stride in zip(order, contiguous_strides(in_memory), strict=True):
            strides[dim] = 0 if dim in self.expanded else stride
        return tuple(strides)

    @property
    def is_contiguous(self) -> bool:
        """Whether nothing but row-major memory was asked for."""
        return self.order is None and not self.expanded and self.strides is None and self.offset == 0


@dataclass(frozen=True, slots=True)
class Node:
    """One FX node; placeholders also say what they stand for.

    `target` is a qualified name (`torch.nn.functional.relu`, `operator.add`, `aten.roll.default`), a method's name, or
    a module's attribute. `role`, `fqn` and `spec` belong to placeholders; a symint's spec is a Sym or an int.
    """

    name: str
    op: str
    target: str
    args: tuple[Value, ...] = ()
    kwargs: Mapping[str, Value] = field(default_factory=dict)
    role: str | None = None
    fqn: str | None = None
    spec: TensorSpec | Sym | int | None = None

    def inputs(self) -> list[str]:
        """The nodes that this one reads, in order, with repetition."""
        return refs(self.args) + refs(dict(self.kwargs))


@dataclass(frozen=True, slots=True)
class ModuleRecipe:
    """How to build the module that a call_module names: class, constructor arguments, mode, and its tensors by local name."""

    cls: str
    args: tuple[Value, ...] = ()
    kwargs: Mapping[str, Value] = field(default_factory=dict)
    training: bool = False
    state: Mapping[str, TensorSpec] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Program:
    """A module as data: nodes in execution order, the last of which is the output, and recipes for its submodules."""

    nodes: tuple[Node, ...]
    modules: Mapping[str, ModuleRecipe] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def node(self, name: str) -> Node:
        """The node of this name; raises KeyError."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    @property
    def placeholders(self) -> tuple[Node, ...]:
        """All placeholders, of every role."""
        return tuple(node for node in self.nodes if node.op == "placeholder")

    @property
    def operators(self) -> tuple[Node, ...]:
        """The nodes that compute something."""
        return tuple(node for node in self.nodes if node.op.startswith("call_"))

    @property
    def output(self) -> Value:
        """The output pytree, with Refs as leaves."""
        return self.nodes[-1].args[0]

    def users(self) -> dict[str, list[str]]:
        """For each node, the nodes that read it."""
        found: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs()):
                found[name].append(node.name)
        return found

    def validate(self) -> None:
        """Check what every Program promises.

        Raises FormatError that names the node: opcodes, unique names, use after definition, one output at the end,
        roles and specs of placeholders, recipes for call_module.
        """
        seen: set[str] = set()
        if not self.nodes or self.nodes[-1].op != "output" or len(self.nodes[-1].args) != 1:
            raise FormatError("a program must end with one output node of one argument")
        for position, node in enumerate(self.nodes):
            where = f"node {node.name!r}"
            if not node.name.isidentifier():
                raise FormatError("a node's name must be an identifier", where=where)
            if node.name in seen:
                raise FormatError("the name is used twice", where=where)
            if node.op not in OPCODES:
                raise FormatError(f"opcode {node.op!r} is none of {', '.join(OPCODES)}", where=where)
            if node.op == "output" and position != len(self.nodes) - 1:
                raise FormatError("an output that is not the last node", where=where)
            for name in node.inputs():
                if name not in seen:
                    raise FormatError(f"reads {name!r}, which no earlier node defines", where=where)
            if node.op == "placeholder":
                _validate_placeholder(node, where)
            if node.op in ("call_function", "call_method") and not _QUALIFIED.fullmatch(node.target):
                raise FormatError(f"calls {node.target[:60]!r}, which is no name", where=where)
            _validate_words((node.args, dict(node.kwargs)), node.kwargs, where)
            if node.op == "call_module" and node.target not in self.modules:
                raise FormatError(f"calls module {node.target!r}, for which there is no recipe", where=where)
            seen.add(node.name)
        for attribute, recipe in self.modules.items():
            where = f"module {attribute!r}"
            if not _QUALIFIED.fullmatch(recipe.cls):
                raise FormatError(f"{recipe.cls[:60]!r} is no class's name", where=where)
            _validate_words((recipe.args, dict(recipe.kwargs)), recipe.kwargs, where)
        self.symbols()  # parses every size expression

    def symbols(self) -> frozenset[str]:
        """Every symbol that a spec or an argument mentions."""
        found: set[str] = set()
        for node in self.nodes:
            if isinstance(node.spec, TensorSpec):
                for dim in node.spec.shape:
                    found |= free_symbols(dim)
            elif node.spec is not None:
                found |= free_symbols(node.spec)
            for _, leaf in [*leaves(node.args), *leaves(dict(node.kwargs))]:
                if isinstance(leaf, Sym):
                    found |= free_symbols(leaf)
        return frozenset(found)


def _validate_placeholder(node: Node, where: str) -> None:
    if node.role not in ROLES:
        raise FormatError(f"role {node.role!r} is none of {', '.join(ROLES)}", where=where)
    if node.role == "symint" and not isinstance(node.spec, Sym | int):
        raise FormatError("a symint needs a size expression", where=where)
    if node.role != "symint" and not isinstance(node.spec, TensorSpec):
        raise FormatError("a placeholder needs a dtype and a shape", where=where)


def _validate_words(values: Value, keywords: Iterable[str], where: str) -> None:
    """Raise FormatError for a keyword, dtype, layout, memory format or device that is no name."""
    for key in keywords:
        if not _NAME.fullmatch(key):
            raise FormatError(f"the keyword {key[:60]!r} is no name", where=where)
    for _, leaf in leaves(values):
        if isinstance(leaf, DType | Layout | MemoryFormat) and not _NAME.fullmatch(leaf.name):
            raise FormatError(f"{leaf.name[:60]!r} is no {type(leaf).__name__}", where=where)
        if isinstance(leaf, Device) and not _DEVICE.fullmatch(leaf.name):
            raise FormatError(f"{leaf.name[:60]!r} is no device", where=where)
