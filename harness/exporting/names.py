"""Names and one-liners that exported code goes by."""

from __future__ import annotations

import re


def camel(text: str) -> str:
    """`text` as part of a class's name."""
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^0-9A-Za-z]+", text) if part)


def snake(text: str) -> str:
    """`text` as part of a function's name."""
    return re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_").lower()


def one_line(text: str, limit: int = 200) -> str:
    """The first line of `text` that says something, printable and cut at `limit` characters."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return "".join(char if char.isprintable() else "?" for char in first)[:limit]
