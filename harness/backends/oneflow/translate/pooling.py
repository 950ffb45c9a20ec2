"""Pooling, unfolding and resampling."""

from __future__ import annotations

from types import SimpleNamespace

from harness.backends.oneflow.translate.plan import Expr, Invocation
from harness.backends.oneflow.translate.registry import Adapt, call, form, op, refuse

_F = "oneflow.nn.functional"


def _max_pool(a: SimpleNamespace, *, indices: bool) -> Expr:
    name = a.op.removesuffix("_with_indices")
    return Invocation(
        f"{_F}.{name}",
        (a.input, a.kernel_size),
        {
            "stride": a.stride or None,  # aten writes an empty list for None
            "padding": a.padding,
            "dilation": a.dilation,
            "return_indices": indices,
            "ceil_mode": a.ceil_mode,
        },
    )


_MAX_POOL = "input: T, kernel_size: I, stride: I = None, padding: I = 0, dilation: I = 1, ceil_mode: b = False"
op("max_pool1d max_pool2d max_pool3d", form(f"{_MAX_POOL}, return_indices: b = False", lambda a: _max_pool(a, indices=a.return_indices)))
op(
    "max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices",
    form(f"{_MAX_POOL}, return_indices: b = True", lambda a: _max_pool(a, indices=True)),
)


def _avg_pool(a: SimpleNamespace) -> Expr:
    return call(
        f"{_F}.{a.op}",
        a.input,
        a.kernel_size,
        stride=a.stride or None,
        padding=a.padding,
        ceil_mode=a.ceil_mode,
        count_include_pad=a.count_include_pad,
        divisor_override=getattr(a, "divisor_override", None),
    )


_AVG_POOL = "input: T, kernel_size: I, stride: I = None, padding: I = 0, ceil_mode: b = False, count_include_pad: b = True"
op("avg_pool1d", form(_AVG_POOL, _avg_pool))
op("avg_pool2d avg_pool3d", form(f"{_AVG_POOL}, divisor_override: i = None", _avg_pool))


def _adaptive(a: SimpleNamespace) -> Expr:
    sizes = a.output_size if isinstance(a.output_size, tuple | list) else (a.output_size,)
    if any(size is None for size in sizes):
        # OneFlow takes numbers only; PyTorch's documentation says that None is the input's size.
        dims = int(a.op[-2])
        sizes = sizes * dims if len(sizes) == 1 else sizes
        a.output_size = tuple(old if size is None else size for size, old in zip(sizes, a.input.shape[-dims:], strict=True))
    if "max" in a.op:
        return Invocation(f"{_F}.{a.op}", (a.input, a.output_size), {"return_indices": a.return_indices})
    return Invocation(f"{_F}.{a.op}", (a.input, a.output_size))


op("adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d", form("input: T, output_size", _adaptive))
op(
    "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d",
    form("input: T, output_size, return_indices: b = False", _adaptive),
)
op(
    "max_unpool1d max_unpool2d max_unpool3d",
    form(
        "input: T, indices: T, kernel_size: I, stride: I = None, padding: I = 0, output_size=None",
        f"{_F}.{{}}(input, indices, kernel_size, stride, padding, output_size)",
    ),
)
op(
    "im2col",
    form(
        "input: T, kernel_size: I, dilation: I = 1, padding: I = 0, stride: I = 1",
        f"{_F}.unfold(input, kernel_size, dilation, padding, stride)",
    ),
)
op(
    "fold",
    form(
        "input: T, output_size: I, kernel_size: I, dilation: I = 1, padding: I = 0, stride: I = 1",
        f"{_F}.fold(input, output_size, kernel_size, dilation, padding, stride)",
    ),
)
op(
    "interpolate",
    form(
        "input: T, size=None, scale_factor=None, mode: S = 'nearest', align_corners=None, recompute_scale_factor=None,"
        " antialias: b = False",
        f"{_F}.interpolate(input, size=size, scale_factor=scale_factor, mode=mode, align_corners=align_corners,"
        " recompute_scale_factor=recompute_scale_factor)",
    ),
)


def _upsample(mode: str) -> Adapt:
    def adapt(a: SimpleNamespace) -> Expr:
        if any(value is not None for key, value in vars(a).items() if key.startswith("scale")):
            raise refuse(a.op, "size and scale at once")
        how = {} if mode == "nearest" else {"align_corners": a.align_corners}
        return call(f"{_F}.interpolate", a.input, size=tuple(a.output_size), mode=mode, **how)

    return adapt


for _mode, _dims, _scales in (
    ("nearest", "1d", "scales=None"),
    ("nearest", "2d", "scales_h=None, scales_w=None"),
    ("nearest", "3d", "scales_d=None, scales_h=None, scales_w=None"),
    ("linear", "1d", "scales=None"),
    ("bilinear", "2d", "scales_h=None, scales_w=None"),
    ("bicubic", "2d", "scales_h=None, scales_w=None"),
    ("trilinear", "3d", "scales_d=None, scales_h=None, scales_w=None"),
):
    _corners = "" if _mode == "nearest" else ", align_corners: b"
    op(
        f"aten:upsample_{_mode}{_dims}",
        form(f"input: T, output_size: I{_corners}, {_scales}", _upsample(_mode)),
        form(f"input: T, output_size: I{_corners}, scale_factors=None", _upsample(_mode)),
    )
op(
    "grid_sample",
    form(
        "input: T, grid: T, mode: S = 'bilinear', padding_mode: S = 'zeros', align_corners: b = None",
        lambda a: Invocation(
            f"{_F}.grid_sample",
            (a.input, a.grid),
            {"mode": a.mode, "padding_mode": a.padding_mode, "align_corners": bool(a.align_corners)},
        ),
    ),
)
op(
    "affine_grid",
    form(
        "theta: T, size: I, align_corners: b = None",
        lambda a: Invocation(f"{_F}.affine_grid", (a.theta, list(a.size)), {"align_corners": bool(a.align_corners)}),
    ),
)
