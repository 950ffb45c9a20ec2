"""Absolute paths cut short, so that what is stored and shared tells of a bug and not of the machine that saw it."""

from __future__ import annotations

import re

_UNIX = re.compile(r"(?<![\w./:<!~])/(?:[\w.+@~%-]+/)+([\w.+@%-]*)")
_SITE = re.compile(r".*/(?:site|dist)-packages/")
# A source file of OneFlow's, on the machine that built the wheel: what follows is where it stands in the repository.
_ONEFLOW = re.compile(r".*/(?=oneflow/(?:api|core|extension|ir|maybe|user)/)")


def shorten_paths(text: str) -> str:
    """`text` with each absolute path cut to what follows site-packages or OneFlow's repository, or to its last part."""

    def shorten(match: re.Match[str]) -> str:
        inside = _SITE.match(match[0]) or _ONEFLOW.match(match[0])
        return match[0][inside.end() :] if inside is not None else match[1] or "..."

    return _UNIX.sub(shorten, text)
