"""Running a Plan in OneFlow."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from harness.backends.oneflow.translate.plan import Expr, FlowDType, Invocation, Local, Operand, Plan
from harness.errors import HarnessError


def execute(plan: Plan, operands: Mapping[str, Any]) -> Any:
    """The plan's result, which OneFlow may still be computing; OneFlow's own errors pass through.

    Raises HarnessError where the plan names what OneFlow does not have.
    """
    oneflow = resolve("oneflow")
    scope = dict(operands)
    for name, step in plan.steps:
        result = _evaluate(oneflow, step, scope)
        if name:
            scope[name] = result
    return _evaluate(oneflow, plan.result, scope)


@lru_cache(maxsize=1024)
def resolve(path: str) -> Any:
    """The object behind a dotted path; raises HarnessError where there is none."""
    module, *names = path.split(".")
    found: Any = importlib.import_module(module)
    for name in names:
        if not hasattr(found, name):
            raise HarnessError(f"an adapter names {path}, which this OneFlow does not have")
        found = getattr(found, name)
    return found


def _evaluate(oneflow: Any, expr: Expr, scope: Mapping[str, Any]) -> Any:
    if isinstance(expr, Operand | Local):
        return scope[expr.name]
    if isinstance(expr, Invocation):
        args = [_evaluate(oneflow, item, scope) for item in expr.args]
        kwargs = {key: _evaluate(oneflow, item, scope) for key, item in expr.kwargs.items()}
        if expr.path == "()":
            return args[0](*args[1:], **kwargs)
        if expr.path[0] in ".@":
            name = expr.path[1:]
            if not hasattr(args[0], name):
                raise HarnessError(f"an adapter names {type(args[0]).__name__}.{name}, which this OneFlow does not have")
            member = getattr(args[0], name)
            return member(*args[1:], **kwargs) if expr.path[0] == "." else member
        return resolve(expr.path)(*args, **kwargs)
    if isinstance(expr, FlowDType):
        return getattr(oneflow, expr.name)
    if isinstance(expr, tuple):
        return tuple(_evaluate(oneflow, item, scope) for item in expr)
    if isinstance(expr, list):
        return [_evaluate(oneflow, item, scope) for item in expr]
    if isinstance(expr, dict):
        return {key: _evaluate(oneflow, item, scope) for key, item in expr.items()}
    if isinstance(expr, slice):
        return slice(*(_evaluate(oneflow, part, scope) for part in (expr.start, expr.stop, expr.step)))
    return expr
