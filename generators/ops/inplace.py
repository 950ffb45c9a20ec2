"""Operators that write into their first argument: an input, a buffer, a result, or a view of one."""

from __future__ import annotations

from collections.abc import Callable

from generators import ranges
from generators.builder import Builder, Var
from generators.ops.common import must, number
from generators.ops.create import cast_vals
from generators.ops.shape import sliced
from generators.ranges import Vals
from generators.sizes import Size, broadcast, same_dims
from generators.spec import OpSpec
from generators.types import ALL, FLOATS, NUMERIC, can_cast, is_float, result_type
from harness.model.values import Value


def target(b: Builder, dtypes: tuple[str, ...], low: int = 0) -> Var:
    """A tensor that may be written to; every other operand must not share its memory."""
    return b.pick(dtypes, rank=(low, 5), where=lambda v: v.writable and not v.overlapping, fresh=15)


def _other(b: Builder, x: Var, dtypes: tuple[str, ...], domain: tuple[float, float] | None = None) -> Var:
    more = {} if domain is None else {"domain": domain, "strict": True}
    return b.partner(x, dtypes, into=True, where=lambda v: v.root != x.root, **more)  # type: ignore[arg-type]


def _arithmetic(b: Builder) -> None:
    assert b.op is not None
    name = b.op.name
    x = target(b, NUMERIC)
    if b.choices.coin(40):
        value = number(b, x.dtype, nonzero=name == "div_")
        must(not isinstance(value, bool))
        other: Value = value
        other_vals, kind = ranges.constant(value), result_type([x.kind, value])
    else:
        y = _other(b, x, (x.dtype,) if b.choices.coin(75) else NUMERIC, (0.25, 100) if name == "div_" else None)
        other, other_vals, kind = y.ref, y.vals, result_type([x.kind, y.kind])
    if name == "div_":
        must(is_float(x.dtype))
        power = isinstance(other, int | float) and abs(other) in (0.25, 0.5, 1, 2, 4)
        smallest = min(abs(other_vals.lo), abs(other_vals.hi)) or 0.25
        reach = x.vals.peak / smallest
        vals = x.vals.rough(-reach, reach)
        if power and x.vals.grain is not None:
            vals = Vals(-reach, reach, x.vals.grain + 2, x.vals.exact, x.vals.special)
    else:
        rule = {"add_": ranges.add, "sub_": ranges.sub, "mul_": ranges.mul}[name]
        vals = rule(x.vals, other_vals)
    must(can_cast(kind, x.dtype))
    b.mutated(x, b.call([x.ref, other]), vals)


def _simple(rule: Callable[[Vals], Vals]) -> Callable[[Builder], None]:
    def draw(b: Builder) -> None:
        assert b.op is not None
        x = target(b, b.op.dtypes)
        b.mutated(x, b.call([x.ref]), rule(x.vals))

    return draw


def _relu_inplace(b: Builder) -> None:
    x = target(b, FLOATS)
    node = (
        b.module([x.ref], (), {"inplace": True})
        if b.as_module
        else b.call([x.ref], {"inplace": True} if "functional" in b.spelling else {})
    )
    b.mutated(x, node, x.vals.having(max(x.vals.lo, 0.0), max(x.vals.hi, 0.0)))


def _fill(b: Builder) -> None:
    x = target(b, ALL)
    value = number(b, x.dtype, floats=is_float(x.dtype))
    must(x.dtype != "bool" or isinstance(value, bool))
    b.mutated(x, b.call([x.ref, value]), ranges.constant(value))


def _clamp(b: Builder) -> None:
    x = target(b, FLOATS)
    low, high = b.choices.choose(((-1, 1), (0, 0.5), (-2, 0)))
    grain = None if x.vals.grain is None else max(x.vals.grain, 1)
    vals = Vals(min(max(x.vals.lo, low), high), max(min(x.vals.hi, high), low), grain, x.vals.exact, x.vals.special)
    b.mutated(x, b.call([x.ref, low, high]), vals)


