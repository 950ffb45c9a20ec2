"""Indexing with tensors of indices and of booleans: reading, and writing into a copy."""

from __future__ import annotations

from generators import ranges
from generators.builder import Builder, Dims, Var
from generators.ops.common import a_dim, must, number, replaced, written
from generators.ops.matmul import module_tensor, weight_spec
from generators.ops.unary import functions
from generators.ranges import Vals
from generators.sizes import Size, same_dims
from generators.spec import OpSpec
from generators.types import ALL, FLOATS, NUMERIC, is_float
from harness.model.values import DType, Value


def _size(b: Builder) -> Size:
    """How many elements to point at."""
    return b.size(b.choices.choose((2, 3, 1, 4, 0)))


def _gather(b: Builder) -> None:
    x = b.pick(ALL, rank=(1, 5))
    dim = a_dim(b, x)
    # The index may be shorter than the tensor in every other dim.
    dims = tuple(
        _size(b)
        if index == dim
        else b.size(b.choices.between(1, size.values[0]))
        if size.static and size.low and b.choices.coin(40)
        else size
        for index, size in enumerate(x.dims)
    )
    index = b.indices(dims, x.dims[dim])
    b.result(b.call([x.ref, written(b, dim, x.rank), index.ref]), x.dtype, dims, x.vals.repeated(), contiguous=False)


def _index_select(b: Builder) -> None:
    x = b.pick(ALL, rank=(1, 5))
    dim = a_dim(b, x)
    index = b.indices((_size(b),), x.dims[dim], dtypes=("int64", "int64", "int32"))
    node = b.call([x.ref, written(b, dim, x.rank), index.ref])
    b.result(node, x.dtype, replaced(x.dims, dim, index.dims[0]), x.vals.repeated(), contiguous=False)


def _take(b: Builder) -> None:
    x = b.pick(ALL)
    index = b.indices(tuple(_size(b) for _ in range(b.choices.between(0, 2))), b.numel(x.dims))
    b.result(b.call([x.ref, index.ref]), x.dtype, index.dims, x.vals.repeated(), contiguous=False)


def _take_along(b: Builder) -> None:
    x = b.pick(ALL, rank=(1, 4))
    dim = a_dim(b, x)
    index = b.indices(replaced(x.dims, dim, _size(b)), x.dims[dim])
    b.result(b.call([x.ref, index.ref, written(b, dim, x.rank)]), x.dtype, index.dims, x.vals.repeated(), contiguous=False)


def _getitem_tensor(b: Builder) -> None:
    """x[i], x[:, i], x[i, j], x[i, 0], with negative indices: PyTorch's placement of the indexed dims."""
    x = b.pick(ALL, rank=(1, 4))
    shape: Dims = tuple(_size(b) for _ in range(b.choices.choose((1, 1, 2, 0))))
    how = b.choices.below(4)
    if how <= 1 or x.rank < 2:
        i = b.indices(shape, x.dims[0], negative=b.choices.coin(35))
        item: Value = i.ref if b.choices.coin(60) else (i.ref,)
        dims = (*shape, *x.dims[1:])
    elif how == 2:
        at = b.choices.between(1, x.rank - 1)
        i = b.indices(shape, x.dims[at], negative=b.choices.coin(35))
        item = (*([slice(None)] * at), i.ref)
        dims = (*x.dims[:at], *shape, *x.dims[at + 1 :])
    else:
        i = b.indices(shape, x.dims[0], negative=b.choices.coin(35))
        j = b.indices(shape, x.dims[1], negative=b.choices.coin(35))
        item = (i.ref, j.ref)
        dims = (*shape, *x.dims[2:])
    # 0-d indices are taken for integers: the result is a view.
    b.result(b.call([x.ref, item]), x.dtype, dims, x.vals.repeated(), contiguous=False, alias=None if shape else x)


def _getitem_mask(b: Builder) -> None:
    x = b.pick(ALL, rank=(1, 4))
    mask = b.pick(("bool",), where=lambda v: same_dims(v.dims, x.dims), dims=lambda: x.dims, exact=True, fresh=50, rank=(x.rank, x.rank))
    b.result_of_unknown_shape(b.call([x.ref, mask.ref]))


def _masked_select(b: Builder) -> None:
    x = b.pick(ALL, rank=(0, 4))
    mask = b.partner(x, ("bool",), exact=True)
    b.result_of_unknown_shape(b.call([x.ref, mask.ref]))


def _nonzero(b: Builder) -> None:
    x = b.pick(ALL, exact=True)
    b.result_of_unknown_shape(b.call([x.ref]))


def _source(b: Builder, x: Var, dims: Dims) -> Var:
    return b.pick((x.dtype,), rank=(len(dims), len(dims)), where=lambda v: same_dims(v.dims, dims), dims=lambda: dims, fresh=50)


