"""Which features of a minimized case its bug really needs: flip each, and see whether the bug goes away.

The reducer makes everything as plain as it can, but plain is not neutral: a dim of 0 is the simplest index and the oddest
repeat count. So each number, flag and shape that a trigger would name is changed for others of another class; where the
disagreement stays, the feature is dropped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from harness.minimize.edits import checked, map_placeholder, prune, replace_node
from harness.model.case import Case
from harness.model.dtypes import Array
from harness.model.program import Node, TensorSpec
from harness.model.symbols import Dim
from harness.model.values import Value

MAX_FLIPS = 32
_INTEGERS = (1, 2, 0, 3, -1)


def needed_features(case: Case, features: tuple[str, ...], probe: Callable[[Case], bool | None]) -> tuple[str, ...]:
    """The features whose change makes the disagreement go away, in order; at most MAX_FLIPS cases are run.

    `probe` says whether a case still shows it, or None where eager refuses the case. What no legal case can change is
    no part of the trigger: every program that could be compared has it.
    """
    kept: list[str] = []
    budget = MAX_FLIPS
    for feature in features:
        answers: list[bool | None] = []
        for flipped in _flips(case, feature):
            if budget == 0 or True in answers:
                break
            budget -= 1
            answers.append(probe(flipped))
        if not answers or (False in answers and True not in answers):
            kept.append(feature)
    return tuple(kept)


def _flips(case: Case, feature: str) -> Iterator[Case]:
    if feature == "empty":
        yield from _only_valid(_grown(case))
    elif feature.startswith("rank:"):
        yield from _only_valid(_ranked(case, int(feature.removeprefix("rank:"))))
    elif "=" in feature:
        name, _, word = feature.partition("=")
        for node in case.program.operators:
            yield from _only_valid(_other_arguments(case, node, name, word))


def _only_valid(candidates: Iterator[Case | None]) -> Iterator[Case]:
    return (case for case in candidates if case is not None)


def _grown(case: Case) -> Iterator[Case | None]:
    """Every dim of size 0 made 1, then 2."""
    for size in (1, 2):
        changed: Case | None = case
        for node in case.program.placeholders:
            spec = node.spec
            if changed is not None and isinstance(spec, TensorSpec) and 0 in spec.shape:
                shape = tuple(size if dim == 0 else dim for dim in spec.shape)
                if not all(isinstance(dim, int) for dim in shape):
                    return
                changed = map_placeholder(changed, node.name, dataclasses.replace(spec, shape=shape), _filled(shape))
        yield changed


def _filled(shape: tuple[Dim, ...]) -> Callable[[Array, str], Array]:
    def change(values: Array, dtype: str) -> Array:
        return np.ones([dim for dim in shape if isinstance(dim, int)])

    return change


def _ranked(case: Case, rank: int) -> Iterator[Case | None]:
    """Every tensor of this rank given one dim more, of size 1 or 2, in front or behind; all together, then one at a time."""
    names = [node.name for node in case.program.placeholders if isinstance(node.spec, TensorSpec) and len(node.spec.shape) == rank]
    groups = [names, *([name] for name in names)] if len(names) > 1 else [names]
    for group in groups:
        for size, behind in ((1, False), (1, True), (2, False), (2, True)):
            changed: Case | None = case
            for name in group:
                spec = changed.program.node(name).spec if changed is not None else None
                if changed is not None and isinstance(spec, TensorSpec):
                    shape = (*spec.shape, size) if behind else (size, *spec.shape)
                    plain = dataclasses.replace(spec, shape=shape, order=None, strides=None, expanded=())
                    changed = map_placeholder(changed, name, plain, _repeated(size, behind))
            yield changed


def _repeated(size: int, behind: bool) -> Callable[[Array, str], Array]:
    def change(values: Array, dtype: str) -> Array:
        return np.stack([values] * size, axis=-1 if behind else 0)

    return change


def _other_arguments(case: Case, node: Node, name: str, word: str) -> Iterator[Case | None]:
    for variant in _variants(_argument(node, name), word):
        changed = replace_node(case, _with_argument(node, name, variant))
        yield checked(prune(changed, changed.program.nodes))


def _argument(node: Node, name: str) -> Value:
    if name.startswith("arg") and name[3:].isdigit():
        index = int(name[3:])
        return node.args[index] if index < len(node.args) else None
    return node.kwargs.get(name)


def _with_argument(node: Node, name: str, value: Value) -> Node:
    if name.startswith("arg") and name[3:].isdigit():
        index = int(name[3:])
        return dataclasses.replace(node, args=(*node.args[:index], value, *node.args[index + 1 :]))
    return dataclasses.replace(node, kwargs={**node.kwargs, name: value})


def _variants(value: Value, word: str) -> Iterator[Value]:
    """`value` with the leaves that `word` stands for changed for others, all of them alike."""
    if word in ("True", "False"):
        yield _mapped(value, lambda leaf: isinstance(leaf, bool), word == "False")
    elif word in _CLASSES:
        belongs = _CLASSES[word]
        for other in _INTEGERS:
            if not belongs(other):
                yield _mapped(value, lambda leaf: type(leaf) is int and belongs(leaf), other)
    elif word in ("float", "float-negative"):
        for number in (-1.0,) if word == "float" else (1.0, 0.0):
            yield _mapped(value, lambda leaf: isinstance(leaf, float), number)


_CLASSES: dict[str, Callable[[int], bool]] = {
    "zero": lambda number: number == 0,
    "negative": lambda number: number < 0,
    "int": lambda number: number > 0,
}


def _mapped(value: Value, chosen: Callable[[Value], bool], other: Value) -> Value:
    if isinstance(value, tuple | list):
        return type(value)(_mapped(item, chosen, other) for item in value)
    return other if chosen(value) else value
