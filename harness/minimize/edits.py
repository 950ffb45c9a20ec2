"""Pure edits of Cases: each returns a new valid Case, or None where it does not apply."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from harness.errors import FormatError
from harness.model.case import Call, Case
from harness.model.dtypes import DTYPES, Array, is_float, narrow, widen
from harness.model.fill import Data, Literal, storage_elements
from harness.model.opnames import canonical
from harness.model.outcome import NodeTrace
from harness.model.program import Node, Program, TensorSpec
from harness.model.symbols import Dim, Sym, Symbol, evaluate
from harness.model.values import Ref, Tensor, Value, leaves, map_leaves, storage_size


def substitute(value: Value, mapping: Mapping[str, Value]) -> Value:
    """`value` with the Refs named in `mapping` replaced."""
    return map_leaves(value, lambda leaf: mapping.get(leaf.node, leaf) if isinstance(leaf, Ref) else leaf)


def with_inputs(node: Node, mapping: Mapping[str, Value]) -> Node:
    """`node` reading other values."""
    return dataclasses.replace(node, args=substitute(node.args, mapping), kwargs=substitute(dict(node.kwargs), mapping))


def prune(case: Case, nodes: Sequence[Node]) -> Case:
    """`case` over `nodes`, less what the output does not need, and less the data, recipes and symbols then unused.

    Nodes that may mutate their input (in-place methods and functions, setitem) are kept when their input is needed.
    """
    needed = set(nodes[-1].inputs())
    kept = [nodes[-1]]
    storages = {node.name: _storage(node) for node in nodes if node.op == "placeholder"}
    for node in reversed(nodes[:-1]):
        mutates = is_mutation(node) and any(name in needed for name in node.inputs())
        if node.name in needed or mutates:
            kept.append(node)
            needed.update(node.inputs())
    kept.reverse()
    used_storages = {storages[node.name] for node in kept if node.op == "placeholder"}
    used_modules = {node.target for node in kept if node.op == "call_module"}
    program = Program(tuple(kept), {name: recipe for name, recipe in case.program.modules.items() if name in used_modules})
    symbols = program.symbols()
    return dataclasses.replace(
        case,
        program=program,
        symbols=tuple(symbol for symbol in case.symbols if symbol.name in symbols),
        state={name: data for name, data in case.state.items() if name in used_storages or name.split(".")[0] in used_modules},
        calls=tuple(
            Call(
                {name: value for name, value in call.binding.items() if name in symbols},
                {name: data for name, data in call.data.items() if name in used_storages},
            )
            for call in case.calls
        ),
    )


def is_mutation(node: Node) -> bool:
    """Whether the node's own spelling says that it changes an input."""
    last = node.target.split(".")[-2 if node.target.startswith(("aten.", "prims.")) else -1]
    in_place = last.endswith("_") and not last.endswith("__")
    return in_place or last in ("setitem", "__setitem__") or "out" in node.kwargs or (last.startswith("i") and node.target in _IN_PLACE)


_IN_PLACE = frozenset(
    f"operator.{name}"
    for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul", "iand", "ior", "ixor", "ilshift", "irshift")
)


def _storage(node: Node) -> str:
    return node.spec.storage or node.name if isinstance(node.spec, TensorSpec) else node.name


def literal_case(case: Case) -> Case:
    """`case` with every fill recipe written out as bytes, so that it depends on no formula."""
    sizes: dict[tuple[int | None, str], tuple[int, str]] = {}
    for index in range(len(case.calls)):
        for node in case.program.placeholders:
            if isinstance(node.spec, TensorSpec):
                place = (index if node.role == "input" else None, _storage(node))
                binding = case.calls[index].binding
                size = Tensor(
                    node.spec.dtype, node.spec.concrete_shape(binding), Literal(b""), node.spec.concrete_strides(binding), node.spec.offset
                ).storage_elements
                sizes[place] = (max(size, sizes.get(place, (0, ""))[0]), node.spec.dtype)

    def literal(call: int | None, storage: str, data: Data) -> Data:
        if isinstance(data, Literal) or (call, storage) not in sizes:
            return data
        size, dtype = sizes[call, storage]
        return literal_data(data, dtype, size)

    calls = tuple(
        dataclasses.replace(call, data={name: literal(i, name, data) for name, data in call.data.items()})
        for i, call in enumerate(case.calls)
    )
    state = {name: literal(None, name, data) for name, data in case.state.items()}
    for attribute, recipe in case.program.modules.items():
        for name, spec in recipe.state.items():
            key = f"{attribute}.{name}"
            if key in state and not isinstance(state[key], Literal):
                count = int(np.prod(spec.concrete_shape({}), dtype=np.int64))
                state[key] = literal_data(state[key], spec.dtype, count)
    return dataclasses.replace(case, calls=calls, state=state)


