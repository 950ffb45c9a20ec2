"""A Case as a torch.nn.Module: a real fx.GraphModule that every consumer of FX graphs accepts."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from harness.errors import HarnessError
from harness.model.case import Case
from harness.model.program import Node, Program, TensorSpec
from harness.model.symbols import Dim, Sym, free_symbols
from harness.model.values import Ref, Tensor, Value, map_leaves
from harness.torch_bridge import resolve
from harness.torch_bridge.interpret import build_modules, run_program
from harness.torch_bridge.tensors import materialize, to_torch

__all__ = ["BuiltModule", "build", "build_module", "run_program"]

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "operator.add",
    ast.Sub: "operator.sub",
    ast.Mult: "operator.mul",
    ast.FloorDiv: "operator.floordiv",
    ast.Mod: "operator.mod",
}


@dataclass(frozen=True, slots=True)
class BuiltModule:
    """A module for every binding of its case.

    `input_names` are the placeholders and symbols that its inputs stand for; `attributes` maps each lifted placeholder
    to the attribute path that holds it.
    """

    case: Case
    module: torch.fx.GraphModule
    input_names: tuple[str, ...]
    attributes: Mapping[str, str]

    def inputs(self, index: int) -> tuple[Any, ...]:
        """The inputs of call `index`, in the order that the module takes them: tensors, and ints for sizes no tensor carries."""
        arguments = self.case.arguments(index)
        binding = self.case.calls[index].binding
        # State is materialized too, for an input may share its storage with a parameter's data.
        values = materialize(arguments, binding=binding)
        return tuple(values[name] if name in values else binding[name] for name in self.input_names)

    def arguments(self, inputs: tuple[Any, ...]) -> dict[str, Any]:
        """What every placeholder stands for: the given inputs, and the attributes that hold the lifted ones."""
        found: dict[str, Any] = dict(zip(self.input_names, inputs, strict=True))
        for name, path in self.attributes.items():
            *parents, last = path.split(".")
            found[name] = getattr(self.module.get_submodule(".".join(parents)), last)
        return found


def build_module(case: Case, call_index: int = 0) -> tuple[torch.fx.GraphModule, tuple[Any, ...]]:
    """The case's module, good for every call, and the inputs of call `call_index`."""
    built = build(case)
    return built.module, built.inputs(call_index)


def build(case: Case) -> BuiltModule:
    """The case as an fx.GraphModule.

    Inputs are placeholders; parameters, buffers and constants are attributes under their fully qualified names;
    call_modules are real submodules. Sizes are computed from an input's dim where one carries the symbol, so the
    module holds for every binding and exports with dynamic dims; else the symbol is an int input.
    """
    return _Builder(case).build()


