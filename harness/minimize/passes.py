"""The reduction passes: each proposes smaller cases; none knows why the case is interesting."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from harness.minimize.edits import (
    as_dtype,
    checked,
    keep_calls,
    make_static,
    map_placeholder,
    neutralize,
    prune,
    replace_node,
    substitute,
)
from harness.minimize.order import DTYPE_ORDER
from harness.model.case import Case
from harness.model.dtypes import Array, is_float, widen
from harness.model.fill import Literal
from harness.model.outcome import NodeTrace
from harness.model.program import ModuleRecipe, Node, TensorSpec
from harness.model.values import DType, Ref, Tensor, Value, leaves, tensor_from_array

Traces = tuple[Mapping[str, NodeTrace], ...]
Pass = Callable[[Case, Traces], Iterator[Case | None]]


def single_call(case: Case, traces: Traces) -> Iterator[Case | None]:
    """One call instead of several, then fewer."""
    count = len(case.calls)
    if count > 1:
        for index in range(count):
            yield checked(keep_calls(case, [index]))
        for index in range(count):
            yield checked(keep_calls(case, [i for i in range(count) if i != index]))


def static_shapes(case: Case, traces: Traces) -> Iterator[Case | None]:
    """Numbers instead of symbols: where one binding is left, else by making every call the same one."""
    yield make_static(case)
    if len(case.calls) > 1:
        for call in case.calls:
            yield make_static(dataclasses.replace(case, calls=(call,) * len(case.calls)))


def single_output(case: Case, traces: Traces) -> Iterator[Case | None]:
    """One leaf of the output alone; then the output of an earlier operator."""
    output = case.program.output
    body = list(case.program.nodes[:-1])
    found = [leaf for _, leaf in leaves(output) if isinstance(leaf, Ref)]
    candidates: list[Value] = list(found) if not isinstance(output, Ref) else []
    candidates += [Ref(node.name) for node in case.program.operators]
    for candidate in candidates:
        nodes = [*body, Node("output", "output", "output", (candidate,))]
        yield checked(prune(dataclasses.replace(case, program=dataclasses.replace(case.program, nodes=tuple(nodes))), nodes))


def bypass_node(case: Case, traces: Traces) -> Iterator[Case | None]:
    """An operator replaced by one of its inputs."""
    for node in reversed(case.program.operators):
        for name in dict.fromkeys(node.inputs()):
            nodes = [
                dataclasses.replace(
                    other,
                    args=substitute(other.args, {node.name: Ref(name)}),
                    kwargs=substitute(dict(other.kwargs), {node.name: Ref(name)}),
                )
                for other in case.program.nodes
                if other.name != node.name
            ]
            yield checked(prune(dataclasses.replace(case, program=dataclasses.replace(case.program, nodes=tuple(nodes))), nodes))


def cut_node(case: Case, traces: Traces) -> Iterator[Case | None]:
    """An operator replaced by the reference's values, as a literal input."""
    if len(case.program.operators) > 1:
        yield from (neutralize(case, [node.name], traces) for node in case.program.operators)


def plain_roles(case: Case, traces: Traces) -> Iterator[Case | None]:
    """Parameters, buffers and constants as inputs; shared storage unshared; memory contiguous."""
    for node in case.program.placeholders:
        spec = node.spec
        if not isinstance(spec, TensorSpec):
            continue
        if node.role != "input" and spec.storage is None and node.name in case.state:
            data = case.state[node.name]
            changed = dataclasses.replace(
                case,
                state={name: other for name, other in case.state.items() if name != node.name},
                calls=tuple(dataclasses.replace(call, data={**call.data, node.name: data}) for call in case.calls),
            )
            yield checked(replace_node(changed, dataclasses.replace(node, role="input", fqn=node.name)))
        if spec.storage is not None:
            yield _unshare(case, node, spec)
        elif not spec.is_contiguous:
            plain = dataclasses.replace(spec, order=None, expanded=(), strides=None, offset=0)
            yield map_placeholder(case, node.name, plain, lambda values, dtype: values)


