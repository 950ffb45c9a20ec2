"""Telling torch-mlir's word that it does not do something from a failure on something it claims to do."""

from __future__ import annotations

import re
from collections.abc import Sequence

_OPERATOR = re.compile(r"(?:failed to legalize operation|[Uu]nimplemented operation) '(torch\.[\w.]+)'")


def refused_operator(messages: Sequence[str], *, stage: str) -> str | None:
    """The torch operator that the system says it does not do; None where the messages are no refusal."""
    for message in messages:
        match = _OPERATOR.search(message)
        if match is not None:
            return match[1]
    return None
