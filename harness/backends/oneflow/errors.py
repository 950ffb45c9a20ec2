"""How this target says that OneFlow does not do something, and why."""

from __future__ import annotations

from harness.errors import Unsupported

# missing: OneFlow has no such function, method or class; signature: it has, without this argument or form of it;
# dtype: it has no such dtype, or refuses it here; no-cpu-kernel: declared, but not implemented on CPU;
# refused: OneFlow's own message says that it does not do this; untranslated: fxdiff has no adapter yet.
KINDS = ("missing", "signature", "dtype", "no-cpu-kernel", "refused", "untranslated")


class OneFlowUnsupported(Unsupported):
    """OneFlow does not do this; `kind` is one of KINDS and begins the text."""

    def __init__(self, kind: str, message: str) -> None:
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is none of {', '.join(KINDS)}")
        super().__init__(f"{kind}: {message}")
        self.kind = kind
