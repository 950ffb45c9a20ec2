"""The table of adapters: canonical operator name to the forms in which PyTorch offers it and OneFlow's way to say it.

A form is a PyTorch signature and a template: `form("input: T, dim: I", "oneflow.roll(input, dim)")`. The names in the
template are parameters; a parameter that it does not mention is one that OneFlow does not offer, so any value but the default
is Unsupported. Where a template cannot say it, a function from the bound arguments gives an Expr or a Plan. Adapters
translate spelling and nothing else: they neither emulate what OneFlow lacks nor work around what it does wrong.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace

from harness.backends.oneflow.errors import OneFlowUnsupported
from harness.backends.oneflow.translate.plan import Expr, Invocation, Operand, Plan, map_expr
from harness.backends.oneflow.translate.signature import bind, parse
from harness.errors import HarnessError, UnknownName

Adapt = Callable[[SimpleNamespace], Expr]

# Arguments whose values below say nothing about the result on CPU, whatever the operator.
_NEUTRAL: dict[str, tuple[Expr, ...]] = {
    "device": (None, "cpu"),
    "layout": (None, "strided"),
    "pin_memory": (None, False),
    "requires_grad": (False, None),
    "memory_format": (None, "contiguous_format", "preserve_format"),
    "non_blocking": (False, True),
    "_stacklevel": (3, 5),
    "generator": (None,),
    "out": (None,),
}


@dataclass(frozen=True, slots=True)
class Form:
    """One signature under which PyTorch offers an operator, and how OneFlow is asked for it."""

    signature: str
    template: str = ""
    adapt: Adapt | None = None


@dataclass(frozen=True, slots=True)
class Adapter:
    """Every form of one canonical operator, tried in order."""

    name: str
    forms: tuple[Form, ...]


_ADAPTERS: dict[str, Adapter] = {}


def form(signature: str, template: str | Adapt) -> Form:
    """A Form from a template or from a function of the bound arguments."""
    return Form(signature, template) if isinstance(template, str) else Form(signature, "", template)


def op(names: str, *forms: Form) -> None:
    """Register an adapter under each canonical name in `names`; `{}` in its templates, and `op` in what functions get, is the name.

    A name such as `method:where` or `aten:embedding` is for that spelling alone and wins over the bare one; so does one of aten's
    own names, such as `aten:reflection_pad2d`, over the canonical one.
    """
    for name in names.split():
        if name in _ADAPTERS:
            raise HarnessError(f"two adapters for {name!r}")
        mine = tuple(Form(f.signature, f.template.replace("{}", name.rpartition(":")[2]), f.adapt) for f in forms)
        _ADAPTERS[name] = Adapter(name, mine)


def adapters() -> Mapping[str, Adapter]:
    """Every adapter by canonical operator name."""
    return _ADAPTERS


def adapt(name: str, args: tuple[Expr, ...], kwargs: Mapping[str, Expr]) -> Plan:
    """The plan for one operator with converted arguments.

    Raises OneFlowUnsupported (signature) where no form fits what OneFlow offers, UnknownName for a name not in the table.
    """
    adapter = _ADAPTERS.get(name)
    if adapter is None:
        raise UnknownName("operator", name, _ADAPTERS)
    reasons = []
    for candidate in adapter.forms:
        bound = bind(candidate.signature, args, kwargs)
        if isinstance(bound, str):
            reasons.append(bound)
            continue
        return apply(name, candidate, bound)
    raise OneFlowUnsupported("signature", f"{name} is not offered with these arguments ({'; '.join(dict.fromkeys(reasons))})")


def apply(name: str, candidate: Form, bound: dict[str, Expr]) -> Plan:
    """The plan of one form for bound arguments; raises OneFlowUnsupported for an argument that OneFlow does not offer."""
    if candidate.adapt is not None:
        neutral = {key: item for key, item in bound.items() if key in _NEUTRAL}
        _refuse_unoffered(name, candidate.signature, neutral, frozenset())
        result = candidate.adapt(SimpleNamespace(op=name.rpartition(":")[2], **bound))
        return result if isinstance(result, Plan) else Plan(result)
    expr, mentioned = _parse_template(candidate.template)
    _refuse_unoffered(name, candidate.signature, bound, mentioned)
    return Plan(_substitute(expr, bound))


def _refuse_unoffered(name: str, signature: str, bound: Mapping[str, Expr], mentioned: frozenset[str]) -> None:
    for parameter in parse(signature):
        if parameter.name in mentioned or parameter.name not in bound:
            continue
        value = bound[parameter.name]
        allowed = _NEUTRAL.get(parameter.name, (parameter.default,))
        if not any(isinstance(value, bool) == isinstance(item, bool) and value == item for item in allowed):
            raise OneFlowUnsupported("signature", f"OneFlow's {name} takes no {parameter.name}={value!r}")


@dataclass(frozen=True, slots=True)
class _Slot:
    name: str
    spread: bool = False


@functools.lru_cache(maxsize=2048)
def _parse_template(template: str) -> tuple[Expr, frozenset[str]]:
    names: set[str] = set()
    return _expr(ast.parse(template, mode="eval").body, names), frozenset(names)


def _expr(node: ast.expr, names: set[str]) -> Expr:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        names.add(node.id)
        return _Slot(node.id)
    if isinstance(node, ast.Starred) and isinstance(node.value, ast.Name):
        names.add(node.value.id)
        return _Slot(node.value.id, spread=True)
    if isinstance(node, ast.Tuple):
        return tuple(_expr(item, names) for item in node.elts)
    if isinstance(node, ast.List):
        return [_expr(item, names) for item in node.elts]
    if isinstance(node, ast.Subscript):
        return Invocation("operator.getitem", (_expr(node.value, names), _expr(node.slice, names)))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        args = tuple(_expr(item, names) for item in node.args)
        kwargs = {str(item.arg): _expr(item.value, names) for item in node.keywords}
        dotted = ast.unparse(node.func)
        if dotted.split(".")[0] in ("oneflow", "operator"):
            return Invocation(dotted, args, kwargs)
        return Invocation(f".{node.func.attr}", (_expr(node.func.value, names), *args), kwargs)
    raise HarnessError(f"the template {ast.unparse(node)!r} is beyond what templates can say")


def _substitute(expr: Expr, bound: Mapping[str, Expr]) -> Expr:
    if isinstance(expr, Invocation):
        args: list[Expr] = []
        for item in expr.args:
            if isinstance(item, _Slot) and item.spread:
                args.extend(bound[item.name])
            else:
                args.append(_substitute(item, bound))
        return Invocation(expr.path, tuple(args), {key: _substitute(item, bound) for key, item in expr.kwargs.items()})
    return map_expr(expr, lambda leaf: bound[leaf.name] if isinstance(leaf, _Slot) else leaf)


def said(template: str, values: Mapping[str, Expr]) -> Expr:
    """A template with `values` for its names, for adapters that first work out what to say."""
    return _substitute(_parse_template(template)[0], values)


def call(path: str, *args: Expr, **kwargs: Expr) -> Invocation:
    """An Invocation without the keyword arguments that are None."""
    return Invocation(path, args, {key: item for key, item in kwargs.items() if item is not None})


def rank(value: Expr) -> int:
    """The number of dims of a tensor operand; raises HarnessError for anything else."""
    if not isinstance(value, Operand):
        raise HarnessError(f"{type(value).__name__} where a tensor is needed")
    return len(value.shape)


def refuse(name: str, what: str) -> OneFlowUnsupported:
    """The error for an argument or form that OneFlow's operator does not offer."""
    return OneFlowUnsupported("signature", f"OneFlow's {name} takes no {what}")
