"""A graph as a table, without the package that onefx's own print_tabular needs."""

from __future__ import annotations

from typing import Any

_HEADS = ("opcode", "name", "target", "args", "kwargs")


def tabular(graph: Any) -> str:
    """Opcode, name, target, args and kwargs of every node, in columns."""
    rows = [tuple(map(str, (node.op, node.name, node.target, node.args, node.kwargs))) for node in graph.nodes]
    return columns([_HEADS, tuple("-" * len(head) for head in _HEADS), *rows])


def print_tabular(graph: Any) -> None:
    """Print the table."""
    print(tabular(graph))


def columns(rows: list[tuple[str, ...]], *, right: tuple[int, ...] = ()) -> str:
    """Rows of texts in columns of one width; the columns in `right` are aligned to the right."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if index in right else cell.ljust(width) for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
