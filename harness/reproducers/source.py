"""A Program or Case as the PyTorch source that a person would have written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.model.case import Case
from harness.model.dtypes import DTYPES
from harness.model.program import Node, Program, TensorSpec
from harness.model.symbols import Sym, free_symbols
from harness.model.values import Tensor, Value, leaves, refs
from harness.reproducers.literals import identifier, index_source, storage_source, tensor_source, value_source

_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "matmul": "@",
    "and_": "&",
    "or_": "|",
    "xor": "^",
    "lshift": "<<",
    "rshift": ">>",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}
_PREFIX = {"neg": "-", "pos": "+", "invert": "~"}
# Names that the surrounding script uses.
_RESERVED = {"torch", "F", "self", "operator", "math", "nan", "inf", "np", "flow", "sys", "re", "ctypes", "signal", "subprocess"}
_RESERVED |= {"fx", "ir", "passmanager", "runtime", "module", "inputs", "later_inputs", "expected", "actual", "M"}
_RESERVED |= {"lower", "run", "execute", "check", "agrees", "pass_bfloat16_as_bits"}
_FUNCTIONAL = "torch.nn.functional."


@dataclass(frozen=True)
class ModuleSource:
    """A class and what it takes to call it: forward's arguments by placeholder name, and their names in the source."""

    text: str
    class_name: str
    arguments: Mapping[str, str]
    training: bool | None  # the submodules' mode; None: there are none, or they differ and __init__ sets them