def literal_data(data: Data, dtype: str, count: int) -> Literal:
    """The bytes that a fill stands for."""
    return Literal(storage_elements(data, dtype, count).tobytes())


def extract(case: Case, names: Sequence[str], traces: Sequence[Mapping[str, NodeTrace]]) -> Case | None:
    """The nodes `names` alone, fed the reference's inputs of every call as literals; the output is the last one's result.

    Dims that differ between calls become fresh symbols. None where an input was not traced as a tensor or plain value.
    """
    chosen = [node for node in case.program.nodes if node.name in set(names)]
    if not chosen:
        return None
    inside = {node.name for node in chosen}
    outside = list(dict.fromkeys(name for node in chosen for name in node.inputs() if name not in inside))
    per_call: list[dict[str, Value]] = []
    for trace in traces:
        values: dict[str, Value] = {}
        for node in chosen:
            if node.name not in trace:
                return None
            _collect((node.args, dict(node.kwargs)), (trace[node.name].args, dict(trace[node.name].kwargs)), values)
        per_call.append(values)
    return with_values(case, chosen, outside, per_call, Ref(chosen[-1].name))


def neutralize(case: Case, names: Sequence[str], traces: Sequence[Mapping[str, NodeTrace]]) -> Case | None:
    """`case` with the nodes `names` replaced by the reference's values.

    None where that cannot be said: their results are not tensors, or they share storage with a mutation.
    """
    if len(traces) != len(case.calls) or any(not isinstance(node.spec, TensorSpec) for node in case.program.placeholders):
        return None
    per_call: list[dict[str, Value]] = []
    for index, trace in enumerate(traces):
        values: dict[str, Value] = {name: value for name, value in case.arguments(index).items() if isinstance(value, Tensor)}
        for name in names:
            step: NodeTrace | None = trace.get(name)
            if step is None or step.unit is not None:
                return None
            values[name] = step.output
        per_call.append(values)
    cut = set(names)
    body = [node for node in case.program.nodes[:-1] if node.op != "placeholder" and node.name not in cut]
    given = [node.name for node in case.program.placeholders] + list(names)
    return with_values(case, body, given, per_call, case.program.output)


def _collect(pattern: Value, value: Value, found: dict[str, Value]) -> None:
    if isinstance(pattern, Ref):
        found.setdefault(pattern.node, value)
    elif isinstance(pattern, tuple | list) and isinstance(value, tuple | list):
        for left, right in zip(pattern, value, strict=False):
            _collect(left, right, found)
    elif isinstance(pattern, dict) and isinstance(value, dict):
        for key, item in pattern.items():
            if key in value:
                _collect(item, value[key], found)
    elif isinstance(pattern, slice) and isinstance(value, slice):
        _collect((pattern.start, pattern.stop, pattern.step), (value.start, value.stop, value.step), found)


def with_values(
    case: Case, body: Sequence[Node], names: Sequence[str], per_call: Sequence[Mapping[str, Value]], output: Value
) -> Case | None:
    """`body` in which the nodes `names` are given: tensors become literal inputs, plain values are written in place.

    None where a value is missing or cannot be a placeholder (a tuple of tensors is split into its getitems' inputs).
    """
    placeholders: list[Node] = []
    inline: dict[str, Value] = {}
    data: list[dict[str, Data]] = [{} for _ in per_call]
    originals = {node.name: node for node in case.program.nodes}
    symbols = {symbol.name: symbol for symbol in case.symbols}
    bindings = [dict(call.binding) for call in case.calls]
    fresh: dict[tuple[int, ...], str] = {}
    for name in names:
        values = [found.get(name) for found in per_call]
        if all(isinstance(value, Tensor) for value in values):
            tensors = [value for value in values if isinstance(value, Tensor)]
            shape = _common_shape([tensor.shape for tensor in tensors], fresh, symbols, bindings)
            if shape is None or len({tensor.dtype for tensor in tensors}) != 1:
                return None
            static = all(isinstance(dim, int) for dim in shape)
            keep_layout = static and tensors[0].strides is not None and len({tensor.strides for tensor in tensors}) == 1
            spec = TensorSpec(tensors[0].dtype, shape, strides=tensors[0].strides if keep_layout else None)
            original = originals[name]
            role = original.role if original.role in ("parameter", "buffer", "constant") and len(per_call) == 1 else "input"
            placeholders.append(
                Node(name, "placeholder", name, role="input" if role is None else role, fqn=original.fqn or name, spec=spec)
            )
            for index, tensor in enumerate(tensors):
                array = tensor.array()
                data[index][name] = Literal(_strided_bytes(array, tensor.strides) if keep_layout else array.tobytes())
        elif values[0] is None or not _is_plain(values):
            return None
        else:
            inline[name] = values[0]
    if placeholders and any(node.role != "input" for node in placeholders):
        state = {node.name: data[0].pop(node.name) for node in placeholders if node.role != "input"}
    else:
        state = {}
    nodes = [
        *placeholders,
        *(with_inputs(node, inline) for node in body),
        Node("output", "output", "output", (substitute(output, inline),)),
    ]
    built = dataclasses.replace(
        case,
        program=Program(tuple(nodes), case.program.modules),
        symbols=tuple(symbols.values()),
        calls=tuple(Call(binding, found) for binding, found in zip(bindings, data, strict=True)),
        state={**{name: value for name, value in case.state.items() if "." in name}, **state},
    )
    return checked(prune(built, nodes))


