"""Padding in every mode, negative pads included, interpolation, and the rearrangements of pixels."""

from __future__ import annotations

from generators import ranges
from generators.builder import Builder, Dims
from generators.ops.common import must
from generators.sizes import Size
from generators.spec import OpSpec
from generators.types import ALL, FLOATS, is_float
from harness.model.values import Value


def _pad_constant(b: Builder) -> None:
    x = b.pick(ALL, rank=(1, 5))
    if b.as_module:
        spatial = int(b.spelling[-2])
        must(spatial + 1 <= x.rank <= spatial + 2)
        count = spatial
    else:
        count = b.choices.between(1, min(x.rank, 3))
    pads: list[int] = []
    dims = list(x.dims)
    for position in range(count):
        at = x.rank - 1 - position
        before, after = b.choices.choose((1, 0, 2, -1)), b.choices.choose((1, 0, 3, -1))
        size = dims[at] + (before + after)
        must(size.low >= 0 and dims[at].low + min(before, 0) + min(after, 0) >= 0)
        pads += [before, after]
        dims[at] = size
    value: int | float = 0
    args: list[Value] = [tuple(pads) if b.choices.coin(40) else pads]
    if b.as_module and b.spelling.startswith("nn.ZeroPad"):
        node = b.module([x.ref], args)
    else:
        value = b.choices.choose((0, 1, -2.5, 3.0) if is_float(x.dtype) else (0, 1, 2))
        must(x.dtype != "bool" or value == 0)
        if b.as_module:
            node = b.module([x.ref], [*args, value])
        else:
            kwargs: dict[str, Value] = {} if value == 0 and b.choices.coin(60) else {"mode": "constant", "value": value}
            node = b.call([x.ref, *args], kwargs)
    b.result(node, x.dtype, tuple(dims), ranges.union(x.vals, ranges.constant(value)), contiguous=False)


def _pad_mode(b: Builder) -> None:
    """Reflect, replicate and circular padding of one to three spatial dims."""
    spatial = b.choices.choose((1, 2, 2, 3)) if not b.as_module else int(b.spelling[-2])
    layer = b.spelling.split(".")[-1]
    modes = {"Refl": ("reflect",), "Repl": ("replicate",), "Circ": ("circular",)}.get(layer[:4], ("reflect", "replicate", "circular"))
    mode = b.choices.choose(modes)
    # Circular padding asks for a batch in its functional form.
    low = spatial + 2 if mode == "circular" else spatial + 1
    x = b.pick(
        FLOATS,
        rank=(low, spatial + 2),
        where=lambda v: all(size.low > 0 for size in v.dims),
        dims=lambda: (
            *([b.new_size(1)] if b.choices.coin(80) or mode == "circular" else []),
            b.new_size(1),
            *(b.new_size(2) for _ in range(spatial)),
        ),
        fresh=40,
    )
    pads: list[int] = []
    dims = list(x.dims)
    for position in range(spatial):
        at = x.rank - 1 - position
        most = min(dims[at].low - 1 if mode == "reflect" else dims[at].low, 2)
        before, after = b.choices.between(0, most), b.choices.between(0, most)
        pads += [before, after]
        dims[at] = dims[at] + (before + after)
    node = b.module([x.ref], [tuple(pads)]) if b.as_module else b.call([x.ref, tuple(pads)], {"mode": mode})
    b.result(node, x.dtype, tuple(dims), x.vals.repeated(), contiguous=False)


def _interpolate(b: Builder) -> None:
    spatial = b.choices.choose((2, 2, 1, 3))
    x = b.pick(
        ("float32", "float64"),
        rank=(spatial + 2, spatial + 2),
        where=lambda v: all(size.low > 0 for size in v.dims),
        dims=lambda: (b.new_size(1), b.new_size(1), *(b.new_size(2) for _ in range(spatial))),
        fresh=40,
    )
    modes = ["nearest", "nearest", "nearest-exact", "area"]
    smooth = {1: ["linear"], 2: ["bilinear", "bilinear", "bicubic"], 3: ["trilinear"]}[spatial]
    mode = b.choices.choose(modes if b.is_exact else modes + smooth)
    kwargs: dict[str, Value] = {"mode": mode}
    sizes: list[Size]
    if b.choices.coin(50):
        factor = b.choices.choose((2, 2.0, 3.0) if not all(s.static for s in x.dims) else (2, 0.5, 1.5, 3.0))
        kwargs["scale_factor"] = factor
        whole = int(factor) if float(factor).is_integer() else 0
        sizes = [size * whole if whole else b.size(int(size.values[0] * factor)) for size in x.dims[2:]]
        must(all(size.low > 0 for size in sizes))
    else:
        targets = [b.choices.between(1, 6) for _ in range(spatial)]
        kwargs["size"] = targets[0] if len(set(targets)) == 1 else tuple(targets)
        sizes = [b.size(n) for n in targets]
    if mode in smooth and b.choices.coin(50):
        kwargs["align_corners"] = b.choices.coin(60)
    must(not b.as_module or mode != "area")
    node = b.module([x.ref], (), kwargs) if b.as_module else b.call([x.ref], kwargs)
    dims = (*x.dims[:2], *sizes)
    if mode.startswith("nearest"):
        vals = x.vals.repeated()
    elif mode == "area" and all(a.static and a.values[0] % t.low == 0 for a, t in zip(x.dims[2:], sizes, strict=True)):
        area = 1
        for source, target in zip(x.dims[2:], sizes, strict=True):
            area *= source.high // target.low
        vals = ranges.mean(x.vals, (area,))
    else:
        vals = x.vals.rough(-2 * x.vals.peak, 2 * x.vals.peak)
    b.result(node, x.dtype, dims, vals, contiguous=False, peak=x.vals.peak * 64)


