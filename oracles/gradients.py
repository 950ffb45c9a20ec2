"""What modes `grad` and `train` give beside the output, taken apart: each gradient and each stepped parameter by its own name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.model.case import Case
from harness.model.values import Value

_WORDS = {"grads": "the gradient of", "params_after": "after one step, parameter"}


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a call's result: what both sides gave, how messages call it, where it stands, and which oracle judges it."""

    expected: Value
    actual: Value
    name: str
    path: str = ""
    oracle: str = ""


def parts(case: Case, expected: Value, actual: Value) -> Iterator[Part]:
    """The parts of one call's result: the output alone, or with gradients each by itself, so that one verdict tells of one."""
    if case.mode == "fwd" or not (isinstance(expected, dict) and isinstance(actual, dict) and _alike(expected, actual)):
        yield Part(expected, actual, "output")
        return
    for key, want in expected.items():
        if key not in _WORDS:
            yield Part(want, actual[key], key, f"[{key!r}]")
            continue
        for name, each in want.items():
            yield Part(each, actual[key][name], f"{_WORDS[key]} {name}", f"[{key!r}][{name!r}]", "gradients")


def _alike(expected: dict[str, Value], actual: dict[str, Value]) -> bool:
    """Whether the same gradients were asked of both."""
    if list(expected) != list(actual):
        return False
    return all(isinstance(actual[key], dict) and list(expected[key]) == list(actual[key]) for key in _WORDS if key in expected)