def _is_plain(values: Sequence[Value]) -> bool:
    """Whether every call gives the same value, and it can stand in an argument list."""
    same = all(value == values[0] for value in values)
    return same and not any(isinstance(leaf, Tensor | Ref) for _, leaf in leaves(values[0]))


def _common_shape(
    shapes: Sequence[tuple[int, ...]], fresh: dict[tuple[int, ...], str], symbols: dict[str, Symbol], bindings: list[dict[str, int]]
) -> tuple[Dim, ...] | None:
    if len({len(shape) for shape in shapes}) != 1:
        return None
    dims: list[Dim] = []
    for sizes in zip(*shapes, strict=True):
        if len(set(sizes)) == 1:
            dims.append(sizes[0])
            continue
        if sizes not in fresh:
            fresh[sizes] = _symbol_for(sizes, symbols, bindings)
        dims.append(Sym(fresh[sizes]))
    return tuple(dims)


def _symbol_for(sizes: tuple[int, ...], symbols: dict[str, Symbol], bindings: list[dict[str, int]]) -> str:
    for name in symbols:
        if tuple(binding[name] for binding in bindings) == sizes:
            return name
    name = next(f"d{i}" for i in range(len(symbols) + 1) if f"d{i}" not in symbols)
    symbols[name] = Symbol(name, min(0, *sizes), max(64, *sizes))
    for binding, size in zip(bindings, sizes, strict=True):
        binding[name] = size
    return name


def _strided_bytes(array: Array, strides: tuple[int, ...] | None, offset: int = 0) -> bytes:
    """The storage of a view; where elements share a place (stride 0) the last one is written."""
    assert strides is not None
    buffer = np.zeros(storage_size(tuple(array.shape), strides, offset), dtype=array.dtype)
    view = np.lib.stride_tricks.as_strided(buffer[offset:], array.shape, [s * buffer.itemsize for s in strides])
    view[...] = array
    return buffer.tobytes()


def checked(case: Case | None) -> Case | None:
    """`case` where it is valid, else None."""
    if case is None:
        return None
    try:
        case.validate()
    except FormatError:
        return None
    return case


def plain_names(case: Case) -> Case:
    """`case` with nodes named by what they are and where they stand, since drawn names tell of what is gone."""
    count: dict[str, int] = {}
    names: dict[str, str] = {}
    for node in case.program.nodes[:-1]:
        stem = _LETTERS.get(node.role or "", "") or f"{canonical(node, case.program).replace('.', '_')}_"
        number = count.get(stem, 0 if node.op == "placeholder" else 1)
        count[stem] = number + 1
        names[node.name] = f"{stem}{number}"
    refs: dict[str, Value] = {old: Ref(new) for old, new in names.items()}
    storages = {
        node.name: names[node.name] for node in case.program.placeholders if isinstance(node.spec, TensorSpec) and not node.spec.storage
    }
    nodes = []
    for node in case.program.nodes:
        renamed = with_inputs(dataclasses.replace(node, name=names.get(node.name, node.name)), refs)
        if node.op == "placeholder":
            fqn = None if node.role in ("input", "symint") else node.fqn
            renamed = dataclasses.replace(renamed, target=names[node.name], fqn=fqn)
        nodes.append(renamed)
    return dataclasses.replace(
        case,
        program=dataclasses.replace(case.program, nodes=tuple(nodes)),
        calls=tuple(
            dataclasses.replace(call, data={storages.get(name, name): data for name, data in call.data.items()}) for call in case.calls
        ),
        state={storages.get(name, name): data for name, data in case.state.items()},
    )