class _Writer:
    def __init__(self, case: Case, call: int, class_name: str, flat: bool) -> None:
        self.case = case
        self.program = case.program
        self.values = case.arguments(call)
        self.binding = case.calls[call].binding
        self.flat = flat
        self.class_name = class_name
        self.names: dict[str, str] = {}
        builtin = {node.target.removeprefix("builtins.") for node in self.program.operators if node.target.startswith("builtins.")}
        self.taken = set(_RESERVED) | self.program.symbols() | builtin
        modes = {recipe.training for recipe in self.program.modules.values()}
        self.uniform = len(modes) == 1
        self.training = next(iter(modes)) if self.uniform else None

    def write(self) -> ModuleSource:
        arguments = self.arguments()
        init = [*self.submodules(), *self.state()]
        body = [*self.sizes(arguments), *self.forward()]
        lines = [f"class {self.class_name}(torch.nn.Module):"]
        if init:
            lines += ["    def __init__(self):", "        super().__init__()", *(f"        {line}" for line in init), ""]
        head = ", ".join(["self", *arguments.values()])
        lines += [f"    def forward({head}):", *(f"        {line}" for line in body)]
        return ModuleSource("\n".join(lines) + "\n", self.class_name, arguments, self.training)

    def arguments(self) -> dict[str, str]:
        """Forward's arguments: the inputs, the sizes that no input shows, and with `flat` the state too."""
        shown = {dim.expr for node in self.inputs() for dim in _dims(node) if isinstance(dim, Sym)}
        result: dict[str, str] = {}
        inputs = [node for node in self.program.placeholders if node.role == "input"]
        for node in self.program.placeholders:
            if node.role == "symint":
                if isinstance(node.spec, int):
                    self.names[node.name] = str(node.spec)
                    continue
                assert isinstance(node.spec, Sym)
                if all(name in shown for name in free_symbols(node.spec)):
                    self.names[node.name] = node.spec.expr if node.spec.expr.isidentifier() else f"({node.spec.expr})"
                    continue
                if node.spec.expr in self.program.symbols():
                    result[node.name] = self.names[node.name] = node.spec.expr
                    continue
            elif node.role != "input" and not self.flat:
                continue
            name = "x" if node in inputs and len(inputs) == 1 else node.name
            result[node.name] = self.names[node.name] = identifier(name, self.taken)
        return result

    def inputs(self) -> list[Node]:
        roles = ("input",) if not self.flat else ("input", "parameter", "buffer", "constant")
        return [node for node in self.program.placeholders if node.role in roles]

    def submodules(self) -> Iterator[str]:
        for attribute, recipe in self.program.modules.items():
            name = self.names[f"module {attribute}"] = f"self.{identifier(attribute, self.taken)}"
            args = [value_source(arg, {}) for arg in recipe.args]
            args += [f"{key}={value_source(arg, {})}" for key, arg in recipe.kwargs.items()]
            yield f"{name} = {recipe.cls}({', '.join(args)})" + (".eval()" if not self.uniform and not recipe.training else "")
            state = self.case.module_state(attribute)
            if state:
                yield f"{name}.load_state_dict({{"
                for key, tensor in state.items():
                    head = f"    {value_source(key, {})}: "
                    yield from f"{head}{tensor_source(tensor, indent=' ' * len(head))},".split("\n")
                yield "}, strict=False, assign=True)"

    def state(self) -> Iterator[str]:
        if self.flat:
            return
        shared = _shared_storages(self.program, ("parameter", "buffer", "constant"))
        bases: dict[str, str] = {}
        for node in self.program.placeholders:
            if node.role not in ("parameter", "buffer", "constant"):
                continue
            tensor = self.values[node.name]
            assert isinstance(tensor, Tensor)
            name = identifier((node.fqn or node.name).replace(".", "_"), self.taken)
            self.names[node.name] = f"self.{name}"
            if tensor.storage in shared and tensor.storage not in bases:
                head = f"{identifier('base', self.taken)} = "
                bases[tensor.storage] = head.removesuffix(" = ")
                views = [v for v in self.values.values() if isinstance(v, Tensor) and v.storage == tensor.storage]
                yield from f"{head}{storage_source(*views, indent=' ' * len(head))}".split("\n")
            is_parameter = node.role == "parameter" and DTYPES[tensor.dtype].kind in ("float", "complex")
            head = f"self.{name} = torch.nn.Parameter(" if is_parameter else f'self.register_buffer("{name}", '
            literal = tensor_source(tensor, base=bases.get(tensor.storage or ""), indent=" " * len(head))
            yield from f"{head}{literal})".split("\n")

    def sizes(self, arguments: Mapping[str, str]) -> Iterator[str]:
        """Sizes that the body mentions, read from the first input that shows them."""
        wanted = {symbol for node in self.program for leaf in _syms(node) for symbol in free_symbols(leaf)}
        for node in self.program.placeholders:
            if node.role == "symint" and isinstance(node.spec, Sym) and node.name not in arguments:
                wanted |= free_symbols(node.spec)
        for symbol in sorted(wanted - set(arguments.values())):
            place = next(
                ((node, axis) for node in self.inputs() for axis, dim in enumerate(_dims(node)) if dim == Sym(symbol)),
                None,
            )
            if place is not None:
                yield f"{symbol} = {arguments[place[0].name]}.shape[{place[1]}]"
            else:
                yield f"{symbol} = {self.binding[symbol]}"

    def forward(self) -> Iterator[str]:
        users = self.program.users()
        output = self.program.output
        last = self.program.operators[-1] if self.program.operators else None
        for node in self.program.operators:
            text = self.expression(node)
            once = refs(output).count(node.name) == 1 and users[node.name] == [self.program.nodes[-1].name]
            if text.startswith("DO "):
                yield text[3:]
                self.names[node.name] = "None"
            elif node is last and once:
                self.names[node.name] = text
            elif not users[node.name]:
                yield text
            else:
                name = identifier(node.name, self.taken)
                self.names[node.name] = name
                yield f"{name} = {text}"
        yield f"return {value_source(output, self.names)}"

    def expression(self, node: Node) -> str:
        args = [value_source(arg, self.names) for arg in node.args]
        kwargs = [f"{key}={value_source(arg, self.names)}" for key, arg in node.kwargs.items()]
        if node.op == "call_method":
            return f"{_receiver(args[0])}.{node.target}({', '.join(args[1:] + kwargs)})"
        if node.op == "call_module":
            return f"{self.names[f'module {node.target}']}({', '.join(args + kwargs)})"
        space, _, name = node.target.rpartition(".")
        if space == "operator" and not kwargs:
            if name in _INFIX and len(args) == 2:
                return f"{_operand(args[0])} {_INFIX[name]} {_operand(args[1])}"
            if name in _PREFIX and len(args) == 1:
                return f"{_PREFIX[name]}{_operand(args[0])}"
            if name == "getitem":
                return f"{_operand(args[0])}[{index_source(node.args[1], self.names)}]"
            if name == "setitem" and len(args) == 3:
                return f"DO {_operand(args[0])}[{index_source(node.args[1], self.names)}] = {args[2]}"
        if node.target == "builtins.getattr" and len(args) == 2 and isinstance(node.args[1], str) and node.args[1].isidentifier():
            return f"{_receiver(args[0])}.{node.args[1]}"
        return f"{_callable(node.target)}({', '.join(args + kwargs)})"


