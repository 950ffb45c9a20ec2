"""The decomposition table, built once: torch makes it anew on every call, at the price of a whole trace."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from torch._decomp import core_aten_decompositions


@functools.cache
def table() -> Mapping[Any, Callable[..., Any]]:
    """PyTorch's decompositions into core aten operators."""
    return MappingProxyType(dict(core_aten_decompositions()))


@functools.cache
def table_for_torch() -> dict[Any, Callable[..., Any]]:
    """The same as the dict that tracers ask for; nobody may write to it."""
    return dict(table())
