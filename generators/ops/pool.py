"""Pooling: max, average, adaptive, and power averages, with ceil_mode and dilation."""

from __future__ import annotations

from dataclasses import replace

from generators import ranges
from generators.builder import Builder, Dims, Var
from generators.ops.common import must
from generators.ops.conv import Window, out_size, spelled, window
from generators.ranges import Vals
from generators.sizes import Size
from generators.spec import OpSpec
from generators.types import FLOATS, WIDE
from harness.model.values import Value


def _input(b: Builder, spatial: int, *, distinct: bool = False) -> Var:
    return b.pick(
        FLOATS,
        rank=(spatial + 1, spatial + 2),
        where=lambda v: all(size.low > 0 for size in v.dims[1 if v.rank == spatial + 2 else 0 :]),
        dims=lambda: _dims(b, spatial),
        fresh=40,
        distinct=distinct,
        exact=distinct,
    )


def _dims(b: Builder, spatial: int) -> Dims:
    batch = (b.new_size(1),) if b.choices.coin(85) else ()
    return (*batch, b.new_size(1), *(b.new_size(2 if spatial == 3 else 3) for _ in range(spatial)))


def _ceil(size: Size, w: Window) -> Size | None:
    """The size in ceil_mode, where every window must begin inside the input or its left padding."""
    values = []
    for value in size.values:
        out = -(-(value + 2 * w.padding - w.span) // w.stride) + 1
        if (out - 1) * w.stride >= value + w.padding:
            out -= 1
        values.append(out)
    up = (size + (2 * w.padding - w.span + w.stride - 1)) // w.stride + 1
    if tuple(values) == up.values:
        return up
    return Size(tuple(values)) if size.static else None


def _sees(size: Size, out: Size, w: Window) -> bool:
    """Whether every window covers an element of the input."""
    return all(
        any(0 <= start * w.stride - w.padding + step * w.dilation < length for step in range(w.kernel))
        for length, count in zip(size.values, out.values, strict=True)
        for start in range(count)
    )


def _windows(
    b: Builder, x: Var, spatial: int, *, dilated: bool = False, averages: bool = False, padded: bool = True
) -> tuple[list[Window], list[Size], bool]:
    """A window per spatial dim, the sizes after it, and ceil_mode.

    Only averages of powers of two are exact, and of a clipped window only where it has at most two elements a dim.
    """
    ceil = padded and b.choices.coin(35)
    kernels: tuple[int, ...] = (2, 3, 1, 3, 2, 4)
    if averages and b.is_exact:
        kernels = (2, 1, 2) if ceil else (2, 1, 4, 2)
    windows, sizes = [], []
    for size in x.dims[-spatial:]:
        w = window(b, size, half=True, dilated=dilated, kernels=kernels)
        if not padded:
            w = replace(w, padding=0)
        must((padded and spatial < 3) or w.span <= size.low)  # in three dims PyTorch does not count the padding
        out = _ceil(size, w) if ceil else out_size(size, w)
        must(out is not None and out.low > 0)
        assert out is not None
        windows.append(w)
        sizes.append(out)
    return windows, sizes, ceil


def _settings(b: Builder, windows: list[Window], ceil: bool, *, dilated: bool) -> tuple[Value, dict[str, Value]]:
    kernel = spelled(b, [w.kernel for w in windows])
    kwargs: dict[str, Value] = {"stride": spelled(b, [w.stride for w in windows])}
    if windows_default := all(w.stride == w.kernel for w in windows):
        kwargs = {}
    if any(w.padding for w in windows) or (not windows_default and b.choices.coin(15)):
        kwargs["padding"] = spelled(b, [w.padding for w in windows])
    if dilated and any(w.dilation != 1 for w in windows):
        kwargs["dilation"] = spelled(b, [w.dilation for w in windows])
    if ceil:
        kwargs["ceil_mode"] = True
    return kernel, kwargs


def _place(b: Builder, x: Var, args: list[Value], kwargs: dict[str, Value]) -> str:
    return b.module([x.ref], args, kwargs) if b.as_module else b.call([x.ref, *args], kwargs)


def _max_pool(b: Builder) -> None:
    assert b.op is not None
    spatial = int(b.op.name[-2])
    indices = b.choices.coin(15)
    x = _input(b, spatial, distinct=indices)
    must(spatial < 3 or x.contiguous)
    windows, sizes, ceil = _windows(b, x, spatial, dilated=True)
    # A window that sees nothing but padding yields minus infinity.
    must(b.lane == "special" or all(_sees(*part) for part in zip(x.dims[-spatial:], sizes, windows, strict=True)))
    kernel, kwargs = _settings(b, windows, ceil, dilated=True)
    dims = (*x.dims[:-spatial], *sizes)
    if not indices:
        vals = replace(x.vals.repeated(), special=x.vals.special or b.lane == "special")
        b.result(_place(b, x, [kernel], kwargs), x.dtype, dims, vals, contiguous=False)
        return
    node = _place(b, x, [kernel], {**kwargs, "return_indices": True})
    b.result(b.item(node, 0), x.dtype, dims, x.vals.repeated(), contiguous=False)
    b.result(b.item(node, 1), "int64", dims, Vals(0, b.numel(x.dims[-spatial:]).high - 1), contiguous=False)


def _avg_pool(b: Builder) -> None:
    assert b.op is not None
    spatial = int(b.op.name[-2])
    x = _input(b, spatial)
    must(spatial < 3 or x.dtype in WIDE)
    windows, sizes, ceil = _windows(b, x, spatial, averages=True)
    kernel, kwargs = _settings(b, windows, ceil, dilated=False)
    if b.choices.coin(30):
        kwargs["count_include_pad"] = b.choices.coin(30)
    area = 1
    for w in windows:
        area *= w.kernel
    clipped = ceil or (not kwargs.get("count_include_pad", True) and any(w.padding for w in windows))
    vals = x.vals.having(min(x.vals.lo, 0), max(x.vals.hi, 0))
    if spatial > 1 and b.choices.coin(15):
        area = b.choices.choose((2, 4, 3))
        kwargs["divisor_override"] = area
        clipped = False
        vals = ranges.total(x.vals, 64)
    peak = x.vals.peak * 64
    rounds = clipped and any(w.kernel > 2 for w in windows)
    vals = vals.rough(vals.lo, vals.hi) if rounds else ranges.mean(vals, (area,))
    b.result(_place(b, x, [kernel], kwargs), x.dtype, (*x.dims[:-spatial], *sizes), vals, contiguous=False, peak=peak)


def _adaptive(b: Builder) -> None:
    assert b.op is not None
    spatial = int(b.op.name[-2])
    average = "avg" in b.op.name
    x = _input(b, spatial)
    targets = [b.choices.choose((1, 2, 3, 4)) for _ in range(spatial)]
    written: list[Value] = list(targets)
    sizes = [b.size(n) for n in targets]
    if spatial > 1 and b.choices.coin(20):
        at = b.choices.below(spatial)
        written[at], sizes[at] = None, x.dims[at - spatial]
    size: Value = (
        written[0] if len({str(item) for item in written}) == 1 and written[0] is not None and b.choices.coin(60) else tuple(written)
    )
    node = _place(b, x, [size], {})
    dims = (*x.dims[:-spatial], *sizes)
    if not average:
        vals = x.vals.repeated()
    else:
        even = all(
            source.static and target.static and source.values[0] % target.values[0] == 0
            for source, target in zip(x.dims[-spatial:], sizes, strict=True)
        )
        area = 1
        for source, target in zip(x.dims[-spatial:], sizes, strict=True):
            area *= max(source.high // max(target.low, 1), 1)
        vals = ranges.mean(x.vals, (area,)) if even else x.vals.rough(x.vals.lo, x.vals.hi)
    b.result(node, x.dtype, dims, vals, contiguous=False, peak=x.vals.peak * 64)


def _lp_pool(b: Builder) -> None:
    assert b.op is not None
    spatial = int(b.op.name[-2])
    x = _input(b, spatial)
    windows, sizes, _ = _windows(b, x, spatial, padded=False)
    kernel, kwargs = _settings(b, windows, False, dilated=False)
    kwargs.pop("padding", None)
    vals = replace(x.vals.rough(-x.vals.peak * 8, x.vals.peak * 8))
    b.result(_place(b, x, [2.0, kernel], kwargs), x.dtype, (*x.dims[:-spatial], *sizes), vals, contiguous=False)


def _spec(name: str, layer: str, draw: object, weight: int = 2, exact: bool = True) -> OpSpec:
    return OpSpec(name, "pool", (f"torch.nn.functional.{name}", f"nn.{layer}"), draw, FLOATS, exact, weight)  # type: ignore[arg-type]


OPS: tuple[OpSpec, ...] = (
    _spec("max_pool1d", "MaxPool1d", _max_pool, 3),
    _spec("max_pool2d", "MaxPool2d", _max_pool, 7),
    _spec("max_pool3d", "MaxPool3d", _max_pool),
    _spec("avg_pool1d", "AvgPool1d", _avg_pool, 3),
    _spec("avg_pool2d", "AvgPool2d", _avg_pool, 7),
    _spec("avg_pool3d", "AvgPool3d", _avg_pool),
    _spec("adaptive_avg_pool1d", "AdaptiveAvgPool1d", _adaptive, 3),
    _spec("adaptive_avg_pool2d", "AdaptiveAvgPool2d", _adaptive, 5),
    _spec("adaptive_max_pool1d", "AdaptiveMaxPool1d", _adaptive),
    _spec("adaptive_max_pool2d", "AdaptiveMaxPool2d", _adaptive),
    _spec("lp_pool2d", "LPPool2d", _lp_pool, 1, False),
)
