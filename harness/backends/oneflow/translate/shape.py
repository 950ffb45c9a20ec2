"""Shapes, views and rearrangement."""

from __future__ import annotations

from types import SimpleNamespace

from harness.backends.oneflow.translate.plan import Expr, Invocation
from harness.backends.oneflow.translate.registry import call, form, op, rank, refuse


def _view_as_dtype(a: SimpleNamespace) -> Expr:
    raise refuse("view", f"dtype={a.dtype}")


op("view", form("input: T, *size", "input.view(size)"), form("input: T, dtype: D", _view_as_dtype))
op("reshape", form("input: T, *shape", "oneflow.reshape(input, shape)"))
op("view_as reshape_as expand_as type_as", form("input: T, other: T", "input.{}(other)"))
op("flatten", form("input: T, start_dim: i = 0, end_dim: i = -1", "oneflow.flatten(input, start_dim, end_dim)"))
op("squeeze", form("input: T", "oneflow.squeeze(input)"), form("input: T, dim: I", "oneflow.squeeze(input, dim)"))
op("unsqueeze", form("input: T, dim: i", "oneflow.unsqueeze(input, dim)"))
op(
    "transpose",
    form("input: T, dim0: i, dim1: i", "oneflow.transpose(input, dim0, dim1)"),
    form("input: T, axis0: i, axis1: i", "oneflow.transpose(input, axis0, axis1)"),
)
op("permute", form("input: T, *dims", "oneflow.permute(input, dims)"))
op("t", form("input: T", "oneflow.t(input)"))
op(
    "expand",
    form("input: T, *size", "oneflow.expand(input, size)"),
    form("input: T, size: I, *, implicit: b = False", "oneflow.expand(input, size)"),
)
op(
    "broadcast_to",
    form("input: T, size: I", "oneflow.broadcast_to(input, size)"),
    form("input: T, shape: I", "oneflow.broadcast_to(input, shape)"),
)
op("repeat", form("input: T, *repeats", "input.repeat(*repeats)"))
op("tile", form("input: T, *dims", "oneflow.tile(input, dims)"))


def _repeat_interleave(a: SimpleNamespace) -> Expr:
    if a.output_size is not None:
        raise refuse("repeat_interleave", "output_size by keyword")
    return call("oneflow.repeat_interleave", a.input, a.repeats, dim=a.dim)


op(
    "repeat_interleave",
    form("input: T, repeats: i, dim: i = None, *, output_size: i = None", _repeat_interleave),
    form("input: T, repeats: T, dim: i, *, output_size: i = None", _repeat_interleave),
)


op(
    "roll",
    form(
        "input: T, shifts: I, dims: I = None",
        lambda a: call("oneflow.roll", a.input, a.shifts, dims=None if a.dims in ((), []) else a.dims),
    ),
)
op("flip", form("input: T, *dims", "oneflow.flip(input, dims)"))
op("movedim", form("input: T, source: I, destination: I", "oneflow.movedim(input, source, destination)"))
op("narrow", form("input: T, dim: i, start: i, length: i", "oneflow.narrow(input, dim, start, length)"))
op("select", form("input: T, dim: i, index: i", "oneflow.select(input, dim, index)"))
op("unbind", form("input: T, dim: i = 0", "oneflow.unbind(input, dim)"))
op("split", form("tensor: T, split_size_or_sections: I, dim: i = 0", "oneflow.split(tensor, split_size_or_sections, dim)"))
op("method:split", form("input: T, split_size: I, dim: i = 0", "oneflow.split(input, split_size, dim)"))
op("aten:split", form("input: T, split_size: I, dim: i = 0", "oneflow.split(input, split_size, dim)"))
op("split_with_sizes", form("input: T, split_sizes: I, dim: i = 0", "oneflow.split(input, split_sizes, dim)"))
op("chunk", form("input: T, chunks: i, dim: i = 0", "oneflow.chunk(input, chunks, dim)"))
op(
    "tensor_split",
    form("input: T, indices_or_sections: I, dim: i = 0", "oneflow.tensor_split(input, indices_or_sections, dim)"),
    form("input: T, sections: i, dim: i = 0", "oneflow.tensor_split(input, sections, dim)"),
    form("input: T, indices: I, dim: i = 0", "oneflow.tensor_split(input, indices, dim)"),
)
op("hsplit vsplit", form("input: T, indices_or_sections: I", "oneflow.{}(input, indices_or_sections)"))
op("diagonal", form("input: T, offset: i = 0, dim1: i = 0, dim2: i = 1", "oneflow.diagonal(input, offset, dim1, dim2)"))
op("diag", form("input: T, diagonal: i = 0, *, out=None", "oneflow.diag(input, diagonal)"))
op("tril triu", form("input: T, diagonal: i = 0, *, out=None", "oneflow.{}(input, diagonal)"))
op("triu_", form("input: T, diagonal: i = 0", "input.triu_(diagonal)"))
op("unfold", form("input: T, dimension: i, size: i, step: i", "input.unfold(dimension, size, step)"))
op(
    "as_strided",
    form(
        "input: T, size: I, stride: I, storage_offset: i = None",
        lambda a: Invocation("oneflow.as_strided", (a.input, a.size, a.stride, a.storage_offset or 0)),
    ),
)
op("contiguous", form("input: T, *, memory_format=None", "input.contiguous()"))
op("clone", form("input: T, *, memory_format=None", "input.clone()"))
op("detach", form("input: T", "input.detach()"))
op("atleast_1d atleast_2d atleast_3d", form("input: T", "oneflow.{}(input)"))
op("numel dim", form("input: T", "input.{}()"))
op("size", form("input: T", "input.size()"), form("input: T, dim: i", "input.size(dim)"))


def _slice(a: SimpleNamespace) -> Expr:
    dims = rank(a.input)
    position = a.dim % dims if dims else 0
    return Invocation("operator.getitem", (a.input, (*(slice(None),) * position, slice(a.start, a.end, a.step))))


# aten.slice.Tensor is how `x[:, 1:2]` is written down.
op("slice", form("input: T, dim: i = 0, start: i = None, end: i = None, step: i = 1", _slice))

op("float double half bfloat16 int long bool byte", form("input: T, memory_format=None", "input.{}()"))


def _to(a: SimpleNamespace) -> Expr:
    if a.dtype is None:
        return call(".to", a.input, "cpu", copy=a.copy or None)
    return call(".to", a.input, a.dtype, copy=a.copy or None)


op(
    "to",
    form("input: T, dtype: D, non_blocking: b = False, copy: b = False, *, device=None, memory_format=None", _to),
    form("input: T, other: T, non_blocking: b = False, copy: b = False, *, memory_format=None", "input.to(other)"),
    form("input: T, device: S = None, dtype: D = None, non_blocking: b = False, copy: b = False, *, memory_format=None", _to),
)
op(
    "_to_copy",
    form(
        "input: T, *, dtype: D, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None",
        "input.to(dtype)",
    ),
)
op("type", form("input: T, dtype: D, non_blocking: b = False", "input.type(dtype)"))
