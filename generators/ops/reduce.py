"""Reductions over all dims, one or several, and scans along one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from generators import ranges
from generators.builder import Builder, Var
from generators.ops.common import a_dim, counts, dims_arg, must, without, written
from generators.ops.unary import functions
from generators.ranges import BOOLEAN, Vals
from generators.spec import OpSpec
from generators.types import ALL, FLOATS, NUMERIC, sum_dtype
from harness.model.values import DType, Value

Over = tuple[tuple[int, ...], bool, dict[str, Value]]


def over(b: Builder, x: Var, *, several: bool = True, everything: bool = True, nonempty: bool = False) -> Over:
    """Which dims to reduce, keepdim, and the keyword arguments that say so; `nonempty` forbids a reduction over nothing.

    A 0-d tensor is reduced whole, or over its imaginary dim 0.
    """
    how = b.choices.below(10)
    keepdim = b.choices.coin(35)
    kwargs: dict[str, Value] = {}
    if everything and (how < 3 or not x.dims):
        dims: tuple[int, ...] = tuple(range(x.rank))
        keepdim = False
    elif several and how < 6 and x.rank >= 2:
        dims = b.choices.some(x.rank)
        kwargs = {"dim": dims_arg(b, x.rank, dims)}
    else:
        dims = (a_dim(b, x),)
        kwargs = {"dim": written(b, dims[0], x.rank)}
        if several and b.choices.coin(25):
            kwargs = {"dim": [kwargs["dim"]]}
    if keepdim:
        kwargs["keepdim"] = True
    if nonempty:
        must(all(x.dims[dim].low > 0 for dim in dims))
    return dims, keepdim, kwargs


def _accumulator(b: Builder, x: Var, dtype: str, kwargs: dict[str, Value]) -> str:
    if b.choices.coin(20):
        wider = {"float16": "float32", "bfloat16": "float32", "float32": "float64", "int32": "int64", "bool": "int32"}.get(
            x.dtype, "float32"
        )
        kwargs["dtype"] = DType(wider)
        return wider
    return dtype


def _sum(b: Builder) -> None:
    x = b.pick(ALL)
    dims, keepdim, kwargs = over(b, x)
    dtype = _accumulator(b, x, sum_dtype(x.dtype), kwargs)
    vals = ranges.total(x.vals, max(counts(b, [x.dims[d] for d in dims])))
    b.result(b.call([x.ref], kwargs), dtype, without(x.dims, dims, keepdim, b.one), vals)


def _mean(b: Builder) -> None:
    x = b.pick(FLOATS)
    dims, keepdim, kwargs = over(b, x, nonempty=True)
    dtype = _accumulator(b, x, x.dtype, kwargs)
    n = counts(b, [x.dims[d] for d in dims])
    peak = ranges.total(x.vals, max(n)).peak
    b.result(b.call([x.ref], kwargs), dtype, without(x.dims, dims, keepdim, b.one), ranges.mean(x.vals, n), peak=peak)


def _prod(b: Builder) -> None:
    x = b.pick(ALL)
    dims, keepdim, kwargs = over(b, x, several=False)
    dtype = _accumulator(b, x, sum_dtype(x.dtype), kwargs)
    n = max(counts(b, [x.dims[d] for d in dims]))
    must(n <= 12)
    b.result(b.call([x.ref], kwargs), dtype, without(x.dims, dims, keepdim, b.one), _power(x.vals, n))


def _power(vals: Vals, n: int) -> Vals:
    reach = max(vals.peak, 1.0) ** n
    grain = None if vals.grain is None else vals.grain * n
    return Vals(-reach if vals.lo < 0 else 0.0, reach, grain, vals.exact and grain is not None, vals.special)


def _extreme(b: Builder) -> None:
    x = b.pick(ALL)
    dims, keepdim, kwargs = over(b, x, nonempty=True)
    b.result(b.call([x.ref], kwargs), x.dtype, without(x.dims, dims, keepdim, b.one), x.vals.repeated())


def _whole_extreme(b: Builder) -> None:
    x = b.pick(ALL, where=lambda v: b.numel(v.dims).low > 0)
    b.result(b.call([x.ref]), x.dtype, (), x.vals.repeated())


def _extreme_dim(b: Builder) -> None:
    """max, min, median: values and indices; ties decide which index, so values are distinct or only the values are used."""
    assert b.op is not None
    ties = b.op.name in ("max", "min")  # documented: the first one
    x = b.pick(NUMERIC, rank=(1, 5), exact=True, distinct=not ties)
    dims, keepdim, kwargs = over(b, x, several=False, everything=False, nonempty=True)
    node = b.call([x.ref], kwargs)
    shape = without(x.dims, dims, keepdim, b.one)
    if b.choices.coin(80):
        b.result(b.item(node, 0), x.dtype, shape, x.vals.repeated())
    if b.choices.coin(60) or b.vars[-1].name != f"getitem_{b.counter}":
        b.result(b.item(node, 1), "int64", shape, Vals(0, x.dims[dims[0]].high - 1))


def _arg_extreme(b: Builder) -> None:
    x = b.pick(NUMERIC, exact=True)
    dims, keepdim, kwargs = over(b, x, several=False, nonempty=True)
    n = max(counts(b, [x.dims[d] for d in dims]))
    b.result(b.call([x.ref], kwargs), "int64", without(x.dims, dims, keepdim, b.one), Vals(0, n - 1))


def _quantifier(b: Builder) -> None:
    x = b.pick(ALL, exact=True)
    dims, keepdim, kwargs = over(b, x)
    dtype = "uint8" if x.dtype == "uint8" else "bool"
    b.result(b.call([x.ref], kwargs), dtype, without(x.dims, dims, keepdim, b.one), BOOLEAN)


def _count_nonzero(b: Builder) -> None:
    x = b.pick(ALL, exact=True)
    dims, _, kwargs = over(b, x)
    kwargs.pop("keepdim", None)
    n = max(counts(b, [x.dims[d] for d in dims]))
    b.result(b.call([x.ref], kwargs), "int64", without(x.dims, dims, False, b.one), Vals(0, n))


def _deviation(b: Builder) -> None:
    x = b.pick(FLOATS)
    dims, keepdim, kwargs = over(b, x)
    n = counts(b, [x.dims[d] for d in dims])
    correction = 1
    if b.choices.coin(50):
        correction = b.choices.choose((0, 1))
        if b.choices.coin(50) and "dim" in kwargs:
            kwargs["unbiased"] = bool(correction)
        else:
            kwargs["correction"] = correction
            kwargs.setdefault("dim", None)
    must(min(n) > correction or b.lane == "special")
    reach = (x.vals.hi - x.vals.lo) ** 2 * 2
    special = x.vals.special or min(n) <= correction
    vals = Vals(0.0, max(reach, math.sqrt(reach)), None, False, special)
    node = b.call([x.ref], kwargs)
    shape = without(x.dims, dims, keepdim, b.one)
    assert b.op is not None
    if b.op.name in ("var_mean", "std_mean"):
        b.result(b.item(node, 0), x.dtype, shape, vals)
        average = x.vals.rough(x.vals.lo, x.vals.hi)
        b.result(b.item(node, 1), x.dtype, shape, replace(average, special=average.special or min(n) == 0))
    else:
        b.result(node, x.dtype, shape, vals)


def _norm(b: Builder) -> None:
    x = b.pick(FLOATS)
    dims, keepdim, kwargs = over(b, x, nonempty=True)
    assert b.op is not None
    must(b.op.name != "norm" or len(dims) == 1 or "dim" not in kwargs)  # norm takes several dims for a matrix norm
    order = b.choices.choose((2, 1, float("inf"), 0, 3, 2.0, float("-inf")))
    if order != 2 or b.choices.coin(50):
        kwargs["ord" if b.op.name == "linalg_vector_norm" else "p"] = order
    n = max(counts(b, [x.dims[d] for d in dims]))
    if order == 1:
        size = replace(x.vals, lo=0.0, hi=x.vals.peak)
        vals = ranges.total(size, n)
    elif order in (float("inf"), float("-inf")):
        vals = x.vals.having(0.0, x.vals.peak)
    elif order == 0:
        must(x.vals.exact)
        vals = Vals(0, n, 0, True, x.vals.special)
    else:
        vals = x.vals.rough(0.0, (x.vals.peak + 1e-6) * n)
    b.result(b.call([x.ref], kwargs), x.dtype, without(x.dims, dims, keepdim, b.one), vals)


def _logsumexp(b: Builder) -> None:
    x = b.pick(FLOATS, rank=(1, 5))
    dims, keepdim, kwargs = over(b, x, everything=False, nonempty=True)
    n = max(counts(b, [x.dims[d] for d in dims]))
    b.result(
        b.call([x.ref], kwargs), x.dtype, without(x.dims, dims, keepdim, b.one), x.vals.rough(x.vals.lo, x.vals.hi + math.log(max(n, 1)))
    )


def _aminmax(b: Builder) -> None:
    x = b.pick(ALL)
    dims, keepdim, kwargs = over(b, x, several=False, nonempty=True)
    node = b.call([x.ref], kwargs)
    shape = without(x.dims, dims, keepdim, b.one)
    for index in range(2):
        b.result(b.item(node, index), x.dtype, shape, x.vals.repeated())


def _scan(b: Builder) -> None:
    assert b.op is not None
    x = b.pick(ALL, rank=(0, 5))
    dim = b.choices.below(x.rank) if x.dims else 0
    n = x.dims[dim].high if x.dims else 1
    kwargs: dict[str, Value] = {}
    dtype = _accumulator(b, x, sum_dtype(x.dtype), kwargs)
    if b.op.name == "cumsum":
        vals = ranges.union(ranges.total(x.vals, n), x.vals)
    else:
        must(n <= 12)
        vals = _power(x.vals, n)
    b.result(b.call([x.ref, written(b, dim, x.rank)], kwargs), dtype, x.dims, vals, contiguous=x.contiguous)


def _scan_extreme(b: Builder) -> None:
    x = b.pick(NUMERIC, rank=(1, 5), exact=True, distinct=True)
    dim = a_dim(b, x)
    node = b.call([x.ref, written(b, dim, x.rank)])
    b.result(b.item(node, 0), x.dtype, x.dims, x.vals.repeated(), contiguous=False)
    if b.choices.coin(50):
        b.result(b.item(node, 1), "int64", x.dims, Vals(0, max(x.dims[dim].high - 1, 0)), contiguous=False)


def _logcumsumexp(b: Builder) -> None:
    x = b.pick(FLOATS, rank=(1, 5))
    dim = a_dim(b, x)
    vals = x.vals.rough(x.vals.lo, x.vals.hi + math.log(max(x.dims[dim].high, 1)))
    b.result(b.call([x.ref, written(b, dim, x.rank)]), x.dtype, x.dims, vals, contiguous=False)


def _diff(b: Builder) -> None:
    x = b.pick(NUMERIC, rank=(1, 5))
    dim = a_dim(b, x)
    must(x.dims[dim].low >= 1)
    shape = tuple(size - 1 if index == dim else size for index, size in enumerate(x.dims))
    b.result(b.call([x.ref], {"dim": written(b, dim, x.rank)}), x.dtype, shape, ranges.sub(x.vals, x.vals), contiguous=False)


def _trace(b: Builder) -> None:
    x = b.pick(NUMERIC, rank=(2, 2), where=lambda v: v.rank == 2)
    n = max(x.dims[0].high, x.dims[1].high)
    b.result(b.call([x.ref]), sum_dtype(x.dtype), (), ranges.total(x.vals, n))


def _spec(
    name: str, draw: Callable[[Builder], None], dtypes: tuple[str, ...], *, exact: bool = True, weight: int = 3, **more: object
) -> OpSpec:
    spellings = more.get("spellings") or functions(name, aten=False)
    variant = str(more.get("variant", ""))
    return OpSpec(name, "reduction", spellings, draw, dtypes, exact, weight, variant)  # type: ignore[arg-type]


OPS: tuple[OpSpec, ...] = (
    _spec("sum", _sum, ALL, weight=8),
    _spec("mean", _mean, FLOATS, weight=6),
    _spec("prod", _prod, ALL),
    _spec("amax", _extreme, ALL, spellings=functions("amax")),
    _spec("amin", _extreme, ALL, spellings=functions("amin")),
    _spec("max", _whole_extreme, ALL, weight=2),
    _spec("min", _whole_extreme, ALL, weight=2),
    _spec("max", _extreme_dim, NUMERIC, variant="dim"),
    _spec("min", _extreme_dim, NUMERIC, variant="dim"),
    _spec("median", _extreme_dim, NUMERIC, variant="dim", weight=1),
    _spec("argmax", _arg_extreme, NUMERIC, spellings=functions("argmax")),
    _spec("argmin", _arg_extreme, NUMERIC, spellings=functions("argmin")),
    _spec("all", _quantifier, ALL),
    _spec("any", _quantifier, ALL),
    _spec("count_nonzero", _count_nonzero, ALL, weight=2),
    _spec("var", _deviation, FLOATS, exact=False, weight=4),
    _spec("std", _deviation, FLOATS, exact=False, weight=3),
    _spec("var_mean", _deviation, FLOATS, exact=False, weight=2, spellings=("torch.var_mean",)),
    _spec("norm", _norm, FLOATS, weight=2),
    _spec("linalg_vector_norm", _norm, FLOATS, weight=2, spellings=("torch.linalg.vector_norm",)),
    _spec("logsumexp", _logsumexp, FLOATS, exact=False),
    _spec("aminmax", _aminmax, ALL, weight=1),
    _spec("cumsum", _scan, ALL, weight=4),
    _spec("cumprod", _scan, ALL, weight=2),
    _spec("cummax", _scan_extreme, NUMERIC, weight=2),
    _spec("cummin", _scan_extreme, NUMERIC, weight=2),
    _spec("logcumsumexp", _logcumsumexp, FLOATS, exact=False, weight=1),
    _spec("diff", _diff, NUMERIC, weight=2),
    _spec("trace", _trace, NUMERIC, weight=1),
)
