"""The parts of a repro.py by name, so that shorter forms say what the proven script says.

A stored entry has lost the reference's traces, from which a script of several nodes was rendered; its repro.py has not.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import Unsupported


@dataclass(frozen=True, slots=True)
class Pieces:
    """Top-level definitions and assignments of a script, in order: the source of each by name."""

    parts: Mapping[str, str]

    def source(self, name: str) -> str:
        """The source of one definition; raises Unsupported where the script has no such part."""
        if name not in self.parts:
            raise Unsupported(f"repro.py has no {name!r}: it was changed by hand, so only `--as script` shows it")
        return self.parts[name]

    def before(self, name: str) -> list[str]:
        """The sources of everything that stands before one definition; raises Unsupported."""
        self.source(name)
        names = list(self.parts)
        return [self.parts[each] for each in names[: names.index(name)]]

    def body(self, name: str) -> tuple[list[str], str]:
        """A function's statements, dedented, and the expression that it returns at its end; raises Unsupported."""
        text = self.source(name)
        (function,) = ast.parse(text).body
        if not isinstance(function, ast.FunctionDef) or not isinstance(function.body[-1], ast.Return) or function.body[-1].value is None:
            raise Unsupported(f"repro.py's {name}() does not end in a result")
        lines = text.split("\n")[function.body[0].lineno - 1 : function.body[-1].lineno - 1]
        return textwrap.dedent("\n".join(lines)).split("\n") if lines else [], ast.unparse(function.body[-1].value)

    def items(self, name: str) -> list[ast.expr]:
        """The items of an assigned list; raises Unsupported."""
        (statement,) = ast.parse(self.source(name)).body
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.List):
            raise Unsupported(f"repro.py's {name} is no list")
        return statement.value.elts


def pieces(script: str) -> Pieces:
    """The parts of a repro.py; raises Unsupported where it is not Python."""
    try:
        tree = ast.parse(script)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unsupported(f"repro.py is not Python: {error}") from error
    lines = script.split("\n")
    found: dict[str, str] = {}
    for node in tree.body:
        text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found[node.name] = text
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = text
    return Pieces(found)
