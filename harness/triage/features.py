"""The features of a node: attributes, dtypes, layouts and value classes, in words that outlive one case.

A minimized case holds only what the bug needs, so the features of its node are the bug's trigger. Sizes, ids and paths
are never features.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from harness.model.case import Case
from harness.model.dtypes import is_float, widen
from harness.model.outcome import NodeTrace
from harness.model.program import Node
from harness.model.symbols import Sym
from harness.model.values import Device, DType, Layout, MemoryFormat, Ref, Tensor, Value, contiguous_strides, leaves

NEUTRAL_DTYPE = "float32"


def node_features(case: Case, node: Node, traces: Mapping[str, NodeTrace]) -> frozenset[str]:
    """Every feature of one node, as one call of the reference ran it."""
    found: set[str] = set()
    trace = traces.get(node.name)
    if trace is not None:
        tensors = [leaf for _, leaf in [*leaves(trace.args), *leaves(dict(trace.kwargs))] if isinstance(leaf, Tensor)]
        for tensor in tensors:
            found.update(_tensor_features(tensor))
        if len({tensor.dtype for tensor in tensors}) > 1:
            found.add("mixed-dtypes")
    for index, value in enumerate(node.args):
        found.update(f"arg{index}={word}" for word in _argument_words(value))
    for name, value in node.kwargs.items():
        found.update(f"{name}={word}" for word in _argument_words(value))
    if node.op == "call_module":
        recipe = case.program.modules[node.target]
        for name, value in recipe.kwargs.items():
            found.update(f"{name}={word}" for word in _argument_words(value))
        if recipe.training:
            found.add("training")
    if case.symbols:
        found.add("dynamic")
    if len(case.calls) > 1 and not case.symbols:
        found.add("second-call")
    return frozenset(found)


def _tensor_features(tensor: Tensor) -> Iterator[str]:
    if tensor.dtype != NEUTRAL_DTYPE:
        yield f"dtype:{tensor.dtype}"
    if 0 in tensor.shape:
        yield "empty"
    yield f"rank:{len(tensor.shape)}"
    if tensor.strides is not None and tensor.strides != contiguous_strides(tensor.shape) and 0 not in tensor.shape:
        yield "layout:expanded" if 0 in tensor.strides else "layout:strided"
    if is_float(tensor.dtype) and 0 not in tensor.shape:
        values = widen(tensor.array(), tensor.dtype)
        if np.isnan(values).any():
            yield "value:nan"
        if np.isinf(values).any():
            yield "value:inf"
        if ((values == 0) & np.signbit(values)).any():
            yield "value:negative-zero"


def _argument_words(value: Value) -> Iterator[str]:
    """The abstract value of an argument that is not a tensor: exact where it is a word, by sign where it is a number."""
    for _, leaf in leaves(value):
        if isinstance(leaf, Ref):
            continue
        if isinstance(leaf, bool | str) or leaf is None:
            yield str(leaf)
        elif isinstance(leaf, int):
            yield "zero" if leaf == 0 else "negative" if leaf < 0 else "int"
        elif isinstance(leaf, float):
            yield _float_word(leaf)
        elif isinstance(leaf, DType | Device | Layout | MemoryFormat):
            yield leaf.name
        elif isinstance(leaf, Sym):
            yield "symbolic"
        else:
            yield type(leaf).__name__
    if isinstance(value, tuple | list) and not value:
        yield "empty"


def _float_word(value: float) -> str:
    if value != value:
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf"
    return "float-negative" if value < 0 else "float"


def trigger(case: Case, traces: Mapping[str, NodeTrace]) -> tuple[str, ...]:
    """The features of a minimized case's operators, sorted: what the bug needs."""
    found: set[str] = set()
    for node in case.program.operators:
        if node.target != "operator.getitem" or len(case.program.operators) == 1:
            found |= node_features(case, node, traces)
    return tuple(sorted(found))


def dtype_class(features: tuple[str, ...] | frozenset[str]) -> str:
    """The dtypes that a trigger needs, in one word: `any` where plain float32 shows the bug."""
    names = sorted(feature.removeprefix("dtype:") for feature in features if feature.startswith("dtype:"))
    return "+".join(names) if names else "any"
