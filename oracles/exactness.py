"""Whether a node's result is the same to the bit in any order of evaluation, measured on the reference's own operands.

Each rule bounds every intermediate number: if the largest of them, in units of the finest, needs no more bits than the
mantissa has, then no addition or multiplication among them rounds, whatever the order or grouping.
"""

from __future__ import annotations

import math

import numpy as np

from harness.model.dtypes import DTYPES
from harness.model.values import Tensor, Value
from oracles import operators as op
from oracles.operands import Operands
from oracles.spans import ZERO, Span, epsilon, measure_value, parts

_BETA = ("addmm", "addmv", "addbmm", "baddbmm", "addr")


def is_exact(operands: Operands) -> bool:
    """Whether this node, given exact operands, can only give the bits that eager gave."""
    name = operands.name
    floats = [tensor for tensor in operands.outputs if DTYPES[tensor.dtype].mantissa]
    if name in op.UNDETERMINED:
        return False
    if not floats and all(not DTYPES[tensor.dtype].mantissa for tensor in operands.tensors):
        return True
    if name in op.CASTS:
        return _cast_is_exact(operands)
    if name == "interpolate":
        return bool(operands.argument(3, "mode", "nearest") == "nearest")
    if name in op.DROPOUT:
        return bool(operands.outputs) and _same(operands.outputs[0], operands.tensors[0])
    if name in ("div", "floor_divide", "remainder", "fmod", "reciprocal"):
        return _quotient_is_exact(operands)
    if name in op.MOVEMENT or name in op.SELECTION or name in op.STEPS:
        if name in ("index_put", "setitem") and operands.argument(3, "accumulate", False) is True:
            return False
        return not (name == "scatter" and operands.trace.kwargs.get("reduce") is not None)
    span = bound(operands)
    return span is not None and all(span.fits(tensor.dtype) for tensor in floats)


def bound(operands: Operands) -> Span | None:
    """A bound on every intermediate number of an arithmetic node; None where there is no such rule."""
    name, spans = operands.name, operands.spans
    if not spans:
        return None
    if name in op.ADDITIVE:
        alpha = _factor(operands, "alpha")
        return _joined(spans[:2] if name != "diff" else [spans[0], spans[0]], alpha)
    if name == "mul" or name == "outer":
        return spans[0] * spans[1] * _complexity(operands) if len(spans) > 1 else None
    if name == "square":
        return spans[0] * spans[0] * _complexity(operands)
    if name == "addcmul" and len(spans) > 2:
        return spans[0] + spans[1] * spans[2] * _factor(operands, "value")
    if name == "lerp" and len(spans) > 2:
        return spans[0] + (spans[0] + spans[1]) * spans[2]
    if name == "cross" and len(spans) > 1:
        return (spans[0] * spans[1]).times(2)
    if name in op.SUMS:
        return _sum_bound(operands)
    if name in op.MEANS:
        return _mean_bound(operands)
    if name.startswith("conv") and _has_window(operands):
        return None  # Winograd's transforms round even where the sum of products would not; NNPACK's conv1d does so in eager
    if name in op.DOTS or name == "addr":
        return _dot_bound(operands)
    if name in op.LOSSES:
        return _loss_bound(operands)
    if name in ("leaky_relu", "prelu") and len(spans) > 1:
        return spans[0] * spans[1] | spans[0]
    if name == "arange":
        return _total(spans)
    return None


def _has_window(operands: Operands) -> bool:
    """Whether a convolution's kernel covers more than one place; one that does not is a matrix product."""
    tensors = operands.tensors
    weight = operands.state.get("weight") or (tensors[1] if len(tensors) > 1 else None)
    return weight is None or math.prod(weight.shape[2:]) > 1