def _copy(b: Builder) -> None:
    x = target(b, ALL)
    y = _other(b, x, ALL)
    b.mutated(x, b.call([x.ref, y.ref]), cast_vals(b, y, x.dtype))


def _masked_fill(b: Builder) -> None:
    x = target(b, ALL)
    mask = _other(b, x, ("bool",))
    value = number(b, x.dtype, floats=is_float(x.dtype))
    must(x.dtype != "bool" or isinstance(value, bool))
    b.mutated(x, b.call([x.ref, mask.ref, value]), ranges.union(x.vals, ranges.constant(value)))


def _setitem(b: Builder) -> None:
    """x[...] = value, with a slice or an integer; later readers see it through `x`."""
    x = target(b, ALL, 1)
    dims: list[Size] = []
    items: list[Value] = []
    for size in x.dims[: b.choices.between(1, x.rank)]:
        if size.low > 0 and b.choices.coin(35):
            items.append(b.choices.below(size.low))
        else:
            cut, left = sliced(b, size)
            items.append(cut)
            dims.append(left)
    dims.extend(x.dims[len(items) :])
    if b.choices.coin(50):
        value: Value = number(b, x.dtype, floats=is_float(x.dtype))
        must(x.dtype != "bool" or isinstance(value, bool))
        written = ranges.constant(value)
    else:
        shape = tuple(dims)
        y = b.pick(
            (x.dtype,),
            where=lambda v: v.root != x.root and _fits(v.dims, shape),
            dims=lambda: shape,
            rank=(0, len(shape)),
        )
        value, written = y.ref, y.vals
    b.call([x.ref, items[0] if len(items) == 1 and b.choices.coin(60) else tuple(items), value])
    b.overwritten(x, ranges.union(x.vals, written))
    b.ends.append(x.ref)


def _fits(dims: tuple[Size, ...], into: tuple[Size, ...]) -> bool:
    joint = broadcast(dims, into)
    return joint is not None and same_dims(joint, into)


def _index_put(b: Builder) -> None:
    x = target(b, ALL, 1)
    must(x.dims[0].low > 0)
    index = b.indices((b.one,), x.dims[0])
    value = number(b, x.dtype, floats=is_float(x.dtype))
    must(x.dtype != "bool" or isinstance(value, bool))
    b.mutated(x, b.call([x.ref, 0, index.ref, value]), ranges.union(x.vals, ranges.constant(value)))


def _spec(name: str, draw: Callable[[Builder], None], dtypes: tuple[str, ...], spellings: tuple[str, ...] = (), weight: int = 2) -> OpSpec:
    return OpSpec(name, "inplace", spellings or (f".{name}",), draw, dtypes, True, weight)


def _abs(v: Vals) -> Vals:
    return v.having(0.0, v.peak)


OPS: tuple[OpSpec, ...] = (
    _spec("add_", _arithmetic, NUMERIC, (".add_", "operator.iadd"), 4),
    _spec("sub_", _arithmetic, NUMERIC, (".sub_", "operator.isub")),
    _spec("mul_", _arithmetic, NUMERIC, (".mul_", "operator.imul"), 3),
    _spec("div_", _arithmetic, FLOATS, (".div_", "operator.itruediv")),
    _spec("relu_", _relu_inplace, FLOATS, (".relu_", "torch.nn.functional.relu", "nn.ReLU"), 3),
    _spec("neg_", _simple(ranges.neg), NUMERIC),
    _spec("abs_", _simple(_abs), NUMERIC, weight=1),
    _spec("zero_", _simple(lambda v: Vals(0, 0)), ALL),
    _spec("fill_", _fill, ALL),
    _spec("clamp_", _clamp, FLOATS),
    _spec("copy_", _copy, ALL, weight=3),
    _spec("masked_fill_", _masked_fill, ALL),
    _spec("setitem", _setitem, ALL, ("operator.setitem",), 5),
    _spec("index_fill_", _index_put, ALL, weight=1),
)
