"""Joining and splitting tensors."""

from __future__ import annotations

from generators import ranges
from generators.builder import Builder, Var
from generators.ops.common import a_dim, must, replaced, written
from generators.ops.unary import functions
from generators.sizes import Size, same
from generators.spec import OpSpec
from generators.types import ALL, promote
from harness.model.values import Value


def _several(b: Builder, first: Var, dim: int | None, *, mixed: bool) -> list[Var]:
    """More tensors of the shape of `first`, but for one dim if it is given."""

    def fits(var: Var) -> bool:
        if var.rank != first.rank or (not mixed and var.dtype != first.dtype):
            return False
        return all(index == dim or same(a, c) for index, (a, c) in enumerate(zip(var.dims, first.dims, strict=True)))

    def shape() -> tuple[Size, ...]:
        return first.dims if dim is None or b.choices.coin(50) else replaced(first.dims, dim, b.new_size())

    dtypes = ALL if mixed and b.choices.coin(25) else (first.dtype,)
    return [
        first,
        *(b.pick(dtypes, rank=(first.rank, first.rank), where=fits, dims=shape, fresh=40) for _ in range(b.choices.weighted(_MORE))),
    ]


_MORE = ((60, 1), (25, 2), (15, 0))


def _common(items: list[Var]) -> tuple[str, ranges.Vals]:
    dtype, vals = items[0].dtype, items[0].vals
    for var in items[1:]:
        dtype, vals = promote(dtype, var.dtype), ranges.union(vals, var.vals)
    return dtype, vals.repeated()


def _list(b: Builder, items: list[Var]) -> Value:
    refs = [var.ref for var in items]
    return tuple(refs) if b.choices.coin(30) and not b.spelling.startswith("aten") else refs


def _cat(b: Builder) -> None:
    first = b.pick(ALL, rank=(1, 5))
    dim = a_dim(b, first)
    items = _several(b, first, dim, mixed=True)
    dtype, vals = _common(items)
    size = items[0].dims[dim]
    for var in items[1:]:
        size = size + var.dims[dim]
    node = b.call([_list(b, items)], {"dim": written(b, dim, first.rank)} if dim or b.choices.coin(50) else {})
    b.result(node, dtype, replaced(first.dims, dim, size), vals, contiguous=all(var.contiguous for var in items))


def _stack(b: Builder) -> None:
    first = b.pick(ALL, rank=(0, 4))
    items = _several(b, first, None, mixed=False)
    dtype, vals = _common(items)
    at = b.choices.between(0, first.rank)
    node = b.call([_list(b, items), written(b, at, first.rank + 1)])
    b.result(node, dtype, (*first.dims[:at], b.size(len(items)), *first.dims[at:]), vals, contiguous=all(var.contiguous for var in items))


def _stack_along(b: Builder) -> None:
    """hstack and vstack of tensors with at least the dims they need."""
    assert b.op is not None
    if b.op.name == "hstack":
        first = b.pick(ALL, rank=(1, 4))
        dim = 0 if first.rank == 1 else 1
    else:
        first = b.pick(ALL, rank=(2, 4))
        dim = 0
    items = _several(b, first, dim, mixed=False)
    dtype, vals = _common(items)
    size = items[0].dims[dim]
    for var in items[1:]:
        size = size + var.dims[dim]
    b.result(b.call([_list(b, items)]), dtype, replaced(first.dims, dim, size), vals, contiguous=False)


def _pieces(b: Builder, x: Var, dim: int, node: str, sizes: list[Size]) -> None:
    """Some of the pieces of a split."""
    must(bool(sizes))
    taken = [index for index in range(len(sizes)) if b.choices.coin(70)] or [len(sizes) - 1]
    for index in taken[:3]:
        b.result(b.item(node, index), x.dtype, replaced(x.dims, dim, sizes[index]), x.vals, alias=x, contiguous=False)


