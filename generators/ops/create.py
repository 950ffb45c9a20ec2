"""Creation of tensors, and conversion between dtypes."""

from __future__ import annotations

import math

from generators import ranges
from generators.builder import Builder, Dims, Var
from generators.ops.common import must, number, size_args
from generators.ops.unary import functions
from generators.ranges import Vals, constant
from generators.spec import OpSpec
from generators.types import ALL, FLOATS, is_float, is_int, limits, scalar_dtype
from harness.model.values import Device, DType, Value


def _shape(b: Builder) -> Dims:
    return b.new_dims(0, 4)


def _options(b: Builder, percent: int = 60) -> tuple[str | None, dict[str, Value]]:
    kwargs: dict[str, Value] = {}
    dtype = None
    if b.choices.coin(percent):
        dtype = b.new_dtype(ALL)
        kwargs["dtype"] = DType(dtype)
    if b.choices.coin(10):
        kwargs["device"] = Device("cpu")
    return dtype, kwargs


def _sizes(b: Builder, dims: Dims) -> list[Value]:
    """Sizes as one list, one tuple, or one argument each."""
    args = size_args(dims)
    how = b.choices.below(3)
    return [args] if how == 0 or not args else [tuple(args)] if how == 1 else args


def _filled(b: Builder) -> None:
    assert b.op is not None
    dims = _shape(b)
    dtype, kwargs = _options(b)
    value = 1 if b.op.name == "ones" else 0
    b.result(b.call(_sizes(b, dims), kwargs), dtype or "float32", dims, constant(value))


def _full(b: Builder) -> None:
    dims = _shape(b)
    dtype, kwargs = _options(b, 50)
    value = number(b, dtype or "float32", floats=dtype is None or is_float(dtype))
    must(dtype != "bool" or isinstance(value, bool))
    b.result(b.call([size_args(dims), value], kwargs), dtype or scalar_dtype(value), dims, constant(value))


def _full_like(b: Builder) -> None:
    assert b.op is not None
    x = b.pick(ALL)
    dtype, kwargs = _options(b, 35)
    out = dtype or x.dtype
    args: list[Value] = [x.ref]
    if b.op.name == "full_like":
        value = number(b, out, floats=is_float(out))
        must(out != "bool" or isinstance(value, bool))
        args.append(value)
    else:
        value = 1 if b.op.name == "ones_like" else 0
    b.result(b.call(args, kwargs), out, x.dims, constant(value), contiguous=x.contiguous)


def _new(b: Builder) -> None:
    assert b.op is not None
    x = b.pick(ALL)
    dims = _shape(b)
    dtype, kwargs = _options(b, 35)
    out = dtype or x.dtype
    args: list[Value] = [x.ref, size_args(dims)]
    if b.op.name == "new_full":
        value = number(b, out, floats=is_float(out))
        must(out != "bool" or isinstance(value, bool))
        args.append(value)
    else:
        value = 1 if b.op.name == "new_ones" else 0
    b.result(b.call(args, kwargs), out, dims, constant(value))


def _arange(b: Builder) -> None:
    dtype, kwargs = _options(b, 40)
    must(dtype != "bool")
    symbols = [size for size in b.pool if not size.static]
    if symbols and b.choices.coin(40):
        size = b.choices.choose(symbols)
        b.result(b.call([size.dim], kwargs), dtype or "int64", (size,), Vals(0, size.high))
        return
    start, step = b.choices.choose((0, 1, -2, 5)), b.choices.choose((1, 2, -1, 3))
    count = b.choices.between(0, 6)
    if dtype in ("uint8",):
        start, step = abs(start), abs(step)
    stop = start + step * count
    if b.choices.coin(25) and (dtype is None or is_float(dtype)):
        must(not b.is_exact or step > 0)
        half = 0.5 * step
        stop_float = start + half * count
        node = b.call([float(start), stop_float, half], kwargs)
        b.result(node, dtype or "float32", (b.size(count),), Vals(min(start, stop_float), max(start, stop_float), 1))
        return
    args: list[Value] = [stop] if start == 0 and step == 1 else [start, stop] if step == 1 else [start, stop, step]
    b.result(b.call(args, kwargs), dtype or "int64", (b.size(count),), Vals(min(start, stop), max(start, stop)))