def _pixel_shuffle(b: Builder) -> None:
    factor = b.choices.choose((2, 1, 3))
    x = b.pick(
        ALL,
        rank=(3, 5),
        where=lambda v: v.dims[-3].static and v.dims[-3].values[0] % factor**2 == 0 and b.numel(v.dims).low > 0,
        dims=lambda: (
            *([b.new_size()] if b.choices.coin(70) else []),
            b.size(factor**2 * b.choices.choose((1, 2))),
            b.new_size(),
            b.new_size(),
        ),
    )
    node = b.module([x.ref], [factor]) if b.as_module else b.call([x.ref, factor])
    dims: Dims = (*x.dims[:-3], b.size(x.dims[-3].values[0] // factor**2), x.dims[-2] * factor, x.dims[-1] * factor)
    b.result(node, x.dtype, dims, x.vals, contiguous=False)


def _pixel_unshuffle(b: Builder) -> None:
    factor = b.choices.choose((2, 1))
    x = b.pick(
        ALL,
        rank=(3, 5),
        where=lambda v: all(s.static and s.values[0] % factor == 0 for s in v.dims[-2:]) and b.numel(v.dims).low > 0 and v.contiguous,
        dims=lambda: (*([b.new_size()] if b.choices.coin(70) else []), b.new_size(), b.size(2 * factor), b.size(factor)),
    )
    node = b.module([x.ref], [factor]) if b.as_module else b.call([x.ref, factor])
    dims = (*x.dims[:-3], x.dims[-3] * factor**2, *(b.size(s.values[0] // factor) for s in x.dims[-2:]))
    b.result(node, x.dtype, dims, x.vals, contiguous=False)


def _channel_shuffle(b: Builder) -> None:
    x = b.pick(FLOATS, rank=(3, 5), where=lambda v: v.dims[1].static and all(size.low > 0 for size in v.dims))
    channels = x.dims[1].values[0]
    groups = b.choices.choose([n for n in range(1, channels + 1) if channels % n == 0])
    node = b.module([x.ref], [groups]) if b.as_module else b.call([x.ref, groups])
    b.result(node, x.dtype, x.dims, x.vals, contiguous=False, alias=x)


def _im2col(b: Builder) -> None:
    x = b.pick(
        ("float32", "float64"),
        rank=(4, 4),
        where=lambda v: all(s.static and s.low > 0 for s in v.dims[1:]) and v.dims[0].low > 0,
        dims=lambda: (
            b.new_size(1),
            b.size(b.choices.choose((1, 2, 3))),
            b.size(b.choices.choose((3, 4, 5))),
            b.size(b.choices.choose((3, 4, 2))),
        ),
    )
    kernel = b.choices.choose((2, 1, 3))
    stride, padding = b.choices.choose((1, 2)), b.choices.choose((0, 1))
    blocks = 1
    for size in x.dims[2:]:
        out = (size.values[0] + 2 * padding - kernel) // stride + 1
        must(out > 0)
        blocks *= out
    kwargs: dict[str, Value] = {"stride": stride, "padding": padding}
    node = b.module([x.ref], [kernel], kwargs) if b.as_module else b.call([x.ref, kernel], kwargs)
    dims = (x.dims[0], b.size(x.dims[1].values[0] * kernel**2), b.size(blocks))
    b.result(node, x.dtype, dims, ranges.union(x.vals, ranges.constant(0)), contiguous=False)


F = "torch.nn.functional."
_CONSTANT = ("nn.ConstantPad1d", "nn.ConstantPad2d", "nn.ZeroPad2d")
_MODES = ("nn.ReflectionPad1d", "nn.ReflectionPad2d", "nn.ReplicationPad2d", "nn.CircularPad2d")

OPS: tuple[OpSpec, ...] = (
    OpSpec("pad", "pad", (F + "pad", F + "pad", *_CONSTANT), _pad_constant, ALL, weight=7),
    OpSpec("pad", "pad", (F + "pad", F + "pad", F + "pad", *_MODES), _pad_mode, FLOATS, weight=5, variant="mode"),
    OpSpec("interpolate", "resize", (F + "interpolate", "nn.Upsample"), _interpolate, ("float32", "float64"), weight=5),
    OpSpec("pixel_shuffle", "resize", (F + "pixel_shuffle", "nn.PixelShuffle"), _pixel_shuffle, ALL, weight=2),
    OpSpec("pixel_unshuffle", "resize", (F + "pixel_unshuffle", "nn.PixelUnshuffle"), _pixel_unshuffle, ALL, weight=2),
    OpSpec("channel_shuffle", "resize", (F + "channel_shuffle", "nn.ChannelShuffle"), _channel_shuffle, FLOATS, weight=1),
    OpSpec("im2col", "resize", (F + "unfold", "nn.Unfold"), _im2col, ("float32", "float64"), weight=2),
)
