"""What a translation is: calls of OneFlow's public API as data, to be executed, tested without OneFlow, or printed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Expr = Any  # an Invocation, Operand, Local, FlowDType, Python scalar, None, Ellipsis, slice, or tuple/list/dict of these


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that the node reads: a name for it, and what adapters may know of it."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Local:
    """The result of an earlier step of the same plan."""

    name: str


@dataclass(frozen=True, slots=True)
class FlowDType:
    """A OneFlow dtype by its name in the `oneflow` namespace."""

    name: str


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call.

    `path` is a function or class (`oneflow.roll`, `operator.add`), a method of the first argument (`.view`), an
    attribute of it (`@shape`), or `()`, which calls the first argument itself.
    """

    path: str
    args: tuple[Expr, ...] = ()
    kwargs: Mapping[str, Expr] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run for one node: named steps in order (an empty name discards the result), then the result."""

    result: Expr
    steps: tuple[tuple[str, Expr], ...] = ()

    def invocations(self) -> Iterator[Invocation]:
        """Every call in the plan, outermost first."""
        for expr in (*(step for _, step in self.steps), self.result):
            yield from _invocations(expr)


def map_expr(expr: Expr, function: Callable[[Expr], Expr]) -> Expr:
    """`expr` with `function` applied to each leaf; calls, containers and slices are rebuilt."""
    if isinstance(expr, Invocation):
        kwargs = {key: map_expr(item, function) for key, item in expr.kwargs.items()}
        return Invocation(expr.path, tuple(map_expr(item, function) for item in expr.args), kwargs)
    if isinstance(expr, tuple):
        return tuple(map_expr(item, function) for item in expr)
    if isinstance(expr, list):
        return [map_expr(item, function) for item in expr]
    if isinstance(expr, dict):
        return {key: map_expr(item, function) for key, item in expr.items()}
    if isinstance(expr, slice):
        return slice(map_expr(expr.start, function), map_expr(expr.stop, function), map_expr(expr.step, function))
    return function(expr)


def _invocations(expr: Expr) -> Iterator[Invocation]:
    if isinstance(expr, Invocation):
        yield expr
        for item in (*expr.args, *expr.kwargs.values()):
            yield from _invocations(item)
    elif isinstance(expr, tuple | list):
        for item in expr:
            yield from _invocations(item)
    elif isinstance(expr, dict):
        for item in expr.values():
            yield from _invocations(item)


_OPERATORS = {
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
_STATEMENTS = {
    f"operator.i{name.rstrip('_')}": f"{sign}=" for name, sign in _OPERATORS.items() if name not in ("eq", "ne", "lt", "le", "gt", "ge")
}
_PREFIX = {"neg": "-", "pos": "+", "invert": "~"}


def render(expr: Expr) -> str:
    """`expr` as Python source that needs `import oneflow`, and the names of its operands and locals."""
    if isinstance(expr, Invocation):
        return _render_call(expr)
    if isinstance(expr, Operand | Local):
        return expr.name
    if isinstance(expr, FlowDType):
        return f"oneflow.{expr.name}"
    if isinstance(expr, float) and not math.isfinite(expr):
        return f'float("{expr}")'
    if isinstance(expr, tuple):
        return "(" + ", ".join(render(item) for item in expr) + ("," if len(expr) == 1 else "") + ")"
    if isinstance(expr, list):
        return "[" + ", ".join(render(item) for item in expr) + "]"
    if isinstance(expr, dict):
        return "{" + ", ".join(f"{key!r}: {render(item)}" for key, item in expr.items()) + "}"
    if isinstance(expr, slice):
        return f"slice({render(expr.start)}, {render(expr.stop)}, {render(expr.step)})"
    if expr is Ellipsis:
        return "..."
    if isinstance(expr, str | bool | int | float) or expr is None:
        return repr(expr)
    raise TypeError(f"{type(expr).__name__} cannot stand in a plan")


def render_plan(plan: Plan, result: str = "result") -> str:
    """A plan as lines of Python source that leave its result in a variable of this name."""
    lines = [f"{name} = {render(expr)}" if name else render(expr) for name, expr in plan.steps]
    return "\n".join([*lines, *_render_result(plan.result, result)])


def _render_result(expr: Expr, result: str) -> list[str]:
    if isinstance(expr, Invocation) and expr.path in _STATEMENTS and isinstance(expr.args[0], Operand | Local):
        target = expr.args[0].name
        return [f"{target} {_STATEMENTS[expr.path]} {render(expr.args[1])}", f"{result} = {target}"]
    if isinstance(expr, Invocation) and expr.path == "operator.setitem":
        return [f"{_receiver(expr.args[0])}[{_index_text(expr.args[1])}] = {render(expr.args[2])}", f"{result} = None"]
    return [f"{result} = {render(expr)}"]


def _render_call(call: Invocation) -> str:
    if call.path.startswith("operator."):
        return _render_operator(call)
    args = call.args
    if call.path == "()":
        head, args = render(args[0]), args[1:]
    elif call.path.startswith("@"):
        return f"{_receiver(args[0])}.{call.path[1:]}"
    elif call.path.startswith("."):
        head, args = f"{_receiver(args[0])}{call.path}", args[1:]
    else:
        head = call.path
    parts = [*(render(item) for item in args), *(f"{key}={render(item)}" for key, item in call.kwargs.items())]
    return f"{head}({', '.join(parts)})"


def _receiver(expr: Expr) -> str:
    text = render(expr)
    return text if isinstance(expr, Operand | Local | Invocation) and not text.startswith(("-", "~", "+", "(")) else f"({text})"


def _operand_text(expr: Expr) -> str:
    text = render(expr)
    negative = isinstance(expr, int | float) and text.startswith("-")
    return f"({text})" if negative or (isinstance(expr, Invocation) and expr.path.startswith("operator.")) else text


def _render_operator(call: Invocation) -> str:
    name = call.path.removeprefix("operator.")
    if name in _OPERATORS:
        return f"({_operand_text(call.args[0])} {_OPERATORS[name]} {_operand_text(call.args[1])})"
    if name in _PREFIX:
        return f"({_PREFIX[name]}{_operand_text(call.args[0])})"
    if name == "getitem":
        return f"{_receiver(call.args[0])}[{_index_text(call.args[1])}]"
    if name == "abs":
        return f"abs({render(call.args[0])})"
    return f"{call.path}({', '.join(render(item) for item in call.args)})"


def _index_text(index: Expr) -> str:
    if isinstance(index, tuple) and index:
        return ", ".join(_index_part(item) for item in index) + ("," if len(index) == 1 else "")
    return _index_part(index)


def _index_part(index: Expr) -> str:
    if not isinstance(index, slice):
        return render(index)
    text = ":".join("" if part is None else render(part) for part in (index.start, index.stop))
    return text if index.step is None else f"{text}:{render(index.step)}"
