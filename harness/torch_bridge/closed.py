"""Whether a case calls only what fxdiff would call, before its program is handed to anybody as a script."""

from __future__ import annotations

from harness.errors import FormatError, UnknownName
from harness.model.case import Case
from harness.model.program import Node
from harness.torch_bridge import resolve


def check_closed(case: Case, *, where: str = "") -> None:
    """Raise FormatError for a function, method, attribute or class that is on none of the lists that workers call by.

    What ran in a worker need not be checked; this is for a case that was only read from a file.
    """
    for node in case.program.operators:
        try:
            _check(node)
        except UnknownName as error:
            raise FormatError(f"node {node.name!r}: {error}", where=where) from error
    for attribute, recipe in case.program.modules.items():
        try:
            resolve.module_class(recipe.cls)
        except UnknownName as error:
            raise FormatError(f"module {attribute!r}: {error}", where=where) from error


def _check(node: Node) -> None:
    if node.op == "call_function":
        resolve.function(node.target)
        if node.target == "builtins.getattr":
            resolve.check_attribute(node.args[1] if len(node.args) > 1 else "")
    elif node.op == "call_method":
        resolve.check_method(node.target)
