"""Pointwise functions of three tensors: where, lerp, addcmul, clamp by tensors, masked_fill."""

from __future__ import annotations

from dataclasses import replace

from generators import ranges
from generators.builder import Builder
from generators.ops.common import must, number
from generators.ops.unary import functions
from generators.spec import OpSpec
from generators.types import ALL, FLOATS, NUMERIC, is_float, result_type
from harness.model.values import Value


def _where(b: Builder) -> None:
    condition = b.pick(("bool",), fresh=15)
    x = b.partner(condition, ALL)
    joint_dims = b.joint(condition, x)
    if b.choices.coin(30) and b.spelling == "torch.where":
        other: Value = number(b, x.dtype)
        dtype, other_vals = result_type([x.kind, other]), ranges.constant(other)
        dims, contiguous = joint_dims, condition.contiguous and x.contiguous
    else:
        y = b.partner(x, ALL if b.choices.coin(30) else (x.dtype,))
        dtype, other_vals, other = result_type([x.kind, y.kind]), y.vals, y.ref
        dims, contiguous = b.joint(condition, x, y), condition.contiguous and x.contiguous and y.contiguous
    args: list[Value] = [x.ref, condition.ref, other] if b.spelling == ".where" else [condition.ref, x.ref, other]
    b.result(b.call(args), dtype, dims, ranges.union(x.vals, other_vals), contiguous=contiguous)


def _masked_fill(b: Builder) -> None:
    x = b.pick(ALL)
    mask = b.partner(x, ("bool",), into=True)
    value = number(b, x.dtype, floats=is_float(x.dtype))
    must(x.dtype != "bool" or isinstance(value, bool) or value in (0, 1))
    if is_float(x.dtype) and b.lane == "special" and b.choices.coin(40):
        value = b.choices.choose((float("-inf"), float("inf"), float("nan")))
    vals = ranges.union(x.vals, ranges.constant(value))
    b.result(b.call([x.ref, mask.ref, value]), x.dtype, b.joint(x, mask), vals, contiguous=x.contiguous and mask.contiguous)


def _lerp(b: Builder) -> None:
    x = b.pick(FLOATS)
    y = b.partner(x, (x.dtype,), where=lambda v: v.dtype == x.dtype)
    dims, contiguous = b.joint(x, y), x.contiguous and y.contiguous
    if b.choices.coin(50) and not b.spelling.startswith("aten"):
        factor = b.choices.choose((0.5, 0.25, 1.0, 0.0, 2.0) if b.is_exact else (0.5, 0.3, 0.9, 1.5))
        weight: Value = factor
        weight_vals = ranges.constant(factor)
    else:
        w = b.partner(x, (x.dtype,), where=lambda v: v.dtype == x.dtype)
        weight, weight_vals = w.ref, w.vals
        dims, contiguous = b.joint(x, y, w), contiguous and w.contiguous
    vals = ranges.add(x.vals, ranges.mul(ranges.sub(y.vals, x.vals), weight_vals))
    # Either x + w(y-x) or y - (1-w)(y-x) is computed: the bound must hold the partial results of both.
    peak = 2 * (x.vals.peak + y.vals.peak) * (1 + weight_vals.peak)
    b.result(b.call([x.ref, y.ref, weight]), x.dtype, dims, vals, contiguous=contiguous, peak=peak)


def _addcmul(b: Builder) -> None:
    x = b.pick(NUMERIC)
    y, z = b.partner(x, (x.dtype,)), b.partner(x, (x.dtype,))
    value: int | float = 1
    if b.choices.coin(60):
        value = b.choices.choose((2, -1, 0.5, -2.0) if is_float(x.dtype) else (2, 3))
    dims = b.joint(x, y, z)
    product = ranges.mul(ranges.mul(y.vals, z.vals), ranges.constant(value))
    vals = ranges.add(x.vals, product)
    node = b.call([x.ref, y.ref, z.ref], {"value": value} if value != 1 else {})
    b.result(node, x.dtype, dims, vals, contiguous=False, peak=x.vals.peak + product.peak)


def _addcdiv(b: Builder) -> None:
    x = b.pick(FLOATS)
    y, z = b.partner(x, (x.dtype,)), b.partner(x, (x.dtype,), domain=(0.25, 1e30), where=b.signs_zeros)
    value = b.choices.choose((1, 2, -1.5))
    dims = b.joint(x, y, z)
    reach = x.vals.peak + abs(value) * y.vals.peak * (1 / z.vals.lo if z.vals.lo > 0 else 1e3)
    special = x.vals.special or y.vals.special or z.vals.special or z.vals.lo <= 0
    node = b.call([x.ref, y.ref, z.ref], {"value": value})
    b.result(node, x.dtype, dims, replace(x.vals.rough(-reach, reach), special=special), contiguous=False)


def _clamp_tensor(b: Builder) -> None:
    x = b.pick(NUMERIC)
    low, high = b.partner(x, (x.dtype,)), b.partner(x, (x.dtype,))
    vals = ranges.union(ranges.union(x.vals, low.vals), high.vals)
    if b.choices.coin(40):
        kwargs: dict[str, Value] = {"min": low.ref} if b.choices.coin(50) else {"max": low.ref}
        b.result(b.call([x.ref], kwargs), x.dtype, b.joint(x, low), vals, contiguous=False)
    else:
        b.result(b.call([x.ref, low.ref, high.ref]), x.dtype, b.joint(x, low, high), vals, contiguous=False)


def _clamp_one_side(b: Builder) -> None:
    x = b.pick(NUMERIC)
    value = number(b, x.dtype, floats=is_float(x.dtype))
    must(not isinstance(value, bool))
    edge = ranges.constant(value)
    pick = max if b.op is not None and b.op.name == "clamp_min" else min
    vals = ranges.union(x.vals, edge).having(pick(x.vals.lo, edge.lo), pick(x.vals.hi, edge.hi))
    b.result(b.call([x.ref, value]), x.dtype, x.dims, vals, contiguous=x.contiguous)


OPS: tuple[OpSpec, ...] = (
    OpSpec("where", "pointwise", ("torch.where", ".where", "aten.where.self"), _where, ("bool",), weight=6),
    OpSpec("masked_fill", "pointwise", ("torch.masked_fill", ".masked_fill", "aten.masked_fill.Scalar"), _masked_fill, ALL, weight=4),
    OpSpec("lerp", "pointwise", ("torch.lerp", ".lerp", "aten.lerp.Tensor"), _lerp, FLOATS, weight=2),
    OpSpec("addcmul", "pointwise", functions("addcmul"), _addcmul, NUMERIC, weight=2),
    OpSpec("addcdiv", "pointwise", functions("addcdiv"), _addcdiv, FLOATS, exact=False, weight=2),
    OpSpec("clamp", "pointwise", ("torch.clamp", ".clamp"), _clamp_tensor, NUMERIC, weight=2, variant="tensor"),
    OpSpec("clamp_min", "pointwise", functions("clamp_min"), _clamp_one_side, NUMERIC, weight=2),
    OpSpec("clamp_max", "pointwise", functions("clamp_max"), _clamp_one_side, NUMERIC, weight=2),
)