def _scatter(b: Builder) -> None:
    """Each target is written at most once: the indices along the dim are a permutation, or there is one index per line."""
    x = b.pick(ALL, rank=(1, 4))
    dim = a_dim(b, x)
    must(x.dims[dim].low > 0)
    if x.rank == 1 and x.dims[0].static:
        dims: Dims = x.dims
        index = b.indices(dims, x.dims[dim], spread=True)
    else:
        dims = replaced(x.dims, dim, b.one)
        index = b.indices(dims, x.dims[dim])
    args: list[Value] = [x.ref, written(b, dim, x.rank), index.ref]
    if b.choices.coin(40):
        value = number(b, x.dtype, floats=is_float(x.dtype))
        must(x.dtype != "bool" or isinstance(value, bool))
        node, vals = b.call([*args, value]), ranges.union(x.vals, ranges.constant(value))
    else:
        source = _source(b, x, dims)
        node, vals = b.call([*args, source.ref]), ranges.union(x.vals, source.vals)
    b.result(node, x.dtype, x.dims, vals, contiguous=False)


def _scatter_add(b: Builder) -> None:
    x = b.pick(NUMERIC, rank=(1, 4))
    dim = a_dim(b, x)
    dims = replaced(x.dims, dim, b.size(b.choices.choose((2, 1, 3))))
    index = b.indices(dims, x.dims[dim])
    source = _source(b, x, dims)
    vals = ranges.add(x.vals, ranges.total(source.vals, dims[dim].high))
    b.result(
        b.call([x.ref, written(b, dim, x.rank), index.ref, source.ref]),
        x.dtype,
        x.dims,
        vals,
        contiguous=False,
        peak=x.vals.peak + source.vals.peak * 4,
    )


def _index_add(b: Builder) -> None:
    x = b.pick(NUMERIC, rank=(1, 4))
    dim = a_dim(b, x)
    count = b.size(b.choices.choose((2, 1, 3)))
    index = b.indices((count,), x.dims[dim])
    source = _source(b, x, replaced(x.dims, dim, count))
    kwargs: dict[str, Value] = {}
    added = source.vals
    if b.choices.coin(30):
        kwargs["alpha"] = 2
        added = ranges.mul(added, ranges.constant(2))
    vals = ranges.add(x.vals, ranges.total(added, count.high))
    node = b.call([x.ref, written(b, dim, x.rank), index.ref, source.ref], kwargs)
    b.result(node, x.dtype, x.dims, vals, contiguous=False, peak=x.vals.peak + added.peak * 4)


def _index_copy(b: Builder) -> None:
    x = b.pick(ALL, rank=(1, 4))
    dim = a_dim(b, x)
    must(x.dims[dim].low > 0)
    spread = x.dims[dim].static and b.choices.coin(60)
    count = x.dims[dim] if spread else b.one
    index = b.indices((count,), x.dims[dim], spread=spread)
    source = _source(b, x, replaced(x.dims, dim, count))
    node = b.call([x.ref, written(b, dim, x.rank), index.ref, source.ref])
    b.result(node, x.dtype, x.dims, ranges.union(x.vals, source.vals), contiguous=False)


def _index_fill(b: Builder) -> None:
    x = b.pick(ALL, rank=(1, 4))
    dim = a_dim(b, x)
    index = b.indices((_size(b),), x.dims[dim])
    value = number(b, x.dtype, floats=is_float(x.dtype))
    must(x.dtype != "bool" or isinstance(value, bool))
    node = b.call([x.ref, written(b, dim, x.rank), index.ref, value])
    b.result(node, x.dtype, x.dims, ranges.union(x.vals, ranges.constant(value)), contiguous=False)


def _index_put(b: Builder) -> None:
    x = b.pick(ALL, rank=(1, 4))
    must(x.dims[0].low > 0)
    accumulate = x.dtype != "bool" and b.choices.coin(35)
    spread = not accumulate and x.dims[0].static and b.choices.coin(60)
    count = x.dims[0] if spread else b.size(b.choices.choose((2, 3, 1))) if accumulate else b.one
    index = b.indices((count,), x.dims[0], spread=spread, negative=not spread and b.choices.coin(35))
    dims = (count, *x.dims[1:])
    source = _source(b, x, dims if b.choices.coin(60) else dims[1:])
    args: list[Value] = [x.ref, (index.ref,) if b.choices.coin(50) and not b.spelling.startswith("aten") else [index.ref], source.ref]
    if accumulate:
        args.append(True)
    vals = ranges.add(x.vals, ranges.total(source.vals, count.high)) if accumulate else ranges.union(x.vals, source.vals)
    b.result(b.call(args), x.dtype, x.dims, vals, contiguous=False, peak=x.vals.peak + source.vals.peak * 4)


def _masked_scatter(b: Builder) -> None:
    x = b.pick(ALL, rank=(1, 4))
    mask = b.pick(("bool",), where=lambda v: same_dims(v.dims, x.dims), dims=lambda: x.dims, exact=True, fresh=50, rank=(x.rank, x.rank))
    source = _source(b, x, x.dims)
    b.result(b.call([x.ref, mask.ref, source.ref]), x.dtype, x.dims, ranges.union(x.vals, source.vals), contiguous=False)


