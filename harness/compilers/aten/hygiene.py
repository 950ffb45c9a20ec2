"""Keeping tracing out of engines: no mode on while one is built, no fake tensor in what it keeps or returns.

During AOTAutograd's compile step a FakeTensorMode is on the stack and every example input is fake. An engine that turns a
constant into numpy there fails, or keeps a tensor without data and fails later, far from the cause.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterator
from typing import Any

import torch
import torch._guards
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _python_dispatch

from harness.compilers.aten.errors import HygieneError

_DEPTH = 6
_ATOMS = (str, bytes, int, float, complex, bool, type(None), type, torch.dtype, torch.device, torch.fx.Graph, torch.fx.Node)


def modes_on() -> tuple[str, ...]:
    """The dispatch modes that are on, outermost first."""
    return tuple(type(mode).__name__ for mode in _python_dispatch._get_current_dispatch_mode_stack())


@contextlib.contextmanager
def real_world(where: str) -> Iterator[None]:
    """Every dispatch mode off, and no tracing context to find one in; `where` is what works there.

    Raises HygieneError where that leaves a mode on, which is turned off again.
    """
    with _python_dispatch._disable_current_modes(), torch._guards.tracing(None):
        found: tuple[str, ...] = ()
        try:
            yield
        finally:
            found = modes_on()
            for _ in found:
                _python_dispatch._pop_mode()
        if found:
            raise HygieneError(where, f"left {', '.join(found)} on")


def is_fake(value: Any) -> bool:
    """Whether `value` is a tensor without data: a FakeTensor, also inside a wrapper, or one on the meta device."""
    if not isinstance(value, torch.Tensor):
        return False
    if isinstance(value, FakeTensor) or value.device.type == "meta":
        return True
    if torch._is_functional_tensor(value):
        return is_fake(torch._from_functional_tensor(value))
    return False


def fakes_in(value: Any) -> list[str]:
    """The places of `value`'s attributes, items and closures that hold a tensor without data."""
    return list(dict.fromkeys(_walk(value, "", set(), _DEPTH)))


def _walk(value: Any, path: str, seen: set[int], depth: int) -> Iterator[str]:
    if isinstance(value, torch.Tensor):
        if is_fake(value):
            yield path or "itself"
        return
    if isinstance(value, _ATOMS) or inspect.ismodule(value) or depth == 0 or id(value) in seen:
        return
    seen.add(id(value))
    for name, item in _parts(value):
        yield from _walk(item, f"{path}{name}", seen, depth - 1)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", item) for key, item in list(value.items()))
    elif isinstance(value, tuple | list | set | frozenset):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    elif isinstance(value, functools.partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    elif inspect.ismethod(value):
        yield ".__self__", value.__self__
    elif inspect.isfunction(value):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # a cell that is still empty
                yield f"<{name}>", cell.cell_contents
        yield ".__defaults__", value.__defaults__
    else:
        yield from ((f".{name}", item) for name, item in list(getattr(value, "__dict__", {}).items()))
        for name in getattr(type(value), "__slots__", ()):
            if isinstance(name, str) and hasattr(value, name):
                yield f".{name}", getattr(value, name)


def refuse_fakes(value: Any, where: str, what: str) -> None:
    """Raise HygieneError with the place where `value` holds a tensor without data."""
    found = fakes_in(value)
    if found:
        raise HygieneError(where, f"a fake tensor among {what}: {', '.join(found[:3])}")
