"""Sorting, selection and searching; what returns indices reads distinct values, or sorts stably."""

from __future__ import annotations

from generators.builder import Builder, Var
from generators.ops.common import a_dim, must, replaced, without, written
from generators.ops.unary import functions
from generators.ranges import Vals
from generators.spec import OpSpec
from generators.types import NUMERIC
from harness.model.values import Value


def _both(b: Builder, node: str, x: Var, dims: object, last: int) -> None:
    """The values, the indices, or both."""
    shape = x.dims if dims is None else dims
    how = b.choices.below(4)
    if how != 1:
        b.result(b.item(node, 0), x.dtype, shape, x.vals, contiguous=False)  # type: ignore[arg-type]
    if how:
        b.result(b.item(node, 1), "int64", shape, Vals(0, max(last - 1, 0)), contiguous=False)  # type: ignore[arg-type]


def _sort(b: Builder) -> None:
    stable = b.choices.coin(40)
    x = b.pick(NUMERIC, rank=(1, 5), exact=True, distinct=not stable)
    dim = a_dim(b, x)
    kwargs: dict[str, Value] = {"dim": written(b, dim, x.rank)}
    if b.choices.coin(50):
        kwargs["descending"] = True
    if stable:
        kwargs["stable"] = True
    _both(b, b.call([x.ref], kwargs), x, None, x.dims[dim].high)


def _argsort(b: Builder) -> None:
    stable = b.choices.coin(40)
    x = b.pick(NUMERIC, rank=(1, 5), exact=True, distinct=not stable)
    dim = a_dim(b, x)
    kwargs: dict[str, Value] = {"dim": written(b, dim, x.rank)}
    if b.choices.coin(50):
        kwargs["descending"] = True
    if stable:
        kwargs["stable"] = True
    b.result(b.call([x.ref], kwargs), "int64", x.dims, Vals(0, max(x.dims[dim].high - 1, 0)), contiguous=False)


def _topk(b: Builder) -> None:
    x = b.pick(NUMERIC, rank=(1, 5), exact=True, distinct=True)
    dim = a_dim(b, x)
    k = b.choices.between(0 if b.choices.coin(5) else min(1, x.dims[dim].low), x.dims[dim].low)
    kwargs: dict[str, Value] = {"dim": written(b, dim, x.rank)}
    if b.choices.coin(40):
        kwargs["largest"] = False
    _both(b, b.call([x.ref, k], kwargs), x, replaced(x.dims, dim, b.size(k)), x.dims[dim].high)


def _kthvalue(b: Builder) -> None:
    x = b.pick(NUMERIC, rank=(1, 5), exact=True, distinct=True)
    dim = a_dim(b, x)
    must(x.dims[dim].low > 0 and all(size.low > 0 for size in x.dims))
    k = b.choices.between(1, x.dims[dim].low)
    keepdim = b.choices.coin(35)
    node = b.call([x.ref, k], {"dim": written(b, dim, x.rank), **({"keepdim": True} if keepdim else {})})
    _both(b, node, x, without(x.dims, (dim,), keepdim, b.one), x.dims[dim].high)


def _msort(b: Builder) -> None:
    x = b.pick(NUMERIC, rank=(1, 5), exact=True)
    b.result(b.call([x.ref]), x.dtype, x.dims, x.vals, contiguous=False)


def _edges(b: Builder, dtype: str) -> Var:
    """An ascending one-dimensional tensor: the running sum of positive values."""
    steps = b.pick(
        (dtype,),
        rank=(1, 1),
        where=lambda v: v.dtype == dtype and v.vals.exact and v.vals.grain is not None and not v.vals.special,
        domain=(0, 8),
        strict=True,
    )
    count = steps.dims[0].high
    node = b.call([steps.ref, 0], spelling="torch.cumsum")
    out = dtype if dtype.startswith("float") else "int64"
    return b.result(node, out, steps.dims, Vals(0, steps.vals.hi * count, steps.vals.grain, True))


def _bucketize(b: Builder) -> None:
    assert b.op is not None
    edges = _edges(b, b.choices.choose(("float32", "int64", "float64")))
    x = b.pick((edges.dtype,), exact=True, rank=(0, 3))
    kwargs: dict[str, Value] = {"right": True} if b.choices.coin(50) else {}
    if b.op.name == "bucketize":
        if b.choices.coin(20):
            kwargs["out_int32"] = True
        node = b.call([x.ref, edges.ref], kwargs)
    else:
        node = b.call([edges.ref, x.ref], kwargs)
    b.result(node, "int32" if "out_int32" in kwargs else "int64", x.dims, Vals(0, edges.dims[0].high), contiguous=False)


def _unique(b: Builder) -> None:
    """The distinct values, sorted: as many as the data has, so only an output."""
    x = b.pick(NUMERIC, exact=True, where=lambda v: not v.vals.special)
    must(b.lane != "special")
    b.result_of_unknown_shape(b.call([x.ref], {"sorted": True}))


def _bincount(b: Builder) -> None:
    x = b.pick(("int64", "int32", "uint8"), rank=(1, 1), domain=(0, 255), strict=True)
    size = int(x.vals.hi) + 1
    must(size <= 300)
    b.result(b.call([x.ref], {"minlength": size}), "int64", (b.size(size),), Vals(0, x.dims[0].high), contiguous=False)


def _spec(name: str, draw: object, weight: int = 4, spellings: tuple[str, ...] = ()) -> OpSpec:
    return OpSpec(name, "sort", spellings or functions(name, aten=False), draw, NUMERIC, True, weight)  # type: ignore[arg-type]


OPS: tuple[OpSpec, ...] = (
    _spec("sort", _sort),
    _spec("argsort", _argsort),
    _spec("topk", _topk),
    _spec("kthvalue", _kthvalue, 2),
    _spec("msort", _msort, 1),
    _spec("bucketize", _bucketize, 2, ("torch.bucketize",)),
    _spec("searchsorted", _bucketize, 2, ("torch.searchsorted",)),
    _spec("unique", _unique, 1),
    _spec("bincount", _bincount, 1),
)