def _split(b: Builder) -> None:
    x = b.pick(ALL, rank=(1, 5))
    dim = a_dim(b, x)
    size = x.dims[dim]
    must(size.static and size.values[0] > 0)
    n = size.values[0]
    if b.choices.coin(50):
        step = b.choices.between(1, n + 1)
        lengths = [step] * (n // step) + ([n % step] if n % step else [])
        how: Value = step
    else:
        cut = b.choices.between(0, n)
        lengths = [cut, n - cut]
        how = list(lengths)
    node = b.call([x.ref, how], {"dim": written(b, dim, x.rank)})
    _pieces(b, x, dim, node, [b.size(length) for length in lengths])


def _chunk(b: Builder) -> None:
    x = b.pick(ALL, rank=(1, 5))
    dim = a_dim(b, x)
    must(x.dims[dim].static)
    n, parts = x.dims[dim].values[0], b.choices.between(1, 4)
    step = max(-(-n // parts), 1)
    lengths = [min(step, n - start) for start in range(0, n, step)] if n else [0] * parts
    node = b.call([x.ref, parts], {"dim": written(b, dim, x.rank)})
    _pieces(b, x, dim, node, [b.size(length) for length in lengths])


def _tensor_split(b: Builder) -> None:
    x = b.pick(ALL, rank=(1, 5))
    dim = a_dim(b, x)
    must(x.dims[dim].static)
    n = x.dims[dim].values[0]
    if b.choices.coin(50):
        parts = b.choices.between(1, 4)
        lengths = [n // parts + (index < n % parts) for index in range(parts)]
        how: Value = parts
    else:
        cut = b.choices.between(0, n)
        lengths, how = [cut, n - cut], (cut,)
    node = b.call([x.ref, how], {"dim": written(b, dim, x.rank)})
    _pieces(b, x, dim, node, [b.size(length) for length in lengths])


def _unbind(b: Builder) -> None:
    x = b.pick(ALL, rank=(1, 5))
    dim = a_dim(b, x)
    must(x.dims[dim].static and x.dims[dim].values[0] > 0)
    node = b.call([x.ref, written(b, dim, x.rank)])
    rest = (*x.dims[:dim], *x.dims[dim + 1 :])
    for _ in range(b.choices.between(1, 2)):
        index = b.choices.below(x.dims[dim].values[0])
        b.result(b.item(node, index), x.dtype, rest, x.vals, alias=x, contiguous=False)


def _meshgrid(b: Builder) -> None:
    first = b.pick(ALL, rank=(1, 1))
    second = b.pick((first.dtype,), rank=(1, 1))
    indexing = b.choices.choose(("ij", "xy"))
    node = b.call([first.ref, second.ref], {"indexing": indexing})
    dims = (*first.dims, *second.dims) if indexing == "ij" else (*second.dims, *first.dims)
    for index, var in enumerate((first, second)):
        b.result(b.item(node, index), var.dtype, dims, var.vals.repeated(), alias=var, contiguous=False, overlapping=True)


def _block_diag(b: Builder) -> None:
    first = b.pick(ALL, rank=(2, 2))
    second = b.pick((first.dtype,), rank=(2, 2))
    vals = ranges.union(first.vals, second.vals)
    dims = (first.dims[0] + second.dims[0], first.dims[1] + second.dims[1])
    b.result(b.call([first.ref, second.ref]), first.dtype, dims, vals.having(min(vals.lo, 0), max(vals.hi, 0)))


OPS: tuple[OpSpec, ...] = (
    OpSpec("cat", "join", ("torch.cat", "torch.concat", "aten.cat.default"), _cat, ALL, weight=9),
    OpSpec("stack", "join", ("torch.stack", "aten.stack.default"), _stack, ALL, weight=5),
    OpSpec("hstack", "join", ("torch.hstack",), _stack_along, ALL, weight=2),
    OpSpec("vstack", "join", ("torch.vstack",), _stack_along, ALL, weight=2),
    OpSpec("split", "join", functions("split", aten=False), _split, ALL, weight=4),
    OpSpec("chunk", "join", functions("chunk", aten=False), _chunk, ALL, weight=4),
    OpSpec("tensor_split", "join", functions("tensor_split", aten=False), _tensor_split, ALL, weight=2),
    OpSpec("unbind", "join", functions("unbind", aten=False), _unbind, ALL, weight=3),
    OpSpec("meshgrid", "join", ("torch.meshgrid",), _meshgrid, ALL, weight=1),
    OpSpec("block_diag", "join", ("torch.block_diag",), _block_diag, ALL, weight=1),
)
