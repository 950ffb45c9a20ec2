"""Choices that several families make alike: scalars, dims, keepdim, spans of sizes."""

from __future__ import annotations

from collections.abc import Sequence

from generators.builder import Builder, Dims, Var
from generators.ranges import Vals, constant
from generators.sizes import Size
from generators.spec import Skip
from generators.types import is_float, is_int
from harness.model.values import Value

_EXACT_FLOATS = (0.5, 1.0, 2.0, -1.0, -0.5, 0.25, 1.5, -2.0, 0.0, 3.0, -1.25)
_FLOATS = (0.5, 1.0, 0.1, 2.0, -1.5, -0.3, 3.7, 0.0, 1e-3, 100.0, -0.0)
_INTS = (1, 2, 3, -1, -2, 0, 4, 5, -3, 7)
_NATURALS = (1, 2, 3, 0, 4, 5, 7)
_LARGE = (100, 1000, -1000, 65536, 10**6)


def number(b: Builder, dtype: str, *, floats: bool = True, nonzero: bool = False, positive: bool = False) -> bool | int | float:
    """A Python scalar to combine with a tensor of `dtype`; never negative for unsigned tensors, nor large for narrow ones."""
    if floats and b.choices.coin(60 if is_float(dtype) else 12):
        table: Sequence[bool | int | float] = _EXACT_FLOATS if b.is_exact else _FLOATS
    elif b.choices.coin(4):
        table = (True, False)
    elif dtype in ("int32", "int64", "float32", "float64") and b.choices.coin(6):
        table = _LARGE
    else:
        table = _NATURALS if dtype in ("uint8", "bool") else _INTS
    chosen = [item for item in table if (not nonzero or item) and (not positive or item > 0)]
    return b.choices.choose(chosen)


def number_vals(value: bool | int | float) -> Vals:
    """What is known of a scalar's value."""
    return constant(value)


def written(b: Builder, dim: int, rank: int) -> int:
    """A dim as it is written: half of the time counted from the end."""
    return dim - rank if rank and b.choices.coin(35) else dim


def a_dim(b: Builder, var: Var) -> int:
    """One of the dims; raises Skip for a 0-d tensor."""
    if not var.dims:
        raise Skip
    return b.choices.below(var.rank)


def dims_arg(b: Builder, rank: int, dims: Sequence[int]) -> Value:
    """Several dims as an argument: a list or a tuple, some counted from the end."""
    items = [written(b, dim, rank) for dim in dims]
    return tuple(items) if b.choices.coin(40) else items


def without(dims: Dims, removed: Sequence[int], keepdim: bool, one: Size) -> Dims:
    """A shape after reduction of some of its dims."""
    if keepdim:
        return tuple(one if index in removed else size for index, size in enumerate(dims))
    return tuple(size for index, size in enumerate(dims) if index not in removed)


def replaced(dims: Dims, index: int, size: Size) -> Dims:
    """A shape with one dim's size replaced."""
    return (*dims[:index], size, *dims[index + 1 :])


def counts(b: Builder, dims: Sequence[Size]) -> tuple[int, ...]:
    """The number of elements of some dims, in every binding."""
    return b.numel(dims).values


def size_args(dims: Dims) -> list[Value]:
    """Sizes as arguments: ints, or expressions where they are symbolic."""
    return [size.dim for size in dims]


def must(condition: bool) -> None:
    """Raise Skip unless the condition holds."""
    if not condition:
        raise Skip


def summable(dtype: str) -> bool:
    """Whether this dtype has arithmetic of its own (bool has not)."""
    return is_float(dtype) or is_int(dtype)
