"""Types of results, and whether a later one contradicts an earlier one or says less."""

from __future__ import annotations

from collections.abc import Mapping

from harness.backends.torch_mlir.declared import Claim, tensor_claim
from harness.model.story import Fault


def result_claims(types: Mapping[str, str]) -> dict[str, Claim | None]:
    """What each result of each function is said to be, by its place; `types` are the functions' types by name."""
    found: dict[str, Claim | None] = {}
    for name, text in types.items():
        results = text.rpartition("->")[2].strip().removeprefix("(").removesuffix(")")
        for index, part in enumerate(_split(results)):
            found[f"result {index} of {name}"] = tensor_claim(part)
    return found


def _split(text: str) -> list[str]:
    """Types separated by commas outside brackets."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += (char in "<[(") - (char in ">])")
        if char == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [*parts, text[start:].strip()] if text.strip() else []


def worse(old: Claim | None, new: Claim | None) -> tuple[Fault, str] | None:
    """How `new` contradicts `old` or says less; None where it does neither."""
    if old is None or new is None:
        return None
    (old_dtype, old_shape), (new_dtype, new_shape) = old, new
    said = f"{spelled(old)} has become {spelled(new)}"
    if old_dtype is not None and new_dtype not in (None, old_dtype):
        return Fault.CONTRADICTION, said
    if old_shape is not None and new_shape is not None:
        if len(old_shape) != len(new_shape):
            return Fault.CONTRADICTION, said
        if any(a is not None and b not in (None, a) for a, b in zip(old_shape, new_shape, strict=True)):
            return Fault.CONTRADICTION, said
        if any(a is not None and b is None for a, b in zip(old_shape, new_shape, strict=True)):
            return Fault.LESS_PRECISE, said
    if (old_dtype is not None and new_dtype is None) or (old_shape is not None and new_shape is None):
        return Fault.LESS_PRECISE, said
    return None


def spelled(claim: Claim | None) -> str:
    """A claim as the dialect writes it."""
    if claim is None:
        return "no tensor"
    dtype, shape = claim
    dims = "*" if shape is None else f"[{','.join('?' if size is None else str(size) for size in shape)}]"
    return f"{dims},{dtype or 'unknown'}"