def _linspace(b: Builder) -> None:
    steps = b.choices.choose((5, 3, 1, 9, 0, 4))
    low, high = b.choices.choose((0, -1, 0.5)), b.choices.choose((1, 2, 3.0))
    must(not b.is_exact or steps in (3, 5, 9))
    kwargs: dict[str, Value] = {"dtype": DType(b.new_dtype(("float32", "float64")))} if b.choices.coin(30) else {}
    dtype = kwargs["dtype"].name if kwargs else "float32"
    b.result(b.call([low, high, steps], kwargs), dtype, (b.size(steps),), Vals(low, high, 4 if b.is_exact else None, False))


def _eye(b: Builder) -> None:
    rows, columns = b.new_size(), b.new_size()
    dtype, kwargs = _options(b, 40)
    square = b.choices.coin(50)
    args = [rows.dim] if square else [rows.dim, columns.dim]
    b.result(b.call(args, kwargs), dtype or "float32", (rows, rows if square else columns), Vals(0, 1))


def _scalar_tensor(b: Builder) -> None:
    value = number(b, "float32")
    dtype, kwargs = _options(b, 40)
    must(dtype is None or is_float(dtype))
    b.result(b.call([value], kwargs), dtype or "float32", (), constant(value))


def castable(vals: Vals, dtype: str) -> bool:
    """Whether a conversion to `dtype` is defined for all such values."""
    if is_float(dtype) or dtype == "bool":
        return True
    low, high = limits(dtype)
    return not vals.special and low <= math.floor(vals.lo) and math.ceil(vals.hi) <= high


def cast_vals(b: Builder, x: Var, dtype: str) -> Vals:
    """What is known after a conversion; raises Skip where it is not defined."""
    must(castable(x.vals, dtype) or (is_int(x.dtype) and dtype == "uint8"))
    if dtype == "bool":
        must(x.vals.exact)
        return Vals(0, 1)
    if is_float(dtype):
        return x.vals
    if is_float(x.dtype):
        must(x.vals.exact)
        return ranges.whole(x.vals, math.trunc)
    if castable(x.vals, dtype):
        return x.vals
    low, high = limits(dtype)  # it wraps
    return Vals(low, high)


_SHORTHANDS = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "int": "int32",
    "long": "int64",
    "bool": "bool",
}


def _to(b: Builder) -> None:
    x = b.pick(ALL)
    dtype = b.choices.choose(ALL)
    node = b.call([x.ref, DType(dtype)]) if b.choices.coin(50) else b.call([x.ref], {"dtype": DType(dtype)})
    vals = cast_vals(b, x, dtype)
    b.result(node, dtype, x.dims, vals, contiguous=x.contiguous, alias=x if dtype == x.dtype else None)


def _shorthand(b: Builder) -> None:
    """x.float(), x.long() and their like."""
    assert b.op is not None
    x, dtype = b.pick(ALL), _SHORTHANDS[b.op.name]
    vals = cast_vals(b, x, dtype)
    b.result(b.call([x.ref]), dtype, x.dims, vals, contiguous=x.contiguous, alias=x if dtype == x.dtype else None)


def _type_as(b: Builder) -> None:
    x = b.pick(ALL)
    y = b.pick(ALL)
    vals = cast_vals(b, x, y.dtype)
    b.result(b.call([x.ref, y.ref]), y.dtype, x.dims, vals, contiguous=x.contiguous, alias=x if y.dtype == x.dtype else None)


def _spec(
    name: str, draw: object, spellings: tuple[str, ...] = (), weight: int = 2, dtypes: tuple[str, ...] = ALL, family: str = "creation"
) -> OpSpec:
    return OpSpec(name, family, spellings or functions(name, method=False, aten=False), draw, dtypes, True, weight)  # type: ignore[arg-type]


OPS: tuple[OpSpec, ...] = (
    _spec("zeros", _filled),
    _spec("ones", _filled),
    _spec("full", _full, weight=3),
    _spec("zeros_like", _full_like),
    _spec("ones_like", _full_like),
    _spec("full_like", _full_like, weight=3),
    _spec("new_zeros", _new, (".new_zeros",), 1),
    _spec("new_ones", _new, (".new_ones",), 1),
    _spec("new_full", _new, (".new_full",), 1),
    _spec("arange", _arange, weight=4),
    _spec("linspace", _linspace, dtypes=FLOATS),
    _spec("eye", _eye),
    _spec("scalar_tensor", _scalar_tensor, weight=1, dtypes=FLOATS),
    _spec("to", _to, (".to",), 6, ALL, "cast"),
    *(_spec(name, _shorthand, (f".{name}",), 1, ALL, "cast") for name in _SHORTHANDS),
    _spec("type_as", _type_as, (".type_as",), 2, ALL, "cast"),
)