def _select_scatter(b: Builder) -> None:
    x = b.pick(ALL, rank=(1, 4))
    dim = a_dim(b, x)
    must(x.dims[dim].low > 0)
    source = _source(b, x, (*x.dims[:dim], *x.dims[dim + 1 :]))
    node = b.call([x.ref, source.ref, written(b, dim, x.rank), b.choices.below(x.dims[dim].low)])
    b.result(node, x.dtype, x.dims, ranges.union(x.vals, source.vals), contiguous=False)


def _slice_scatter(b: Builder) -> None:
    x = b.pick(ALL, rank=(1, 4), where=lambda v: v.static)
    dim = a_dim(b, x)
    n = x.dims[dim].values[0]
    start, step = b.choices.between(0, n), b.choices.choose((1, 2))
    stop = b.choices.between(start, n)
    source = _source(b, x, replaced(x.dims, dim, b.size(len(range(start, stop, step)))))
    kwargs: dict[str, Value] = {"dim": written(b, dim, x.rank), "start": start, "end": stop, "step": step}
    b.result(b.call([x.ref, source.ref], kwargs), x.dtype, x.dims, ranges.union(x.vals, source.vals), contiguous=False)


def _embedding(b: Builder) -> None:
    shape: Dims = tuple(b.new_size() for _ in range(b.choices.choose((1, 2, 0, 2))))
    if b.as_module:
        rows, width = b.size(b.choices.choose((3, 5, 2, 7))), b.size(b.choices.choose((2, 4, 3, 1)))
        dtype = b.new_dtype(FLOATS)
        filling = module_tensor(b, dtype)
        index = b.indices(shape, rows, dtypes=("int64", "int64", "int32"))
        kwargs: dict[str, Value] = {} if dtype == "float32" else {"dtype": DType(dtype)}
        if b.choices.coin(20):
            kwargs["padding_idx"] = b.choices.below(rows.values[0])
        node = b.module(
            [index.ref], [rows.dim, width.dim], kwargs, state={"weight": weight_spec(dtype, (rows, width))}, fillings={"weight": filling}
        )
        b.result(node, dtype, (*shape, width), filling.vals(dtype, False), contiguous=False)
        return
    table = b.pick(FLOATS, rank=(2, 2), where=lambda v: v.dims[0].low > 0)
    index = b.indices(shape, table.dims[0], dtypes=("int64", "int64", "int32"))
    b.result(b.call([index.ref, table.ref]), table.dtype, (*shape, table.dims[1]), table.vals.repeated(), contiguous=False)


def _one_hot(b: Builder) -> None:
    classes = b.choices.choose((3, 4, 2, 6))
    index = b.indices(tuple(b.new_size(1) for _ in range(b.choices.between(0, 3))), b.size(classes))
    b.result(b.call([index.ref, classes]), "int64", (*index.dims, b.size(classes)), Vals(0, 1), contiguous=False)


def _isin(b: Builder) -> None:
    x = b.pick(NUMERIC, exact=True, rank=(0, 3), where=lambda v: v.contiguous)
    other = b.pick((x.dtype,), exact=True, rank=(1, 2), where=lambda v: v.contiguous)
    must(not x.vals.special and not other.vals.special)
    b.result(b.call([x.ref, other.ref]), "bool", x.dims, Vals(0, 1), contiguous=False)


def _spec(
    name: str, draw: object, spellings: tuple[str, ...] = (), weight: int = 3, dtypes: tuple[str, ...] = ALL, variant: str = ""
) -> OpSpec:
    return OpSpec(name, "index", spellings or functions(name, aten=False), draw, dtypes, True, weight, variant)  # type: ignore[arg-type]


OPS: tuple[OpSpec, ...] = (
    _spec("gather", _gather, functions("gather"), 5),
    _spec("index_select", _index_select, functions("index_select"), 5),
    _spec("take", _take, functions("take")),
    _spec("take_along_dim", _take_along, weight=2),
    _spec("getitem", _getitem_tensor, ("operator.getitem",), 6, variant="tensor"),
    _spec("getitem", _getitem_mask, ("operator.getitem",), 2, variant="mask"),
    _spec("masked_select", _masked_select, weight=1),
    _spec("nonzero", _nonzero, weight=1),
    _spec("scatter", _scatter, ("torch.scatter", ".scatter"), 4),
    _spec("scatter_add", _scatter_add, ("torch.scatter_add", ".scatter_add"), dtypes=NUMERIC),
    _spec("index_add", _index_add, ("torch.index_add", ".index_add"), dtypes=NUMERIC),
    _spec("index_copy", _index_copy, ("torch.index_copy", ".index_copy"), 2),
    _spec("index_fill", _index_fill, ("torch.index_fill", ".index_fill"), 2),
    _spec("index_put", _index_put, ("torch.index_put", ".index_put", "aten.index_put.default"), 4),
    _spec("masked_scatter", _masked_scatter, weight=1),
    _spec("select_scatter", _select_scatter, weight=1),
    _spec("slice_scatter", _slice_scatter, weight=1),
    _spec("embedding", _embedding, ("torch.nn.functional.embedding", "nn.Embedding", "nn.Embedding"), 5, FLOATS),
    _spec("one_hot", _one_hot, ("torch.nn.functional.one_hot",), 2, ("int64",)),
    _spec("isin", _isin, ("torch.isin",), 1, NUMERIC),
)
