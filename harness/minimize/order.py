"""The total order of cases: what "smaller" means, so that reduction ends and its result is canonical."""

from __future__ import annotations

import math

import numpy as np

from harness.model.case import Case
from harness.model.codec import to_json
from harness.model.dtypes import DTYPES, widen
from harness.model.program import ModuleRecipe, Node, TensorSpec
from harness.model.values import Ref, Tensor, Value, leaves

# Simplest first: what a reader takes for granted, then what says something about the bug.
DTYPE_ORDER = (
    "float32",
    "int64",
    "bool",
    "float64",
    "int32",
    "uint8",
    "int8",
    "int16",
    "float16",
    "bfloat16",
    "complex64",
    "complex128",
)

Key = tuple[float, ...]


def size_key(case: Case) -> tuple[Key, bytes]:
    """The rank of a case: strictly smaller means simpler; equal only for equal cases.

    In order of weight: operators, calls, symbols, placeholders, modules, outputs, dtypes, layouts, roles, empty and
    scalar tensors (small, yet no reader takes them for granted), arguments, ranks, elements, values, canonical bytes.
    """
    operators = case.program.operators
    specs = [node.spec for node in case.program.placeholders if isinstance(node.spec, TensorSpec)]
    callees: list[Node | ModuleRecipe] = [*operators, *case.program.modules.values()]
    arguments = math.fsum(_argument_weight(callee.args) + 1.5 * _argument_weight(dict(callee.kwargs)) for callee in callees)
    arguments += sum(recipe.training for recipe in case.program.modules.values())
    elements, ranks, oddities, ugliness = 0, 0, 0, 0.0
    for index in range(len(case.calls)):
        for value in case.arguments(index).values():
            if isinstance(value, Tensor):
                elements += math.prod(value.shape)
                oddities += value.shape.count(0) + (not value.shape)
                ranks += len(value.shape)
                ugliness += _value_weight(value)
    for attribute in case.program.modules:
        ugliness += sum(_value_weight(tensor) for tensor in case.module_state(attribute).values())
    key = (
        len(operators),
        len(case.calls),
        len(case.symbols),
        len(case.program.placeholders),
        len(case.program.modules),
        _argument_weight(case.program.output),
        sum(DTYPE_ORDER.index(spec.dtype) for spec in specs),
        sum(not spec.is_contiguous or spec.storage is not None for spec in specs),
        sum(node.role != "input" for node in case.program.placeholders),
        oddities,
        arguments,
        ranks,
        elements,
        ugliness,
    )
    return key, to_json(case)


def _argument_weight(value: Value) -> float:
    """How much a reader has to take in: every leaf counts, plain small values least."""
    weights = [_leaf_weight(leaf) for _, leaf in leaves(value)]
    return math.fsum(weights) + (0.01 * len(value) if isinstance(value, tuple | list | dict) else 0.0)


def _leaf_weight(leaf: Value) -> float:
    if isinstance(leaf, Ref):
        return 1.0
    if isinstance(leaf, bool):
        return 2.0 + 0.5 * leaf
    if isinstance(leaf, int):
        return 2.0 + min(abs(leaf), 1000) / 100 + (0.5 if leaf < 0 else 0.0)
    if isinstance(leaf, float):
        plain = leaf == leaf and abs(leaf) < 1e6 and leaf == int(leaf)
        return 2.5 + (min(abs(leaf), 1000) / 100 if plain else 20.0) + (0.1 if leaf < 0 else 0.0)
    return 3.0


def _value_weight(tensor: Tensor) -> float:
    """How odd the elements are: 0 and small whole numbers cost least, fractions more, NaN and infinities most."""
    values = widen(tensor.array(), tensor.dtype)
    if DTYPES[tensor.dtype].kind == "complex":
        values = np.concatenate([values.real.ravel(), values.imag.ravel()])
    wide = values.astype(np.float64).ravel()
    finite = np.isfinite(wide)
    whole = finite & (wide == np.round(wide))
    magnitude = np.minimum(np.abs(np.where(finite, wide, 0.0)), 1e6)
    negative_zero = (wide == 0) & np.signbit(wide)
    weight = (
        magnitude / 1e3 + np.where(wide < 0, 0.0005, 0.0) + np.where(whole, 0.0, 5.0) + np.where(finite, 0.0, 50.0) + 50.0 * negative_zero
    )
    return float(np.sum(weight))
