"""Joining tensors and broadcasting them to each other."""

from __future__ import annotations

from harness.backends.oneflow.translate.registry import form, op

op("cat stack", form("tensors: L, dim: i = 0, *, out=None", "oneflow.{}(tensors, dim)"))
op("hstack vstack dstack column_stack", form("tensors: L, *, out=None", "oneflow.{}(tensors)"))
op("broadcast_tensors", form("*tensors: T", "oneflow.broadcast_tensors(*tensors)"))
op(
    "meshgrid",
    form("*tensors: T", "oneflow.meshgrid(*tensors)"),
    form("*tensors: T, indexing: S = 'ij'", "oneflow.meshgrid(*tensors, indexing=indexing)"),
)
