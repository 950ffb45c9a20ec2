"""Selection and writing by index and mask."""

from __future__ import annotations

from types import SimpleNamespace

from harness.backends.oneflow.translate.plan import Expr, FlowDType, Invocation
from harness.backends.oneflow.translate.registry import form, op, refuse

op("index_select", form("input: T, dim: i, index: T, *, out=None", "oneflow.index_select(input, dim, index)"))
op("gather", form("input: T, dim: i, index: T, *, sparse_grad: b = False, out=None", "oneflow.gather(input, dim, index)"))
op("masked_select", form("input: T, mask: T, *, out=None", "oneflow.masked_select(input, mask)"))
op("masked_fill", form("input: T, mask: T, value: s", "oneflow.masked_fill(input, mask, value)"))
op("masked_fill_", form("input: T, mask: T, value: s", "input.masked_fill_(mask, value)"))
op("nonzero", form("input: T, *, out=None, as_tuple: b = False", "oneflow.nonzero(input, as_tuple)"))
# OneFlow's indices are int32 unless asked for otherwise.
op("argwhere", form("input: T", lambda a: Invocation("oneflow.argwhere", (a.input,), {"dtype": FlowDType("int64")})))
_SCATTER = (
    form("input: T, dim: i, index: T, src: T, *, reduce: S = None", lambda a: _scatter(a, a.src)),
    form("input: T, dim: i, index: T, value: s, *, reduce: S = None", lambda a: _scatter(a, a.value)),
)


def _scatter(a: SimpleNamespace, source: Expr) -> Expr:
    path = ".scatter_" if a.op.endswith("_") else "oneflow.scatter"
    return Invocation(path, (a.input, a.dim, a.index, source), {} if a.reduce is None else {"reduce": a.reduce})


op("scatter scatter_", *_SCATTER)
op("scatter_add", form("input: T, dim: i, index: T, src: T", "oneflow.scatter_add(input, dim, index, src)"))
op("scatter_add_", form("input: T, dim: i, index: T, src: T", "input.scatter_add_(dim, index, src)"))
op(
    "index_add",
    form("input: T, dim: i, index: T, source: T, *, alpha: s = 1, out=None", "oneflow.index_add(input, dim, index, source, alpha=alpha)"),
)
op("index_add_", form("input: T, dim: i, index: T, source: T, *, alpha: s = 1", "input.index_add_(dim, index, source, alpha=alpha)"))
op("one_hot", form("tensor: T, num_classes: i = -1", "oneflow.nn.functional.one_hot(tensor, num_classes)"))
op(
    "embedding",
    form(
        "input: T, weight: T, padding_idx: i = None, max_norm=None, norm_type: s = 2.0, scale_grad_by_freq: b = False, sparse: b = False",
        "oneflow.nn.functional.embedding(input, weight, padding_idx)",
    ),
)
op(
    "aten:embedding",
    form(
        "weight: T, indices: T, padding_idx: i = -1, scale_grad_by_freq: b = False, sparse: b = False",
        "oneflow.nn.functional.embedding(indices, weight)",
    ),
)
op(
    "searchsorted",
    form(
        "sorted_sequence: T, input, *, out_int32: b = False, right: b = False, side=None, sorter=None, out=None",
        "oneflow.searchsorted(sorted_sequence, input, out_int32=out_int32, right=right)",
    ),
)
op("bincount", form("input: T, weights=None, minlength: i = 0", "oneflow.bincount(input, weights, minlength)"))


def _unique(a: SimpleNamespace) -> Expr:
    if a.dim is not None:
        raise refuse("unique", f"dim={a.dim}")
    how = {"sorted": a.sorted, "return_inverse": a.return_inverse, "return_counts": a.return_counts, "dtype": FlowDType("int64")}
    return Invocation("oneflow.unique", (a.input,), how)


op(
    "unique",
    form(
        "input: T, sorted: b = True, return_inverse: b = False, return_counts: b = False, dim: i = None",
        _unique,
    ),
)
op("getitem", form("input: T, index", "operator.getitem(input, index)"))
op("setitem", form("input: T, index, value", "operator.setitem(input, index, value)"))


def _index(a: SimpleNamespace) -> Expr:
    return Invocation("operator.getitem", (a.input, tuple(slice(None) if item is None else item for item in a.indices)))


# aten.index.Tensor is how `x[:, i]` is written down, None standing for a whole dim.
op("index", form("input: T, indices", _index))