class _Builder:
    def __init__(self, case: Case) -> None:
        self.case = case
        self.program: Program = case.program
        self.graph = torch.fx.Graph()
        self.root = torch.nn.Module()
        self.env: dict[str, Any] = {}
        self.inputs: list[str] = []
        self.paths: dict[str, str] = {}
        self.constants: list[str] = []
        self.sizes: dict[str, Any] = {}
        self.literals = 0

    def build(self) -> BuiltModule:
        for attribute, module in build_modules(self.case).items():
            _attach(self.root, attribute, module)
        self.placeholders()
        self.attributes()
        for node in self.program.nodes:
            if node.op == "placeholder":
                if node.role == "symint":
                    assert isinstance(node.spec, Sym | int)
                    self.env[node.name] = self.size(node.spec)
            elif node.op == "output":
                self.graph.output(self.argument(node.args[0]))
            else:
                target = resolve.function(node.target) if node.op == "call_function" else node.target
                args, kwargs = self.argument(node.args), self.argument(dict(node.kwargs))
                self.env[node.name] = self.graph.create_node(node.op, target, args, kwargs, name=node.name)
        module = torch.fx.GraphModule(self.root, self.graph, class_name="Program")
        for path in self.constants:  # GraphModule copies every tensor attribute as a persistent buffer
            _attach(module, path, module.get_buffer(path))
        module.train(any(recipe.training for recipe in self.program.modules.values()))
        for attribute, recipe in self.program.modules.items():
            module.get_submodule(attribute).train(recipe.training)
        return BuiltModule(self.case, module, tuple(self.inputs), self.paths)

    def placeholders(self) -> None:
        """Inputs first, as torch.export wants them, then the symbols that no input carries."""
        carried: set[str] = set()
        for node in self.program.placeholders:
            if node.role == "input":
                assert isinstance(node.spec, TensorSpec)
                self.env[node.name] = self.graph.create_node("placeholder", node.name, name=node.name)
                self.inputs.append(node.name)
                carried |= {dim.expr for dim in node.spec.shape if isinstance(dim, Sym)}
        for symbol in sorted(self.program.symbols() - carried):
            if self.needs(symbol):
                self.sizes[symbol] = self.graph.create_node("placeholder", symbol, name=symbol)
                self.inputs.append(symbol)

    def needs(self, symbol: str) -> bool:
        """Whether something besides the shapes of placeholders mentions `symbol`."""
        for node in self.program.nodes:
            if isinstance(node.spec, Sym) and symbol in free_symbols(node.spec):
                return True
            found: list[Value] = []
            map_leaves([list(node.args), dict(node.kwargs)], found.append)
            if any(isinstance(leaf, Sym) and symbol in free_symbols(leaf) for leaf in found):
                return True
        return False

    def attributes(self) -> None:
        arguments = materialize(self.case.arguments(0), binding=self.case.calls[0].binding)
        taken: set[str] = set(self.program.modules)
        for node in self.program.placeholders:
            if node.role in ("parameter", "buffer", "constant"):
                path = self.paths[node.name] = _free_path(node, taken)
                _attach(self.root, path, self.attribute(node, arguments[node.name]), persistent=node.role == "buffer")
                if node.role == "constant":
                    self.constants.append(path)
                self.env[node.name] = self.graph.create_node("get_attr", path, name=node.name)

    def attribute(self, node: Node, tensor: torch.Tensor) -> torch.Tensor:
        if node.role != "parameter":
            return tensor
        assert isinstance(node.spec, TensorSpec)
        return torch.nn.Parameter(tensor, requires_grad=node.spec.requires_grad)

    def argument(self, value: Value) -> Any:
        return map_leaves(value, self.leaf)

    def leaf(self, leaf: Value) -> Any:
        if isinstance(leaf, Ref):
            if leaf.node not in self.env:
                raise HarnessError(f"no value for node {leaf.node!r}")
            return self.env[leaf.node]
        if isinstance(leaf, Sym):
            return self.size(leaf)
        if isinstance(leaf, Tensor):
            name = f"_literal_{self.literals}"
            self.literals += 1
            _attach(self.root, name, to_torch(leaf))
            self.constants.append(name)
            return self.graph.create_node("get_attr", name, name=name)
        return to_torch(leaf)

    def size(self, dim: Dim) -> Any:
        """A size as graph nodes over the inputs' dims."""
        if isinstance(dim, int) or not free_symbols(dim):
            return to_torch(dim)
        if dim.expr not in self.sizes:
            self.sizes[dim.expr] = self.carrier(dim) or self.expression(ast.parse(dim.expr, mode="eval").body)
        return self.sizes[dim.expr]

    def carrier(self, dim: Sym) -> torch.fx.Node | None:
        for node in self.program.placeholders:
            if node.role == "input" and isinstance(node.spec, TensorSpec) and dim in node.spec.shape:
                return self.graph.call_method("size", (self.env[node.name], node.spec.shape.index(dim)))
        return None

    def expression(self, tree: ast.expr) -> Any:
        if isinstance(tree, ast.Constant):
            return tree.value
        if isinstance(tree, ast.Name):
            return self.size(Sym(tree.id))
        if isinstance(tree, ast.UnaryOp):
            return self.graph.call_function(resolve.function("operator.neg"), (self.expression(tree.operand),))
        assert isinstance(tree, ast.BinOp)
        function = resolve.function(_OPERATORS[type(tree.op)])
        return self.graph.call_function(function, (self.expression(tree.left), self.expression(tree.right)))


def _free_path(node: Node, taken: set[str]) -> str:
    """The attribute path of a lifted tensor: its fqn where that is one and free, else the node's name."""
    path = node.fqn or node.name
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_0-9]\w*)*", path):
        path = node.name
    # A path through another tensor or to a submodule would overwrite it.
    while any(path == other or path.startswith(f"{other}.") or other.startswith(f"{path}.") for other in taken) or hasattr(
        torch.fx.GraphModule, path.split(".")[0]
    ):
        path = f"{path.replace('.', '_')}_"
    taken.add(path)
    return path


def _attach(root: torch.nn.Module, path: str, item: torch.nn.Module | torch.Tensor, *, persistent: bool = False) -> None:
    *parents, name = path.split(".")
    for parent in parents:
        if parent not in root._modules:
            root.add_module(parent, torch.nn.Module())
        root = root.get_submodule(parent)
    if isinstance(item, torch.nn.Module):
        root.add_module(name, item)
    elif isinstance(item, torch.nn.Parameter):
        root.register_parameter(name, item)
    else:
        root.register_buffer(name, item, persistent=persistent)
