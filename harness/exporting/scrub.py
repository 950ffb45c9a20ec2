"""Takes out of a text what says more of its author's machine than of the bug: paths, host names, times and threads."""

from __future__ import annotations

import platform
import re
import socket
from collections.abc import Iterable

HOST = "HOST"
# Words that a text about a bug needs, whatever a machine is called.
_COMMON = {"localhost", "torch", "torch-mlir", "oneflow", "pytorch", "python", "linux", "ubuntu", "debian", "main", "host", "module"}
_UNIX = re.compile(r"(?<![\w./:<!~])/(?:[\w.+@~%-]+/)+([\w.+@%-]*)")
_HOME = re.compile(r"(?<![\w])~[\w.-]*/(?:[\w.+@-]+/)*([\w.+@-]+)")
_WINDOWS = re.compile(r"(?<![\w])[A-Za-z]:\\(?:[^\\\s\"'<>|]+\\)+([^\\\s\"'<>|]*)")
_SITE = re.compile(r".*/(?:site|dist)-packages/")
# A source file of OneFlow's, on the machine that built the wheel: what follows is where it stands in the repository.
_ONEFLOW = re.compile(r".*/(?=oneflow/(?:api|core|extension|ir|maybe|user)/)")
# glog's time and thread, which no two runs share; a docstring may have broken the line between any two words of it.
_STAMP = re.compile(r"\b[IWEF]\d{4,8}\s+\d\d:\d\d:\d\d(?:\.\d+)?\s+\d+\s+(?=[\w./+-]+:\d+\])")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{8,16}\b")


def scrub(text: str, *, hosts: Iterable[str] | None = None) -> str:
    """`text` without stamps and host names; absolute paths cut to what follows site-packages or a repository, else to the last part."""

    def shorten(match: re.Match[str]) -> str:
        whole = match[0]
        inside = _SITE.match(whole) or _ONEFLOW.match(whole)
        if inside is not None:
            return whole[inside.end() :]
        return match[1] or "..."

    text = without_stamps(text)
    for pattern in (_UNIX, _HOME, _WINDOWS):
        text = pattern.sub(shorten, text)
    for name in sorted(host_names() if hosts is None else set(hosts), key=len, reverse=True):
        if len(name) > 2 and name.lower() not in _COMMON:
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", HOST, text, flags=re.IGNORECASE)
    return text


def without_stamps(text: str) -> str:
    """`text` without the time and thread that OneFlow's log lines begin with: `shape.cpp:30] Check failed: ...`."""
    return _STAMP.sub("", text)


def scrub_diagnostics(text: str) -> str:
    """Scrubbed, and without the addresses that differ from run to run."""
    return _ADDRESS.sub("0x...", scrub(text))


def host_names() -> set[str]:
    """What this machine calls itself, with and without its domain."""
    names = {socket.gethostname(), platform.node()}
    return names | {name.partition(".")[0] for name in names}
