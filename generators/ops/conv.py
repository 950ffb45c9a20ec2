"""Convolutions in one, two and three dims, plain and transposed, as functions and as layers."""

from __future__ import annotations

from dataclasses import dataclass

from generators import ranges
from generators.builder import Builder, Dims, Var
from generators.ops.common import must
from generators.ops.matmul import contraction, module_tensor, weight_spec
from generators.sizes import Size, same_dims
from generators.spec import OpSpec
from generators.types import FLOATS
from harness.model.values import DType, Value


@dataclass(frozen=True, slots=True)
class Window:
    """How a kernel moves over one spatial dim."""

    kernel: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1

    @property
    def span(self) -> int:
        """The input elements that the dilated kernel covers."""
        return self.dilation * (self.kernel - 1) + 1


def window(b: Builder, size: Size, *, half: bool = False, dilated: bool = True, kernels: tuple[int, ...] = (2, 3, 1, 3, 2, 4)) -> Window:
    """A window that fits into a dim in every binding; `half` bounds padding by half the kernel, as pooling asks."""
    must(size.low >= 1)
    kernel = b.choices.choose(kernels)
    dilation = b.choices.choose((1, 1, 1, 2)) if dilated else 1
    stride = b.choices.choose((1, 2, 1, 3))
    padding = b.choices.between(0, kernel // 2 if half else min(kernel, 2))
    missing = dilation * (kernel - 1) + 1 - size.low - 2 * padding
    if missing > 0:
        kernel, dilation = min(kernel, size.low), 1
        padding = min(padding, kernel // 2)
    return Window(kernel, stride, padding, dilation)


def out_size(size: Size, w: Window) -> Size:
    """The size after a convolution or a pooling window."""
    return (size + (2 * w.padding - w.span)) // w.stride + 1


def spelled(b: Builder, values: list[int]) -> Value:
    """A parameter per spatial dim: one int where all are equal (often), a tuple or a list."""
    if len(set(values)) == 1 and b.choices.coin(60):
        return values[0]
    return tuple(values) if b.choices.coin(60) else list(values)


def _input(b: Builder, spatial: int) -> Var:
    module = b.as_module
    return b.pick(
        FLOATS,
        rank=(spatial + 1, spatial + 2),
        where=lambda v: v.dims[-spatial - 1].static and v.dims[-spatial - 1].low > 0 and all(s.low > 0 for s in v.dims[-spatial:]),
        dims=lambda: _input_dims(b, spatial, module),
        fresh=40,
    )


def _input_dims(b: Builder, spatial: int, module: bool) -> Dims:
    batch = (b.new_size(),) if b.choices.coin(85) else ()
    channels = b.size(b.choices.choose((2, 1, 4, 3, 6)))
    return (*batch, channels, *(b.new_size(2 if spatial == 3 else 3) for _ in range(spatial)))


def _groups(b: Builder, channels: int) -> int:
    if not b.choices.coin(35):
        return 1
    return b.choices.choose([n for n in range(1, channels + 1) if channels % n == 0])


def _conv(b: Builder) -> None:
    assert b.op is not None
    spatial = int(b.op.name[4])
    x = _input(b, spatial)
    channels = x.dims[-spatial - 1].values[0]
    groups = _groups(b, channels)
    windows = [window(b, size) for size in x.dims[-spatial:]]
    outputs = groups * b.choices.choose((1, 2, 3))
    pads: Value = spelled(b, [w.padding for w in windows])
    sizes = [out_size(size, w) for size, w in zip(x.dims[-spatial:], windows, strict=True)]
    if b.choices.coin(12) and not b.spelling.startswith("aten") and all(w.stride == 1 for w in windows):
        pads, sizes = "same", list(x.dims[-spatial:])
    must(all(size.low > 0 for size in sizes))
    count = channels // groups
    kernels = [w.kernel for w in windows]
    for kernel in kernels:
        count *= kernel
    weight_dims = (b.size(outputs), b.size(channels // groups), *(b.size(k) for k in kernels))
    settings: dict[str, Value] = {
        "stride": spelled(b, [w.stride for w in windows]),
        "padding": pads,
        "dilation": spelled(b, [w.dilation for w in windows]),
        "groups": groups,
    }
    dims = (*x.dims[: -spatial - 1], b.size(outputs), *sizes)
    _emit(b, x, (channels, outputs), weight_dims, kernels, settings, dims, count)


def _transposed(b: Builder) -> None:
    assert b.op is not None
    spatial = int(b.op.name[-2])
    x = _input(b, spatial)
    channels = x.dims[-spatial - 1].values[0]
    groups = _groups(b, channels)
    windows: list[Window] = []
    extras: list[int] = []
    sizes: list[Size] = []
    for size in x.dims[-spatial:]:
        kernel, stride, dilation = b.choices.choose((2, 3, 1, 4)), b.choices.choose((1, 2, 3)), b.choices.choose((1, 1, 2))
        padding = b.choices.between(0, 1)
        extra = b.choices.below(max(stride, dilation)) if b.choices.coin(35) else 0
        w = Window(kernel, stride, padding, dilation)
        out = (size - 1) * stride + (w.span - 2 * padding + extra)
        must(out.low > 0)
        windows.append(w)
        extras.append(extra)
        sizes.append(out)
    outputs = b.choices.choose((1, 2, 3))
    kernels = [w.kernel for w in windows]
    count = channels // groups
    for kernel in kernels:
        count *= kernel
    weight_dims = (b.size(channels), b.size(outputs), *(b.size(k) for k in kernels))
    settings: dict[str, Value] = {
        "stride": spelled(b, [w.stride for w in windows]),
        "padding": spelled(b, [w.padding for w in windows]),
        "output_padding": spelled(b, extras),
        "groups": groups,
        "dilation": spelled(b, [w.dilation for w in windows]),
    }
    dims = (*x.dims[: -spatial - 1], b.size(outputs * groups), *sizes)
    _emit(b, x, (channels, outputs * groups), weight_dims, kernels, settings, dims, count)


_DEFAULTS: dict[str, Value] = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "output_padding": 0}


def _emit(
    b: Builder,
    x: Var,
    channels: tuple[int, int],
    weight_dims: Dims,
    kernels: list[int],
    settings: dict[str, Value],
    dims: Dims,
    count: int,
) -> None:
    """The node in its spelling: with drawn weights as operands, or as a layer that owns them."""
    has_bias = b.choices.coin(60)
    shown = {key: value for key, value in settings.items() if value != _DEFAULTS[key] or b.choices.coin(20)}
    bias_vals = ranges.constant(0)
    if b.as_module:
        if x.dtype != "float32":
            shown["dtype"] = DType(x.dtype)
        state, fillings = {"weight": weight_spec(x.dtype, weight_dims)}, {"weight": module_tensor(b, x.dtype)}
        weight_vals = fillings["weight"].vals(x.dtype, False)
        if has_bias:
            state["bias"], fillings["bias"] = weight_spec(x.dtype, (b.size(channels[1]),)), module_tensor(b, x.dtype)
            bias_vals = fillings["bias"].vals(x.dtype, False)
        else:
            shown["bias"] = False
        node = b.module([x.ref], [*channels, spelled(b, kernels)], shown, state=state, fillings=fillings)
    else:
        weight = b.pick(
            (x.dtype,), where=lambda v: same_dims(v.dims, weight_dims), dims=lambda: weight_dims, fresh=70, rank=(len(weight_dims),) * 2
        )
        args: list[Value] = [x.ref, weight.ref]
        weight_vals = weight.vals
        if has_bias:
            bias_dims = (b.size(channels[1]),)
            bias = b.pick((x.dtype,), where=lambda v: same_dims(v.dims, bias_dims), dims=lambda: bias_dims, fresh=70, rank=(1, 1))
            args.append(bias.ref)
            bias_vals = bias.vals
        node = b.call(args, shown)
    product = contraction(x.vals, weight_vals, count)
    vals = ranges.add(product, bias_vals)
    # Transposed convolutions leave some outputs untouched: 0 is among the values.
    vals = vals.having(min(vals.lo, bias_vals.lo), max(vals.hi, bias_vals.hi))
    b.result(node, x.dtype, dims, vals, contiguous=False, peak=product.peak + bias_vals.peak)


def _spec(spatial: int, transposed: bool, weight: int) -> OpSpec:
    name = f"conv_transpose{spatial}d" if transposed else f"conv{spatial}d"
    layer = f"nn.ConvTranspose{spatial}d" if transposed else f"nn.Conv{spatial}d"
    return OpSpec(name, "conv", (f"torch.nn.functional.{name}", layer), _transposed if transposed else _conv, FLOATS, weight=weight)


OPS: tuple[OpSpec, ...] = (
    _spec(1, False, 5),
    _spec(2, False, 9),
    _spec(3, False, 2),
    _spec(1, True, 3),
    _spec(2, True, 4),
    _spec(3, True, 1),
)