def contraction(operands: Operands) -> int:
    """The number of products that one element of a dot-like result adds up, or of elements that a sum adds; never too few."""
    name, tensors = operands.name, operands.tensors
    if not tensors:
        return 1
    if name.startswith("conv") and len(tensors) > 1:
        weight = operands.state.get("weight", tensors[1])
        kept = weight.shape[1] if "transpose" in name and len(weight.shape) > 1 else weight.shape[0]
        return max(1, math.prod(weight.shape) // max(1, min(kept, *weight.shape[:2])))
    if name in ("addmm", "addmv", "baddbmm") and len(tensors) > 1:
        return max(1, tensors[1].shape[-1])
    if name in ("matmul", "mm", "bmm", "mv", "dot", "vdot", "inner", "linear", "linalg_vecdot"):
        return max(1, tensors[0].shape[-1] if tensors[0].shape else 1)
    if name in op.DOTS:
        return max(1, *(math.prod(tensor.shape) for tensor in tensors))
    if name in ("sum", "nansum", "mean", "nanmean") and operands.outputs:
        return max(1, math.prod(tensors[0].shape) // max(1, math.prod(operands.outputs[0].shape)))
    if "avg_pool" in name:
        return window(operands) or max(1, math.prod(tensors[0].shape))
    if name == "cumsum":
        return max(1, *tensors[0].shape) if tensors[0].shape else 1
    return max(1, *(math.prod(tensor.shape) for tensor in tensors))


def window(operands: Operands) -> int | None:
    """The number of elements that every window of an average pool averages; None where it may vary."""
    source, rank = operands.tensors[0].shape, int(operands.name[-2])
    if operands.name.startswith("adaptive"):
        sizes = operands.outputs[0].shape[-rank:] if operands.outputs else ()
        pairs = list(zip(source[-rank:], sizes, strict=False))
        if not pairs or any(out == 0 or size % out for size, out in pairs):
            return None
        return math.prod(size // out for size, out in pairs)
    kernel = operands.argument(1, "kernel_size")
    padding, ceil = operands.argument(3, "padding", 0), operands.argument(4, "ceil_mode", False)
    divisor = operands.argument(6, "divisor_override")
    if ceil or any(_flat(padding)):
        return None
    edges = _flat(kernel)
    count = edges[0] ** rank if len(edges) == 1 else math.prod(edges)
    return divisor if isinstance(divisor, int) and divisor and divisor >= count else count if divisor is None else None


def power_of_two(number: float) -> bool:
    """Whether dividing by `number` only moves the exponent."""
    return number != 0 and math.isfinite(number) and abs(math.frexp(number)[0]) == 0.5


def _flat(value: Value) -> list[int]:
    return (
        [item for item in value if isinstance(item, int)] if isinstance(value, tuple | list) else [value] if isinstance(value, int) else []
    )


def _factor(operands: Operands, name: str) -> Span:
    return measure_value(operands.trace.kwargs.get(name, 1))


def _total(spans: list[Span]) -> Span:
    total = ZERO
    for span in spans:
        total = total + span
    return total


def _joined(spans: list[Span], alpha: Span) -> Span | None:
    return spans[0] + (spans[1] * alpha | spans[1] | spans[0] * alpha) if len(spans) > 1 else None


def _complexity(operands: Operands) -> Span:
    return Span(2.0, 0) if any(DTYPES[tensor.dtype].kind == "complex" for tensor in operands.tensors) else Span(1.0, 0)


def _sum_bound(operands: Operands) -> Span | None:
    name = operands.name
    if name == "embedding_bag" or (
        name in ("scatter_reduce", "index_reduce") and "sum" not in (*operands.trace.args, *operands.trace.kwargs.values())
    ):
        return None
    floats = [measure_value(tensor) for tensor in operands.tensors if DTYPES[tensor.dtype].kind in ("float", "complex")]
    if not floats:
        floats = operands.spans[:1]
    count = max(contraction(operands), *(math.prod(tensor.shape) for tensor in operands.tensors[1:]), 1)
    return _total(floats).times(count) * _factor(operands, "alpha")


def _mean_bound(operands: Operands) -> Span | None:
    count = window(operands) if "pool" in operands.name else contraction(operands)
    if count is None or not power_of_two(count) or operands.name == "nanmean":
        return None
    total = measure_value(operands.tensors[0]).times(count)
    return Span(total.peak, total.grain - int(math.log2(count)))


def _dot_bound(operands: Operands) -> Span | None:
    name = operands.name
    spans = [measure_value(tensor) for tensor in operands.tensors]
    if name in ("einsum", "bilinear", "linalg_multi_dot") and len(spans) != 2:
        return None
    if len(spans) < 2:
        return None
    if name in _BETA:
        if len(spans) < 3:
            return None
        alpha, beta = _factor(operands, "alpha"), _factor(operands, "beta")
        product = (spans[1] * spans[2]).times(contraction(operands))
        return spans[0] * beta + (product * alpha | product)
    if operands.state:
        weight = measure_value(operands.state["weight"]) if "weight" in operands.state else spans[1]
        rest = [measure_value(tensor) for key, tensor in operands.state.items() if key != "weight"]
    else:
        weight, rest = spans[1], spans[2:]
    return (spans[0] * weight * _complexity(operands)).times(contraction(operands)) + _total(rest)


def _loss_bound(operands: Operands) -> Span | None:
    if len(operands.tensors) < 2:
        return None
    difference = measure_value(operands.tensors[0]) + measure_value(operands.tensors[1])
    each = difference * difference if operands.name == "mse_loss" else difference
    count = max(math.prod(tensor.shape) for tensor in operands.tensors)
    if operands.outputs and operands.outputs[0].shape:
        return each
    if operands.argument(4, "reduction", "mean") == "sum":
        return each.times(count)
    return Span(each.peak * count, each.grain - int(math.log2(count))) if power_of_two(count) else None


def _quotient_is_exact(operands: Operands) -> bool:
    """Division by powers of two; for the rounding kinds, quotients that no rounding can carry over an integer."""
    if operands.name == "reciprocal":
        divisors = operands.spans[:1]
        sources = operands.tensors[:1]
        numbers = [] if not sources else [parts(sources[0].array(), sources[0].dtype)]
    else:
        given = [*operands.trace.args, *(operands.trace.kwargs[key] for key in ("other",) if key in operands.trace.kwargs)]
        if len(given) < 2:
            return False
        divisors = [measure_value(value) for value in given[:2]]
        last = given[1]
        numbers = (
            [parts(last.array(), last.dtype)] if isinstance(last, Tensor) else [np.array(last)] if isinstance(last, int | float) else []
        )
    if not numbers or not divisors:
        return False
    outputs = [tensor.dtype for tensor in operands.outputs]
    if operands.name == "reciprocal" or (operands.name == "div" and operands.trace.kwargs.get("rounding_mode") is None):
        values = np.abs(numbers[0].astype(np.float64)).ravel()
        values = values[(values != 0) & np.isfinite(values)]
        if not bool((np.frexp(values)[0] == 0.5).all()):
            return False
        fine = measure_value(1.0) if operands.name == "reciprocal" else divisors[0]
        largest, least = float(values.max(initial=1.0)), float(values.min(initial=1.0))
        result = Span(fine.peak / least, fine.grain - int(math.log2(largest)))
        return all(result.fits(dtype) for dtype in outputs)
    both = divisors[0] | divisors[1]
    return all(epsilon(dtype) == 0 or both.times(4).fits(dtype) for dtype in outputs)


def _cast_is_exact(operands: Operands) -> bool:
    if not operands.outputs or not operands.tensors:
        return False
    source, result = operands.tensors[0], operands.outputs[0]
    if not DTYPES[result.dtype].mantissa:
        return True
    return _same(source, result)


def _same(first: Tensor, second: Tensor) -> bool:
    a, b = first.array(), second.array()
    if a.shape != b.shape:
        return False
    if DTYPES[first.dtype].kind == "complex" or DTYPES[second.dtype].kind == "complex":
        return bool(np.array_equal(a.astype(np.complex128), b.astype(np.complex128), equal_nan=True))
    return bool(np.array_equal(parts(a, first.dtype).astype(np.float64), parts(b, second.dtype).astype(np.float64), equal_nan=True))