_LETTERS = {"input": "x", "parameter": "p", "buffer": "b", "constant": "c", "symint": "s"}


def keep_calls(case: Case, indices: Sequence[int]) -> Case:
    """`case` with only some of its calls."""
    return dataclasses.replace(case, calls=tuple(case.calls[i] for i in indices))


def make_static(case: Case) -> Case | None:
    """The case with every symbol replaced by its value, where all calls agree on it; strides stay as the spec derives them."""
    if any(call.binding != case.calls[0].binding for call in case.calls) or not case.program.symbols():
        return None
    binding = case.calls[0].binding

    def spec(node: Node) -> Node:
        if isinstance(node.spec, TensorSpec):
            return dataclasses.replace(node, spec=dataclasses.replace(node.spec, shape=node.spec.concrete_shape(binding)))
        return node

    sizes = {node.name: evaluate(node.spec, binding) for node in case.program.placeholders if isinstance(node.spec, Sym | int)}

    def leaf(value: Value) -> Value:
        if isinstance(value, Sym):
            return evaluate(value, binding)
        return sizes.get(value.node, value) if isinstance(value, Ref) else value

    nodes = [
        dataclasses.replace(spec(node), args=map_leaves(node.args, leaf), kwargs=map_leaves(dict(node.kwargs), leaf))
        for node in case.program.nodes
        if node.name not in sizes
    ]
    built = dataclasses.replace(
        case,
        program=dataclasses.replace(case.program, nodes=tuple(nodes)),
        symbols=(),
        calls=tuple(Call({}, call.data) for call in case.calls),
    )
    return checked(built)


def replace_node(case: Case, node: Node) -> Case:
    """`case` with the node of the same name replaced."""
    nodes = tuple(node if old.name == node.name else old for old in case.program.nodes)
    return dataclasses.replace(case, program=dataclasses.replace(case.program, nodes=nodes))


def map_placeholder(case: Case, name: str, spec: TensorSpec, change: Callable[[Array, str], Array]) -> Case | None:
    """`case` with one unshared, contiguous literal placeholder given another spec, and its data passed through `change`.

    `change` takes the widened values in their concrete shape and the old dtype, and returns values in the new shape.
    """
    node = case.program.node(name)
    if not isinstance(node.spec, TensorSpec):
        return None
    storage = _storage(node)
    if any(other.name != name and _storage(other) == storage for other in case.program.placeholders):
        return None

    def convert(index: int, data: Data) -> Data:
        assert isinstance(node.spec, TensorSpec)
        binding = case.calls[index].binding
        layout = node.spec.concrete_strides(binding), node.spec.offset, node.spec.storage
        tensor = Tensor(node.spec.dtype, node.spec.concrete_shape(binding), data, *layout)
        values = change(widen(tensor.array(), node.spec.dtype), node.spec.dtype)
        carrier = as_dtype(values, spec.dtype)
        if spec.is_contiguous:
            return Literal(np.ascontiguousarray(carrier).tobytes())
        if carrier.shape != spec.concrete_shape(binding):
            raise FormatError(f"values of shape {carrier.shape} for {spec.concrete_shape(binding)}")
        return Literal(_strided_bytes(carrier, spec.concrete_strides(binding), spec.offset))

    try:
        if node.role == "input":
            calls = tuple(
                dataclasses.replace(call, data={**call.data, storage: convert(i, call.data[storage])}) for i, call in enumerate(case.calls)
            )
            changed = dataclasses.replace(case, calls=calls)
        else:
            changed = dataclasses.replace(case, state={**case.state, storage: convert(0, case.state[storage])})
    except (FormatError, ValueError, IndexError):
        return None
    return checked(replace_node(changed, dataclasses.replace(node, spec=spec)))


def as_dtype(values: Array, dtype: str) -> Array:
    """Numbers in the carrier of `dtype`: rounded, or cut off at what integers hold; NaN becomes 0 there."""
    if is_float(dtype):
        return narrow(values.astype(np.float64), dtype)
    kind = DTYPES[dtype].kind
    if kind == "complex":
        return values.astype(np.dtype(DTYPES[dtype].carrier))
    if kind == "bool":
        return np.asarray(values, dtype=np.bool_)
    whole = np.nan_to_num(values.real.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0) if values.dtype.kind in "fc" else values
    info = np.iinfo(np.dtype(DTYPES[dtype].carrier))
    clipped: Array = np.clip(whole, max(info.min, -(2**31)), min(info.max, 2**31)).astype(np.dtype(DTYPES[dtype].carrier))
    return clipped
