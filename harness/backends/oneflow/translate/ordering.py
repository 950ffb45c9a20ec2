"""Sorting and the largest."""

from __future__ import annotations

from harness.backends.oneflow.translate.registry import form, op

op(
    "sort",
    form("input: T, dim: i = -1, descending: b = False, stable: b = False, *, out=None", "oneflow.sort(input, dim, descending)"),
    form("input: T, *, stable: b = False, dim: i = -1, descending: b = False, out=None", "oneflow.sort(input, dim, descending)"),
)
op(
    "argsort",
    form("input: T, dim: i = -1, descending: b = False, stable: b = False", "oneflow.argsort(input, dim, descending)"),
)
op(
    "topk",
    form("input: T, k: i, dim: i = -1, largest: b = True, sorted: b = True, *, out=None", "oneflow.topk(input, k, dim, largest, sorted)"),
)