def _unshare(case: Case, node: Node, spec: TensorSpec) -> Case | None:
    plain = TensorSpec(spec.dtype, spec.shape, requires_grad=spec.requires_grad)
    if node.role != "input":
        tensor = case.arguments(0)[node.name]
        changed = dataclasses.replace(case, state={**case.state, node.name: Literal(tensor.array().tobytes())})
    else:
        calls = [
            dataclasses.replace(call, data={**call.data, node.name: Literal(case.arguments(i)[node.name].array().tobytes())})
            for i, call in enumerate(case.calls)
        ]
        changed = dataclasses.replace(case, calls=tuple(calls))
    replaced = replace_node(changed, dataclasses.replace(node, spec=plain))
    return checked(prune(replaced, replaced.program.nodes))


def drop_arguments(case: Case, traces: Traces) -> Iterator[Case | None]:
    """Fewer arguments: keyword arguments and trailing positional ones go."""
    for node in case.program.operators:
        for key in node.kwargs:
            rest = {name: value for name, value in node.kwargs.items() if name != key}
            yield _pruned(case, dataclasses.replace(node, kwargs=rest))
        if len(node.args) > 1:
            yield _pruned(case, dataclasses.replace(node, args=node.args[:-1]))
    for name, recipe in case.program.modules.items():
        for key in recipe.kwargs:
            rest = {other: value for other, value in recipe.kwargs.items() if other != key}
            yield _with_recipe(case, name, dataclasses.replace(recipe, kwargs=rest))
        if recipe.training:
            yield _with_recipe(case, name, dataclasses.replace(recipe, training=False))


def simple_arguments(case: Case, traces: Traces) -> Iterator[Case | None]:
    """Simpler arguments: each leaf towards 0, 1, False; each list shorter."""
    for node in case.program.operators:
        for args in _simpler_items(node.args):
            yield _pruned(case, dataclasses.replace(node, args=args))
        for key, value in node.kwargs.items():
            for simpler in _simpler(value):
                yield _pruned(case, dataclasses.replace(node, kwargs={**node.kwargs, key: simpler}))
    for name, recipe in case.program.modules.items():
        for args in _simpler_items(recipe.args):
            yield _with_recipe(case, name, dataclasses.replace(recipe, args=args))
        for key, value in recipe.kwargs.items():
            for simpler in _simpler(value):
                yield _with_recipe(case, name, dataclasses.replace(recipe, kwargs={**recipe.kwargs, key: simpler}))


def _pruned(case: Case, node: Node) -> Case | None:
    changed = replace_node(case, node)
    return checked(prune(changed, changed.program.nodes))


def _with_recipe(case: Case, name: str, recipe: ModuleRecipe) -> Case | None:
    modules = {**case.program.modules, name: recipe}
    return checked(dataclasses.replace(case, program=dataclasses.replace(case.program, modules=modules)))


def _simpler_items(args: tuple[Value, ...]) -> Iterator[tuple[Value, ...]]:
    for index, value in enumerate(args):
        for simpler in _simpler(value):
            yield (*args[:index], simpler, *args[index + 1 :])


