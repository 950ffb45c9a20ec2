"""Shapes and views: what moves elements without computing."""

from __future__ import annotations

from collections.abc import Callable

from generators.builder import MAX_RANK, Builder, Dims, Var
from generators.ops.common import a_dim, dims_arg, must, replaced, size_args, written
from generators.ops.unary import functions
from generators.sizes import Size
from generators.spec import OpSpec
from generators.types import ALL
from harness.model.values import MemoryFormat, Value


def any_tensor(b: Builder, low: int = 0, high: int = MAX_RANK, *, contiguous: bool = False) -> Var:
    """A tensor of any dtype."""
    return b.pick(ALL, rank=(low, high), where=(lambda v: v.contiguous) if contiguous else None, fresh=20)


def _split_size(b: Builder, size: Size) -> tuple[Size, Size] | None:
    """Two sizes whose product is `size`."""
    if size.static:
        value = size.values[0]
        factors = [n for n in range(1, value + 1) if value % n == 0] or [1]
        factor = b.choices.choose(factors)
        return b.size(factor), b.size(value // factor if value else 0)
    for factor in (2, 3, 4):
        if size.expr is not None and (size.expr.endswith(f"*{factor}") or size.expr.startswith(f"{factor}*")):
            return size // factor, b.size(factor)
    return None


def _reshaped(b: Builder, x: Var) -> tuple[Dims, list[Value]]:
    """Another shape of as many elements, and how it is written: adjacent dims merged, one split, ones put in."""
    dims = list(x.dims)
    for _ in range(b.choices.between(1, 2)):
        how = b.choices.below(4)
        if how <= 1 and len(dims) >= 2:
            at = b.choices.below(len(dims) - 1)
            dims[at : at + 2] = [dims[at] * dims[at + 1]]
        elif how == 2 and dims:
            at = b.choices.below(len(dims))
            parts = _split_size(b, dims[at])
            if parts:
                dims[at : at + 1] = list(parts)
        elif len(dims) < MAX_RANK:
            dims.insert(b.choices.between(0, len(dims)), b.one)
    must(len(dims) <= MAX_RANK)
    args = size_args(tuple(dims))
    if dims and b.choices.coin(45):
        at = b.choices.below(len(dims))
        # -1 is refused where the other sizes multiply to 0.
        if all(size.low > 0 for index, size in enumerate(dims) if index != at):
            args[at] = -1
    return tuple(dims), args


def _view(b: Builder) -> None:
    x = any_tensor(b, contiguous=True)
    dims, args = _reshaped(b, x)
    listed = not b.spelling.startswith(".") or b.choices.coin(40) or not args
    b.result(b.call([x.ref, args] if listed else [x.ref, *args]), x.dtype, dims, x.vals, alias=x)


def _reshape(b: Builder) -> None:
    x = any_tensor(b)
    dims, args = _reshaped(b, x)
    b.result(b.call([x.ref, args]), x.dtype, dims, x.vals, alias=x, contiguous=x.contiguous)


def _flatten(b: Builder) -> None:
    x = any_tensor(b)
    if x.rank < 2 or b.choices.coin(40):
        if b.as_module:
            must(x.rank >= 2)
            dims: Dims = (x.dims[0], b.numel(x.dims[1:]))
            node = b.module([x.ref])
        else:
            dims, node = (b.numel(x.dims),), b.call([x.ref])
    else:
        first = b.choices.below(x.rank)
        last = b.choices.between(first, x.rank - 1)
        dims = (*x.dims[:first], b.numel(x.dims[first : last + 1]), *x.dims[last + 1 :])
        args = [first, written(b, last, x.rank)]
        node = b.module([x.ref], args) if b.as_module else b.call([x.ref, *args])
    b.result(node, x.dtype, dims, x.vals, alias=x, contiguous=x.contiguous)


def _unflatten(b: Builder) -> None:
    x = any_tensor(b, 1, MAX_RANK - 1)
    dim = a_dim(b, x)
    parts = _split_size(b, x.dims[dim])
    must(parts is not None and all(size.low > 0 for size in parts))
    assert parts is not None
    sizes = size_args(parts)
    if b.choices.coin(40):
        sizes[b.choices.below(2)] = -1
    dims = (*x.dims[:dim], *parts, *x.dims[dim + 1 :])
    node = b.call([x.ref, written(b, dim, x.rank), sizes])
    b.result(node, x.dtype, dims, x.vals, alias=x, contiguous=x.contiguous)


def _squeeze(b: Builder) -> None:
    x = any_tensor(b)
    if not x.dims or b.choices.coin(30):
        # Which dims go must not depend on a symbol's value.
        must(all(size.static or 1 not in size.values for size in x.dims))
        dims = tuple(size for size in x.dims if not size.is_value(1))
        node = b.call([x.ref])
    else:
        dim = a_dim(b, x)
        must(x.dims[dim].static or 1 not in x.dims[dim].values)
        dims = tuple(size for index, size in enumerate(x.dims) if index != dim or not size.is_value(1))
        node = b.call([x.ref, written(b, dim, x.rank)])
    b.result(node, x.dtype, dims, x.vals, alias=x, contiguous=x.contiguous)


def _unsqueeze(b: Builder) -> None:
    x = any_tensor(b, 0, MAX_RANK - 1)
    at = b.choices.between(0, x.rank)
    dims = (*x.dims[:at], b.one, *x.dims[at:])
    b.result(b.call([x.ref, written(b, at, x.rank + 1)]), x.dtype, dims, x.vals, alias=x, contiguous=x.contiguous)


def _transpose(b: Builder) -> None:
    x = any_tensor(b, 1)
    first, second = a_dim(b, x), a_dim(b, x)
    order = list(range(x.rank))
    order[first], order[second] = order[second], order[first]
    node = b.call([x.ref, written(b, first, x.rank), written(b, second, x.rank)])
    b.result(node, x.dtype, tuple(x.dims[i] for i in order), x.vals, alias=x, contiguous=x.contiguous and first == second)


def _t(b: Builder) -> None:
    x = any_tensor(b, 0, 2)
    b.result(b.call([x.ref]), x.dtype, tuple(reversed(x.dims)), x.vals, alias=x, contiguous=x.contiguous and x.rank < 2)


def _permute(b: Builder) -> None:
    x = any_tensor(b)
    order = b.choices.shuffled(x.rank)
    node = b.call([x.ref, dims_arg(b, x.rank, order)])
    b.result(node, x.dtype, tuple(x.dims[i] for i in order), x.vals, alias=x, contiguous=x.contiguous and order == tuple(range(x.rank)))


def _movedim(b: Builder) -> None:
    x = any_tensor(b, 1)
    source, target = a_dim(b, x), a_dim(b, x)
    order = [i for i in range(x.rank) if i != source]
    order.insert(target, source)
    node = b.call([x.ref, written(b, source, x.rank), written(b, target, x.rank)])
    b.result(node, x.dtype, tuple(x.dims[i] for i in order), x.vals, alias=x, contiguous=x.contiguous and source == target)


def _expand(b: Builder) -> None:
    x = any_tensor(b)
    dims = [b.new_size() if size.is_value(1) and b.choices.coin(80) else size for size in x.dims]
    args: list[Value] = [-1 if same is old and b.choices.coin(40) else same.dim for same, old in zip(dims, x.dims, strict=True)]
    while len(dims) < MAX_RANK and b.choices.coin(35):
        extra = b.new_size()
        dims.insert(0, extra)
        args.insert(0, extra.dim)
    assert b.op is not None
    if b.op.name == "broadcast_to":
        args = size_args(tuple(dims))
    same_shape = len(dims) == x.rank and all(new is old for new, old in zip(dims, x.dims, strict=True))
    node = b.call([x.ref, *args]) if b.spelling == ".expand" and args and b.choices.coin(50) else b.call([x.ref, args])
    b.result(node, x.dtype, tuple(dims), x.vals.repeated(), alias=x, contiguous=x.contiguous and same_shape, overlapping=not same_shape)


def _expand_as(b: Builder) -> None:
    x = any_tensor(b)
    other = b.partner(x, ALL)
    must(len(b.joint(x, other)) == other.rank and all(a is c or a == c for a, c in zip(b.joint(x, other), other.dims, strict=True)))
    b.result(b.call([x.ref, other.ref]), x.dtype, other.dims, x.vals.repeated(), alias=x, contiguous=False, overlapping=True)


def _repeat(b: Builder) -> None:
    x = any_tensor(b)
    extra = b.choices.below(2) if x.rank < MAX_RANK else 0
    times = [b.choices.choose((1, 2, 3, 1, 2, 0)) for _ in range(x.rank + extra)]
    padded = (*([b.one] * extra), *x.dims)
    dims = tuple(size * n for size, n in zip(padded, times, strict=True))
    node = b.call([x.ref, times])
    b.result(node, x.dtype, dims, x.vals.repeated(), contiguous=False)


def _repeat_interleave(b: Builder) -> None:
    x = any_tensor(b, 1)
    times = b.choices.choose((2, 3, 1))
    if b.choices.coin(20):
        b.result(b.call([x.ref, times]), x.dtype, (b.numel(x.dims) * times,), x.vals.repeated())
        return
    dim = a_dim(b, x)
    node = b.call([x.ref, times], {"dim": written(b, dim, x.rank)})
    b.result(node, x.dtype, replaced(x.dims, dim, x.dims[dim] * times), x.vals.repeated(), contiguous=False)


def _contiguous(b: Builder) -> None:
    x = any_tensor(b)
    if x.rank == 4 and b.choices.coin(30):
        node = b.call([x.ref], {"memory_format": MemoryFormat("channels_last")})
        b.result(node, x.dtype, x.dims, x.vals, alias=x, contiguous=False)
        return
    b.result(b.call([x.ref]), x.dtype, x.dims, x.vals, alias=x)


def _clone(b: Builder) -> None:
    x = any_tensor(b)
    b.result(b.call([x.ref]), x.dtype, x.dims, x.vals, contiguous=x.contiguous)


def _detach(b: Builder) -> None:
    x = any_tensor(b)
    b.result(b.call([x.ref]), x.dtype, x.dims, x.vals, alias=x, contiguous=x.contiguous)


def _narrow(b: Builder) -> None:
    x = any_tensor(b, 1)
    dim = a_dim(b, x)
    size = x.dims[dim]
    start = b.choices.below(size.low + 1)
    length = size - start if not size.static and b.choices.coin(50) else b.size(b.choices.below(size.low - start + 1))
    node = b.call([x.ref, written(b, dim, x.rank), start, length.dim])
    b.result(node, x.dtype, replaced(x.dims, dim, length), x.vals, alias=x, contiguous=False)


def _select(b: Builder) -> None:
    x = any_tensor(b, 1)
    dim = a_dim(b, x)
    must(x.dims[dim].low > 0)
    index = b.choices.below(x.dims[dim].low)
    if b.choices.coin(35):
        index -= x.dims[dim].low
    dims = (*x.dims[:dim], *x.dims[dim + 1 :])
    b.result(b.call([x.ref, written(b, dim, x.rank), index]), x.dtype, dims, x.vals, alias=x, contiguous=x.contiguous and dim == 0)


def sliced(b: Builder, size: Size) -> tuple[Value, Size]:
    """A slice of a dim, and the size it leaves in every binding: bounds beyond the end and steps included."""
    step = b.choices.choose((1, 1, 1, 2, 3))
    how = b.choices.below(5)
    start: int | None = None if how == 0 else b.choices.between(0, max(size.high, 1))
    if how == 1 and size.low > 0:
        start = -b.choices.between(1, size.high + 1)
    stop: int | None = None if b.choices.coin(40) else b.choices.between(0, size.high + 2)
    if stop is not None and b.choices.coin(30):
        stop = -b.choices.between(1, max(size.high, 1))
    cut = slice(start, stop, step if step != 1 or b.choices.coin(30) else None)
    lengths = tuple(len(range(*cut.indices(value))) for value in size.values)
    if size.static:
        return cut, Size(lengths)
    if cut.start in (0, None) and cut.stop is None:
        return cut, size if step == 1 else (size + (step - 1)) // step
    if start is not None and 0 <= start <= size.low and stop is None:
        rest = size - start
        return cut, rest if step == 1 else (rest + (step - 1)) // step
    if start is None and stop is not None and stop < 0 and -stop <= size.low and step == 1:
        return cut, size - (-stop)
    must(len(set(lengths)) == 1 and stop is not None and 0 <= stop <= size.low and (start is None or start >= 0))
    return cut, b.size(lengths[0])


def _getitem(b: Builder) -> None:
    """Basic indexing: slices with steps, integers, None and Ellipsis."""
    x = any_tensor(b, 1)
    items: list[Value] = []
    dims: list[Size] = []
    at = 0
    used = b.choices.between(1, x.rank)
    dotted = False
    while at < used:
        size = x.dims[at]
        how = b.choices.below(10)
        if how < 6:
            cut, left = sliced(b, size)
            items.append(cut)
            dims.append(left)
            at += 1
        elif how < 8 and size.low > 0:
            index = b.choices.below(size.low)
            items.append(index - size.low if size.static and b.choices.coin(35) else index)
            at += 1
        elif how == 8 and len(dims) < MAX_RANK and None not in items:
            items.append(None)
            dims.append(b.one)
        elif how == 9 and not dotted and used == x.rank and at < x.rank:
            dotted = True
            count = b.choices.between(0, x.rank - at)
            items.append(Ellipsis)
            dims.extend(x.dims[at : at + count])
            at += count
        else:
            items.append(slice(None))
            dims.append(size)
            at += 1
    dims.extend(x.dims[at:])
    index_value: Value = items[0] if len(items) == 1 and b.choices.coin(60) else tuple(items)
    b.result(b.call([x.ref, index_value]), x.dtype, tuple(dims), x.vals, alias=x, contiguous=False)


def _diagonal(b: Builder) -> None:
    x = any_tensor(b, 2)
    must(x.static)
    first = a_dim(b, x)
    second = b.choices.choose([d for d in range(x.rank) if d != first])
    rows, columns = x.dims[first].values[0], x.dims[second].values[0]
    offset = b.choices.between(-min(rows, 2), min(columns, 2))
    length = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    rest = tuple(size for index, size in enumerate(x.dims) if index not in (first, second))
    node = b.call([x.ref, offset, written(b, first, x.rank), written(b, second, x.rank)])
    b.result(node, x.dtype, (*rest, b.size(length)), x.vals, alias=x, contiguous=False)


def _unfold(b: Builder) -> None:
    x = any_tensor(b, 1, MAX_RANK - 1)
    dim = a_dim(b, x)
    must(x.dims[dim].low >= 1)
    size, step = b.choices.between(1, min(x.dims[dim].low, 3)), b.choices.between(1, 2)
    windows = (x.dims[dim] - size) // step + 1
    node = b.call([x.ref, written(b, dim, x.rank), size, step])
    b.result(node, x.dtype, (*replaced(x.dims, dim, windows), b.size(size)), x.vals.repeated(), alias=x, contiguous=False, overlapping=True)


def _flip(b: Builder) -> None:
    x = any_tensor(b)
    must(x.rank > 0)
    dims = b.choices.some(x.rank)
    b.result(b.call([x.ref, dims_arg(b, x.rank, dims)]), x.dtype, x.dims, x.vals, contiguous=False)


def _flip_side(b: Builder) -> None:
    x = any_tensor(b, 2 if b.op is not None and b.op.name == "fliplr" else 1)
    b.result(b.call([x.ref]), x.dtype, x.dims, x.vals, contiguous=False)


def _roll(b: Builder) -> None:
    x = any_tensor(b)
    listed = b.spelling.startswith("aten.")
    if not x.dims or b.choices.coin(20):
        shift: Value = b.choices.between(-7, 7)
        node = b.call([x.ref, [shift] if listed else shift])
    elif b.choices.coin(60) and not listed:
        node = b.call([x.ref, b.choices.between(-7, 7), written(b, a_dim(b, x), x.rank)])
    else:
        dims = b.choices.some(x.rank)
        shifts = [b.choices.between(-7, 7) for _ in dims]
        node = b.call([x.ref, shifts, dims_arg(b, x.rank, dims)])
    b.result(node, x.dtype, x.dims, x.vals, contiguous=False)


def _rot90(b: Builder) -> None:
    x = any_tensor(b, 2)
    turns = b.choices.between(-2, 5)
    first = a_dim(b, x)
    second = b.choices.choose([d for d in range(x.rank) if d != first])
    dims = list(x.dims)
    if turns % 2:
        dims[first], dims[second] = dims[second], dims[first]
    b.result(b.call([x.ref, turns, [first, second]]), x.dtype, tuple(dims), x.vals, contiguous=False)


def _triangle(b: Builder) -> None:
    x = any_tensor(b, 2)
    diagonal = b.choices.between(-3, 3)
    vals = x.vals.having(min(x.vals.lo, 0), max(x.vals.hi, 0))
    b.result(b.call([x.ref, diagonal] if diagonal or b.choices.coin(30) else [x.ref]), x.dtype, x.dims, vals, contiguous=False)


def _diag(b: Builder) -> None:
    x = b.pick(ALL, rank=(1, 2), where=lambda v: v.static)
    offset = b.choices.between(-1, 1)
    if x.rank == 1:
        n = x.dims[0].values[0] + abs(offset)
        vals = x.vals.having(min(x.vals.lo, 0), max(x.vals.hi, 0))
        b.result(b.call([x.ref, offset]), x.dtype, (b.size(n), b.size(n)), vals)
    else:
        rows, columns = (size.values[0] for size in x.dims)
        must(-rows <= offset <= columns)
        length = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
        b.result(b.call([x.ref, offset]), x.dtype, (b.size(length),), x.vals, contiguous=False)


def _spec(name: str, draw: Callable[[Builder], None], spellings: tuple[str, ...] = (), weight: int = 4) -> OpSpec:
    return OpSpec(name, "shape", spellings or functions(name, aten=False), draw, ALL, True, weight)


OPS: tuple[OpSpec, ...] = (
    _spec("view", _view, (".view", "aten.view.default"), 6),
    _spec("reshape", _reshape, ("torch.reshape", ".reshape"), 6),
    _spec("flatten", _flatten, ("torch.flatten", ".flatten", "nn.Flatten"), 5),
    _spec("unflatten", _unflatten, ("torch.unflatten", ".unflatten"), 2),
    _spec("squeeze", _squeeze),
    _spec("unsqueeze", _unsqueeze, functions("unsqueeze"), 5),
    _spec("transpose", _transpose, ("torch.transpose", ".transpose", "torch.swapaxes", "aten.transpose.int"), 6),
    _spec("t", _t, ("torch.t", ".t"), 2),
    _spec("permute", _permute, functions("permute"), 6),
    _spec("movedim", _movedim, weight=2),
    _spec("expand", _expand, (".expand", "aten.expand.default")),
    _spec("broadcast_to", _expand, weight=2),
    _spec("expand_as", _expand_as, (".expand_as",), 2),
    _spec("repeat", _repeat, (".repeat", "aten.repeat.default"), 3),
    _spec("tile", _repeat, ("torch.tile", ".tile"), 2),
    _spec("repeat_interleave", _repeat_interleave, weight=2),
    _spec("contiguous", _contiguous, (".contiguous",), 2),
    _spec("clone", _clone, weight=2),
    _spec("detach", _detach, (".detach",), 1),
    _spec("narrow", _narrow, weight=3),
    _spec("select", _select, (*functions("select", aten=False), "aten.select.int"), 3),
    _spec("getitem", _getitem, ("operator.getitem",), 9),
    _spec("diagonal", _diagonal, weight=2),
    _spec("unfold", _unfold, (".unfold",), 2),
    _spec("flip", _flip, functions("flip")),
    _spec("fliplr", _flip_side, weight=1),
    _spec("flipud", _flip_side, weight=1),
    _spec("roll", _roll, functions("roll")),
    _spec("rot90", _rot90, weight=2),
    _spec("tril", _triangle, functions("tril"), 2),
    _spec("triu", _triangle, functions("triu"), 2),
    _spec("diag", _diag, weight=2),
)
