"""PyTorch signatures as text, and the binding of a node's arguments to them.

A signature reads like PyTorch's documentation: `input: T, dim: I = None, keepdim: b = False, *, dtype: D = None`. Types are
T tensor, i integer, I integer or integers, s number, b bool, S string, D dtype, L tensors; without one anything is
taken. `*size` takes integers or one sequence of them, as `x.view(2, 3)` and `x.view((2, 3))` both do; `*tensors: T` tensors.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from dataclasses import dataclass

from harness.backends.oneflow.translate.plan import Expr, FlowDType, Operand


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()

# Names by which the same argument goes in PyTorch's functions, in aten and in numpy-style calls.
_SYNONYMS = {"self": "input", "axis": "dim", "keepdims": "keepdim", "x": "input", "x1": "input", "x2": "other"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a PyTorch signature."""

    name: str
    kind: str = ""
    default: Expr = REQUIRED
    keyword_only: bool = False
    variadic: bool = False


@functools.lru_cache(maxsize=1024)
def parse(text: str) -> tuple[Parameter, ...]:
    """The parameters of a signature; raises SyntaxError for text that is none."""
    function = ast.parse(f"def f({text}): pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    spec = function.args
    found = []
    defaults: list[ast.expr | None] = [None] * (len(spec.args) - len(spec.defaults)) + list(spec.defaults)
    for arg, default in zip(spec.args, defaults, strict=True):
        found.append(Parameter(arg.arg, _kind(arg), _default(default)))
    if spec.vararg is not None:
        found.append(Parameter(spec.vararg.arg, _kind(spec.vararg), variadic=True))
    for arg, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        found.append(Parameter(arg.arg, _kind(arg), _default(default), keyword_only=True))
    return tuple(found)


def bind(text: str, args: tuple[Expr, ...], kwargs: Mapping[str, Expr]) -> dict[str, Expr] | str:
    """The arguments by parameter name, defaults filled in; or, where they do not fit, the reason."""
    parameters = parse(text)
    bound: dict[str, Expr] = {}
    position = 0
    named = {_SYNONYMS.get(key, key) if not any(p.name == key for p in parameters) else key: item for key, item in kwargs.items()}
    for parameter in parameters:
        if parameter.variadic:
            rest = args[position:]
            if parameter.name in named:
                rest = (named.pop(parameter.name),)
            position = len(args)
            value: Expr = tuple(rest[0]) if len(rest) == 1 and isinstance(rest[0], tuple | list) else tuple(rest)
            if not all(_fits(parameter.kind or "i", item) for item in value):
                return f"{parameter.name}={value!r}"
        elif position < len(args) and not parameter.keyword_only:
            value = args[position]
            position += 1
            if parameter.name in named:
                return f"{parameter.name} is given twice"
        elif parameter.name in named:
            value = named.pop(parameter.name)
        elif parameter.default is REQUIRED:
            return f"{parameter.name} is missing"
        else:
            bound[parameter.name] = parameter.default
            continue
        if not parameter.variadic and not (value is None and parameter.default is None) and not _fits(parameter.kind, value):
            return f"{parameter.name}={value!r}"
        bound[parameter.name] = value
    if position < len(args):
        return f"{len(args)} arguments"
    if named:
        return ", ".join(sorted(named))
    return bound


def _kind(arg: ast.arg) -> str:
    return ast.unparse(arg.annotation) if arg.annotation is not None else ""


def _default(node: ast.expr | None) -> Expr:
    return REQUIRED if node is None else ast.literal_eval(node)


def _fits(kind: str, value: Expr) -> bool:
    if kind == "T":
        return isinstance(value, Operand)
    if kind == "i":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "I":
        return _fits("i", value) or (isinstance(value, tuple | list) and all(_fits("i", item) for item in value))
    if kind == "s":
        return isinstance(value, int | float)
    if kind == "b":
        return isinstance(value, bool)
    if kind == "S":
        return isinstance(value, str)
    if kind == "D":
        return isinstance(value, FlowDType)
    if kind == "L":
        return isinstance(value, tuple | list) and all(isinstance(item, Operand) for item in value)
    return True
