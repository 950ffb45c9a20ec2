"""Reductions and scans."""

from __future__ import annotations

from types import SimpleNamespace

from harness.backends.oneflow.translate.plan import Expr
from harness.backends.oneflow.translate.registry import call, form, op, refuse


def _reduce(a: SimpleNamespace) -> Expr:
    dtype = getattr(a, "dtype", None)
    if dtype is not None and a.op in ("sum", "mean"):
        # OneFlow takes no dtype here; PyTorch's documentation says that the input is cast to it first. The result of
        # bools and narrow integers is cast as well, since OneFlow sums them in int64.
        cast = SimpleNamespace(**{**vars(a), "input": call(".to", a.input, dtype), "dtype": None})
        return _reduce(cast) if "float" in dtype.name or dtype.name == "int64" else call(".to", _reduce(cast), dtype)
    if a.dim is not None:
        return call(f"oneflow.{a.op}", a.input, a.dim, a.keepdim, dtype=dtype)
    if a.keepdim:
        raise refuse(a.op, "keepdim without dim")
    return call(f"oneflow.{a.op}", a.input, dtype=dtype)


op("sum mean prod nansum", form("input: T, dim: I = None, keepdim: b = False, *, dtype: D = None, out=None", _reduce))
op("all any", form("input: T, dim: I = None, keepdim: b = False, *, out=None", _reduce))
op(
    "max min",
    form("input: T", "oneflow.{}(input)"),
    form("input: T, dim: i, keepdim: b = False, *, out=None", "oneflow.{}(input, dim, keepdim)"),
    form("input: T, other: T, *, out=None", "oneflow.{}(input, other)"),
)
op(
    "amax amin",
    form("input: T, dim: I, keepdim: b = False, *, out=None", "oneflow.{}(input, dim, keepdim)"),
    form("input: T, *, keepdim: b = False, out=None", "oneflow.{}(input, keepdim=keepdim)"),
)
op(
    "median",
    form("input: T", "oneflow.median(input)"),
    form("input: T, dim: i, keepdim: b = False, *, out=None", "oneflow.median(input, dim, keepdim)"),
)
op(
    "argmax argmin",
    form(
        "input: T, dim: i = None, keepdim: b = False, *, out=None",
        lambda a: call(f"oneflow.{a.op}", a.input, dim=a.dim, keepdim=a.keepdim),
    ),
)


def _deviation(a: SimpleNamespace) -> Expr:
    correction = getattr(a, "correction", None)
    if correction not in (None, 0, 1):
        raise refuse(a.op, f"correction={correction!r}")
    unbiased = bool(correction) if correction is not None else getattr(a, "unbiased", True)
    return call(f"oneflow.{a.op}", a.input, dim=getattr(a, "dim", None), unbiased=unbiased, keepdim=getattr(a, "keepdim", False))


op(
    "std var",
    form("input: T, unbiased: b", _deviation),
    form("input: T, dim: I, unbiased: b, keepdim: b = False, *, out=None", _deviation),
    form("input: T, dim: I = None, *, correction: s = 1, keepdim: b = False, out=None", _deviation),
)
op("logsumexp", form("input: T, dim: I, keepdim: b = False, *, out=None", "oneflow.logsumexp(input, dim, keepdim)"))
op(
    "cumsum cumprod",
    form("input: T, dim: i, *, dtype: D = None, out=None", lambda a: call(f"oneflow.{a.op}", a.input, a.dim, dtype=a.dtype)),
)
op(
    "quantile",
    form(
        "input: T, q: s, dim: i, keepdim: b = False, *, interpolation: S = 'linear', out=None",
        lambda a: call("oneflow.quantile", a.input, a.q, dim=a.dim, keepdim=a.keepdim, interpolation=a.interpolation),
    ),
)
op(
    "norm",
    form(
        "input: T, p='fro', dim: I = None, keepdim: b = False, out=None, dtype: D = None",
        lambda a: call("oneflow.norm", a.input, a.p, dim=a.dim, keepdim=a.keepdim, dtype=a.dtype),
    ),
)
op(
    "linalg_norm",
    form(
        "input: T, ord=None, dim: I = None, keepdim: b = False, *, out=None, dtype: D = None",
        lambda a: call("oneflow.linalg.norm", a.input, ord=a.ord, dim=a.dim, keepdim=a.keepdim, dtype=a.dtype),
    ),
)
op(
    "linalg_vector_norm",
    form(
        "input: T, ord: s = 2, dim: I = None, keepdim: b = False, *, dtype: D = None, out=None",
        lambda a: call("oneflow.linalg.vector_norm", a.input, a.ord, dim=a.dim, keepdim=a.keepdim, dtype=a.dtype),
    ),
)
op(
    "linalg_matrix_norm",
    form(
        "input: T, ord='fro', dim: I = (-2, -1), keepdim: b = False, *, dtype: D = None, out=None",
        lambda a: call("oneflow.linalg.matrix_norm", a.input, a.ord, a.dim, a.keepdim, dtype=a.dtype),
    ),
)