def _simpler(value: Value) -> Iterator[Value]:
    if isinstance(value, bool):
        if value:
            yield False
    elif isinstance(value, int):
        yield from (other for other in (0, 1, 2, 3, -1, value // 2, value - 1) if _closer(other, value))
    elif isinstance(value, float):
        yield from (other for other in (0.0, 1.0, -1.0, 2.0, 0.5) if _closer(other, value))
    elif isinstance(value, DType):
        for name in DTYPE_ORDER[: DTYPE_ORDER.index(value.name)] if value.name in DTYPE_ORDER else ():
            yield DType(name)
    elif isinstance(value, tuple | list):
        for index, item in enumerate(value):
            if len(value) > 1:
                yield type(value)((*value[:index], *value[index + 1 :]))
            for simpler in _simpler(item):
                yield type(value)((*value[:index], simpler, *value[index + 1 :]))
        if len(value) > 1 and all(isinstance(item, int) and item == value[0] for item in value):
            yield value[0]
            for simpler in _simpler(value[0]):
                yield type(value)([simpler] * len(value))
    elif isinstance(value, slice):
        for field in ("start", "stop", "step"):
            part = getattr(value, field)
            parts = {"start": value.start, "stop": value.stop, "step": value.step}
            for other in (None, *_simpler(part)) if part is not None else ():
                parts[field] = other
                yield slice(parts["start"], parts["stop"], parts["step"])


def _closer(candidate: float, value: float) -> bool:
    """Whether `candidate` is simpler than `value`: smaller, or positive where it is not; anything beats NaN."""
    if value != value or candidate >= 0 > value:
        return True
    return abs(candidate) < abs(value) or (abs(candidate) == abs(value) and candidate > value)


def simple_dtypes(case: Case, traces: Traces) -> Iterator[Case | None]:
    """Simpler dtypes: all tensors of one dtype together, then one by one."""
    specs = {node.name: node.spec for node in case.program.placeholders if isinstance(node.spec, TensorSpec)}
    for dtype in sorted({spec.dtype for spec in specs.values()}, key=DTYPE_ORDER.index, reverse=True):
        group = [name for name, spec in specs.items() if spec.dtype == dtype]
        for simpler in DTYPE_ORDER[: DTYPE_ORDER.index(dtype)]:
            changed: Case | None = case
            for name in group:
                changed = _with_dtype(changed, name, specs[name], simpler) if changed is not None else None
            yield changed
            if len(group) > 1:
                yield from (_with_dtype(case, name, specs[name], simpler) for name in group)


def _with_dtype(case: Case, name: str, spec: TensorSpec, dtype: str) -> Case | None:
    return map_placeholder(case, name, dataclasses.replace(spec, dtype=dtype), lambda values, old: values)


def smaller_shapes(case: Case, traces: Traces) -> Iterator[Case | None]:
    """Smaller shapes: whole dims away, or cut to 1, to half, by one; equal sizes together, then one tensor alone."""
    specs = {node.name: node.spec for node in case.program.placeholders if isinstance(node.spec, TensorSpec) and node.spec.storage is None}
    sizes = sorted({dim for spec in specs.values() for dim in spec.shape if isinstance(dim, int)}, reverse=True)
    for name, spec in specs.items():
        if spec.is_contiguous and spec.shape:
            for axis in range(len(spec.shape)):
                for index in (0, -1):
                    yield _without_axis(case, name, spec, axis, index)
    for size in sizes:
        for smaller in sorted({1, size // 2, size - 1, 2, 3}):
            if not 0 < smaller < size:
                continue
            changed: Case | None = case
            for name, spec in specs.items():
                for axis, dim in enumerate(spec.shape):
                    if dim == size and changed is not None:
                        current = changed.program.node(name).spec
                        assert isinstance(current, TensorSpec)
                        changed = _cut_axis(changed, name, current, axis, range(smaller))
            yield changed
    for name, spec in specs.items():
        for axis, dim in enumerate(spec.shape):
            if isinstance(dim, int):
                for smaller in sorted({1, dim // 2, dim - 1}):
                    if 0 <= smaller < dim:
                        yield _cut_axis(case, name, spec, axis, range(smaller))
                        yield _cut_axis(case, name, spec, axis, range(dim - smaller, dim))


def fewer_axes(case: Case, traces: Traces) -> Iterator[Case | None]:
    """One axis less in all tensors of a rank, with the dims that the arguments name moved along."""
    specs = {node.name: node.spec for node in case.program.placeholders if isinstance(node.spec, TensorSpec) and node.spec.storage is None}
    for rank in sorted({len(spec.shape) for spec in specs.values() if spec.is_contiguous}, reverse=True):
        for axis in range(rank - 1):
            changed: Case | None = case
            for name, spec in specs.items():
                if changed is not None and len(spec.shape) == rank and spec.is_contiguous:
                    changed = _without_axis(changed, name, spec, axis, 0)
            for node in case.program.operators if changed is not None else ():
                assert changed is not None
                lowered = dataclasses.replace(
                    node,
                    args=tuple(_lowered(value, axis, rank) for value in node.args),
                    kwargs={key: _lowered(value, axis, rank) for key, value in node.kwargs.items()},
                )
                changed = replace_node(changed, lowered)
            yield checked(changed)


def _lowered(value: Value, axis: int, rank: int) -> Value:
    """The dims named in an argument, one less where they lie behind `axis`."""
    if isinstance(value, tuple | list):
        return type(value)(_lowered(item, axis, rank) for item in value)
    return value - 1 if type(value) is int and axis < value < rank else value


def _without_axis(case: Case, name: str, spec: TensorSpec, axis: int, index: int) -> Case | None:
    shape = spec.shape[:axis] + spec.shape[axis + 1 :]
    if spec.shape[axis] == 0:
        return None
    return map_placeholder(case, name, dataclasses.replace(spec, shape=shape), lambda values, dtype: np.take(values, index, axis=axis))


def _cut_axis(case: Case, name: str, spec: TensorSpec, axis: int, kept: range) -> Case | None:
    shape = (*spec.shape[:axis], len(kept), *spec.shape[axis + 1 :])
    plain = dataclasses.replace(spec, shape=shape, strides=None) if spec.strides is not None else dataclasses.replace(spec, shape=shape)

    def cut(values: Array, dtype: str) -> Array:
        return np.take(values, kept, axis=axis)

    return map_placeholder(case, name, plain, cut)


def simple_values(case: Case, traces: Traces) -> Iterator[Case | None]:
    """Simpler elements: all 0, all 1, 0 1 2 ..., whole numbers, ordinary ones; then element by element."""
    for node in case.program.placeholders:
        spec = node.spec
        if not isinstance(spec, TensorSpec):
            continue
        for simplify in (_zeros, _ones, _counting, _rounded, _ordinary):
            yield map_placeholder(case, node.name, spec, simplify)
        values = case.arguments(0)[node.name]
        if len(case.calls) == 1 and spec.is_contiguous and isinstance(values, Tensor):
            flat = widen(values.array(), spec.dtype).reshape(-1)
            for index in range(min(flat.size, 12)):
                for target in _simpler_numbers(flat[index]):
                    yield map_placeholder(case, node.name, spec, _set_element(index, target))


def _simpler_numbers(value: Any) -> Iterator[float]:
    """Numbers that are simpler than one element; a complex one is left at 0 or 1."""
    yield from (0.0, 1.0)
    if np.iscomplexobj(value) or not np.isfinite(value):
        return
    whole = float(np.trunc(value))
    yield from (other for other in (2.0, -1.0, float(np.trunc(whole / 2)), whole - np.sign(whole), whole) if abs(other) <= abs(value))


def simple_state(case: Case, traces: Traces) -> Iterator[Case | None]:
    """Simpler parameters and buffers of modules: all 1, all 0, 0 1 2 ..., whole numbers; together, then one by one."""
    specs = {f"{attribute}.{name}": spec for attribute, recipe in case.program.modules.items() for name, spec in recipe.state.items()}
    present = [key for key in specs if key in case.state]
    for simplify in (_ones, _zeros, _counting, _rounded):
        if len(present) > 1:
            yield _with_state(case, {key: specs[key] for key in present}, simplify)
        for key in present:
            yield _with_state(case, {key: specs[key]}, simplify)


def _with_state(case: Case, specs: Mapping[str, TensorSpec], simplify: Callable[[Array, str], Array]) -> Case | None:
    state = dict(case.state)
    for key, spec in specs.items():
        tensor = Tensor(spec.dtype, spec.concrete_shape({}), state[key])
        values = simplify(widen(tensor.array(), spec.dtype), spec.dtype)
        state[key] = tensor_from_array(as_dtype(values, spec.dtype), spec.dtype).data
    return checked(dataclasses.replace(case, state=state))


def _zeros(values: Array, dtype: str) -> Array:
    return np.zeros_like(values)


def _ones(values: Array, dtype: str) -> Array:
    return np.ones_like(values)


def _counting(values: Array, dtype: str) -> Array:
    return np.arange(values.size).reshape(values.shape)


def _rounded(values: Array, dtype: str) -> Array:
    return np.round(values) if is_float(dtype) else values


def _ordinary(values: Array, dtype: str) -> Array:
    return np.nan_to_num(values, nan=0.0, posinf=1.0, neginf=-1.0) + 0.0 if is_float(dtype) else values


def _set_element(index: int, target: float) -> Callable[[Array, str], Array]:
    def change(values: Array, dtype: str) -> Array:
        flat = values.copy().reshape(-1)
        flat[index] = np.array(target).astype(flat.dtype)
        return flat.reshape(values.shape)

    return change


PASSES: tuple[Pass, ...] = (
    single_call,
    static_shapes,
    single_output,
    cut_node,
    bypass_node,
    plain_roles,
    drop_arguments,
    simple_dtypes,
    smaller_shapes,
    fewer_axes,
    simple_arguments,
    simple_values,
    simple_state,
)
