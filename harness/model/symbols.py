"""Integer expressions over symbolic sizes: parsed by a closed grammar, never evaluated as code."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import FormatError

MAX_EXPRESSION = 400
# Expressions are printed as they stand: a comment or a line's end in one would take what follows along.
_PLAIN = re.compile(r"[\w +\-*/%()]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Sym:
    """An integer expression over symbols, such as `s0*2`: names, integers, + - * // % and parentheses."""

    expr: str

    def __str__(self) -> str:
        return self.expr


Dim = int | Sym


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbolic size with its inclusive range."""

    name: str
    low: int = 0
    high: int = 64


@functools.lru_cache(maxsize=4096)
def _parse(expr: str) -> ast.expr:
    if len(expr) > MAX_EXPRESSION:
        raise FormatError(f"size expression of {len(expr)} characters; at most {MAX_EXPRESSION} are taken")
    if not _PLAIN.fullmatch(expr):
        raise FormatError(f"size expression {expr!r} is not an integer expression")
    try:
        tree = ast.parse(expr, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise FormatError(f"size expression {expr!r} is not an integer expression") from error
    for node in ast.walk(tree):
        allowed = (
            (isinstance(node, ast.Constant) and type(node.value) is int)
            or isinstance(node, ast.Name | ast.Load | ast.BinOp | ast.UnaryOp | ast.USub)
            or isinstance(node, ast.Add | ast.Sub | ast.Mult | ast.FloorDiv | ast.Mod)
        )
        if not allowed:
            raise FormatError(f"size expression {expr!r} holds {type(node).__name__}, which is not allowed")
    return tree


def _evaluate(node: ast.expr, binding: Mapping[str, int], expr: str) -> int:
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, int)
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in binding:
            raise FormatError(f"size expression {expr!r} uses {node.id}, which has no value in this call")
        return binding[node.id]
    if isinstance(node, ast.UnaryOp):
        return -_evaluate(node.operand, binding, expr)
    assert isinstance(node, ast.BinOp)
    left, right = _evaluate(node.left, binding, expr), _evaluate(node.right, binding, expr)
    if isinstance(node.op, ast.Add):
        return left + right
    if isinstance(node.op, ast.Sub):
        return left - right
    if isinstance(node.op, ast.Mult):
        return left * right
    if right == 0:
        raise FormatError(f"size expression {expr!r} divides by zero")
    return left // right if isinstance(node.op, ast.FloorDiv) else left % right


def evaluate(dim: Dim, binding: Mapping[str, int]) -> int:
    """The value of a dim in one call.

    Raises FormatError for a malformed expression or a symbol without a value.
    """
    return dim if isinstance(dim, int) else _evaluate(_parse(dim.expr), binding, dim.expr)


def free_symbols(dim: Dim) -> frozenset[str]:
    """The symbols that a dim mentions."""
    if isinstance(dim, int):
        return frozenset()
    return frozenset(node.id for node in ast.walk(_parse(dim.expr)) if isinstance(node, ast.Name))