def _callable(target: str) -> str:
    if target.startswith(_FUNCTIONAL):
        return "F." + target.removeprefix(_FUNCTIONAL)
    if target.startswith(("aten.", "prims.")):
        return f"torch.ops.{target}"
    return target.removeprefix("builtins.")


def _operand(text: str) -> str:
    """`text` in parentheses unless it is a name, a plain number or parenthesized already."""
    return text if re.fullmatch(r"[\w.]+|\([^()]*\)", text) else f"({text})"


def _receiver(text: str) -> str:
    return f"({text})" if text[0].isdigit() else _operand(text)


def _dims(node: Node) -> tuple[int | Sym, ...]:
    return node.spec.shape if isinstance(node.spec, TensorSpec) else ()


def _syms(node: Node) -> Iterator[Sym]:
    for _, leaf in [*leaves(node.args), *leaves(dict(node.kwargs))]:
        if isinstance(leaf, Sym):
            yield leaf


def _shared_storages(program: Program, roles: tuple[str, ...]) -> set[str]:
    names = [node.spec.storage for node in program.placeholders if node.role in roles and isinstance(node.spec, TensorSpec)]
    return {name for name in names if name is not None and names.count(name) > 1}


def module_source(case: Case, *, call: int = 0, class_name: str = "M", flat: bool = False) -> ModuleSource:
    """The program as an nn.Module class; with `flat`, parameters and buffers become arguments of forward."""
    return _Writer(case, call, class_name, flat).write()


def arguments_source(case: Case, module: ModuleSource, *, call: int = 0) -> list[str]:
    """Statements that make forward's arguments of one call, under the names that `module.arguments` gives them."""
    values = case.arguments(call)
    shared = _shared_storages(case.program, ("input", "parameter", "buffer", "constant"))
    bases: dict[str, str] = {}
    taken = set(module.arguments.values()) | _RESERVED
    lines: list[str] = []
    for node, name in module.arguments.items():
        value: Value = values[node]
        if not isinstance(value, Tensor):
            lines.append(f"{name} = {value!r}")
            continue
        if value.storage in shared and value.storage not in bases:
            bases[value.storage] = identifier(f"base_{value.storage}", taken)
            views = [v for v in values.values() if isinstance(v, Tensor) and v.storage == value.storage]
            lines.append(f"{bases[value.storage]} = {storage_source(*views)}")
        prefix = " " * (len(name) + 3)
        lines.append(f"{name} = {tensor_source(value, base=bases.get(value.storage or ''), indent=prefix)}")
    return lines


def imports_source(body: str) -> str:
    """The import lines that `body` needs, one a line."""
    lines = []
    mathematics = [name for name in ("inf", "nan") if re.search(rf"(?<![\w.\"]){name}\b", body)]
    if re.search(r"\boperator\.", body):
        lines.append("import operator")
    if re.search(r"\bmath\.", body):
        lines.append("import math")
    if mathematics:
        lines.append(f"from math import {', '.join(mathematics)}")
    if lines:
        lines.append("")
    lines.append("import torch")
    if re.search(r"(?<![\w.])F\.", body):
        lines.append("import torch.nn.functional as F")
    return "\n".join(lines) + "\n"


def case_source(case: Case, *, call: int = 0, result: str = "actual") -> str:
    """A whole script for people: imports, the class, literal inputs, and the call that gives `actual` or `expected`, as `result` says."""
    module = module_source(case, call=call)
    mode = ".eval()" if module.training is False else ""
    statements = arguments_source(case, module, call=call)
    given = f"{result} = {module.class_name}(){mode}({', '.join(module.arguments.values())})"
    body = "\n\n".join([module.text, "\n".join([*statements, given])])
    return f"{imports_source(body)}\n\n{body}\n"
