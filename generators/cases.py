"""Whole cases: a lane, symbols and their bindings, one operator after the other, an output, and the calls."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st

from generators.builder import Builder, Var
from generators.catalogue import weights
from generators.choices import Choices
from generators.filling import EVERYWHERE, choose_filling
from generators.profile import LANES, PROFILES, Profile
from generators.sizes import Size
from harness.model.case import Call, Case
from harness.model.fill import Fill
from harness.model.program import Node, Program, TensorSpec
from harness.model.symbols import Sym, Symbol
from harness.model.values import Ref, Value, map_leaves

LOW, HIGH = 2, 16  # the range of every symbol; torch specializes sizes 0 and 1

_SHORT = ((45, 1), (30, 2), (25, 3))
_LONG = ((14, 4), (20, 5), (18, 6), (16, 7), (14, 8), (8, 10), (6, 12), (4, 16), (2, 20), (1, 30))
_SYMBOL_VALUES = (3, 2, 4, 5, 6, 7, 8)


class NothingDrawn(Exception):
    """The profile's operators found no legal operands this time."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A case, and what was predicted of every tensor in it, with sizes per binding in `bindings`."""

    case: Case
    vars: tuple[Var, ...]
    bindings: tuple[Mapping[str, int], ...]


def generate(choices: Choices, profile: Profile) -> Drawn:
    """Draw one case; raises NothingDrawn where no operator found operands."""
    lane = choices.weighted([(weight, lane) for weight, lane in zip(profile.lanes, LANES, strict=True) if weight])
    ops = weights(profile, lane)
    if not ops:
        lane, ops = "ordinary", weights(profile, "ordinary")
    symbols, bindings = _symbols(choices, profile)
    b = Builder(choices, profile.dtypes, lane, bindings)
    for name in symbols:
        values = tuple(binding[name] for binding in bindings)
        b.pool += [Size(values, name)] * 2
        if choices.coin(15):
            b.pool.append(Size(values, name) * 2)
    if choices.coin(5):
        _shared_storage(b)
    wanted = min(_length(choices, profile), profile.max_nodes)
    drawn = 0
    for _ in range(6 * wanted + 10):
        if b.attempt(ops.pick(choices)):
            drawn += 1
            if drawn == wanted:
                break
    if not drawn:
        raise NothingDrawn
    _drop_unused(b)
    nodes = (*b.placeholders, *b.nodes, Node("output", "output", "output", (_output(b),)))
    if symbols and choices.coin(20):
        nodes = _sizes_as_inputs(nodes)
    return Drawn(_finish(b, Program(nodes, dict(b.modules)), profile, lane), tuple(b.declared), b.bindings)


def _length(choices: Choices, profile: Profile) -> int:
    if choices.coin(100 - profile.short) and profile.max_nodes > 3:
        return choices.weighted([(weight, n) for weight, n in _LONG if n <= profile.max_nodes] or [(1, profile.max_nodes)])
    return choices.weighted(_SHORT)


def _symbols(choices: Choices, profile: Profile) -> tuple[tuple[str, ...], tuple[dict[str, int], ...]]:
    if not choices.coin(profile.symbolic):
        return (), ({},)
    names = ("s0", "s1") if choices.coin(35) else ("s0",)
    count = 3 if choices.coin(20) else 2
    bindings: list[dict[str, int]] = [{} for _ in range(count)]
    for position, name in enumerate(names):
        rest = [value for value in _SYMBOL_VALUES if all(binding.get("s0") != value for binding in bindings) or position == 0]
        for binding in bindings:
            binding[name] = rest.pop(choices.below(len(rest)))
    return names, tuple(bindings)


def _shared_storage(b: Builder) -> None:
    """Two inputs that are views of one storage."""
    dtype = b.new_dtype(b.dtypes)
    dims = b.new_dims(2, 3)
    filling = choose_filling(b.choices, dtype, b.lane, EVERYWHERE, False)
    if filling is None:
        return
    var = b.add_input(dtype, dims, filling, plain=True, role="input")
    source = b.placeholders[-1]
    assert isinstance(source.spec, TensorSpec)
    source = replace(source, spec=replace(source.spec, storage="shared0"))
    b.placeholders[-1] = source
    b.fillings[-1] = b.fillings[-1].named("shared0", "input")
    b.view_of_input(source, var)


def _drop_unused(b: Builder) -> None:
    """Remove placeholders that no node reads, except where another one reads their storage."""
    read = {name for node in b.nodes for name in node.inputs()}
    storages = {_storage(node) for node in b.placeholders if node.name in read}
    gone = {node.name for node in b.placeholders if _storage(node) not in storages}
    b.placeholders = [node for node in b.placeholders if node.name not in gone]
    b.fillings = [filling for filling in b.fillings if filling.role == "module" or filling.storage in storages]
    b.vars = [var for var in b.vars if var.name not in gone]


def _sizes_as_inputs(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """The same nodes with every bare symbol among the arguments passed in as an int, as Dynamo passes sizes."""
    found: dict[str, Node] = {}

    def passed(leaf: Value) -> Value:
        if not isinstance(leaf, Sym) or not leaf.expr.isidentifier():
            return leaf
        found.setdefault(leaf.expr, Node(leaf.expr, "placeholder", leaf.expr, role="symint", spec=leaf))
        return Ref(leaf.expr)

    changed = [replace(node, args=map_leaves(node.args, passed), kwargs=map_leaves(dict(node.kwargs), passed)) for node in nodes]
    return (*(found[name] for name in sorted(found)), *changed)


def _storage(node: Node) -> str:
    return (node.spec.storage if isinstance(node.spec, TensorSpec) else None) or node.name


def _output(b: Builder) -> Value:
    """What the program returns: every result that nothing reads, in one of several structures."""
    used = {name for node in b.nodes for name in node.inputs()}
    results = [var for var in b.vars if not var.is_input]
    ends: list[Ref] = [var.ref for var in results if var.name not in used]
    ends += [ref for ref in dict.fromkeys(b.ends) if ref not in ends]
    if not ends:
        ends = [results[-1].ref]
    more = [var for var in results if var.ref not in ends]
    if more and b.choices.coin(20):
        ends.append(b.choices.choose(more).ref)
    inputs: list[Var] = [var for var in b.vars if var.is_input]
    if inputs and b.choices.coin(3):
        ends.append(b.choices.choose(inputs).ref)
    return _structured(b.choices, ends)


def _structured(choices: Choices, ends: list[Ref]) -> Value:
    items: list[Value] = list(ends)
    if choices.coin(6):
        items.insert(choices.below(len(items) + 1), choices.choose((None, 3, 2.5, True, "text")))
    how = choices.below(20)
    if len(items) == 1 and how < 15:
        return items[0]
    if how < 10:
        return tuple(items)
    if how < 13:
        return items
    if how < 17:
        return {name: item for name, item in zip(_names(len(items)), items, strict=True)}
    return (items[0], {"rest": items[1:]})


def _names(count: int) -> list[str]:
    return ["out", "aux", "extra", *(f"more{n}" for n in range(count))][:count]


def _finish(b: Builder, program: Program, profile: Profile, lane: str) -> Case:
    """The calls with their data, and the state; symbols that the program does not use are dropped."""
    used = sorted(program.symbols()) if b.bindings[0] else []
    choices = b.choices
    order = list(range(len(b.bindings))) if used else [0]
    if choices.coin(15):
        order.append(order[0])
    base = choices.below(2**31)
    calls = []
    for number, index in enumerate(order):
        data: dict[str, Fill] = {}
        for position, filling in enumerate(b.fillings):
            if filling.role == "input":
                data[filling.storage] = filling.fill(index, _seed(base, position, number))
        calls.append(Call({name: b.bindings[index][name] for name in used}, data))
    state = {
        filling.storage: filling.fill(0, _seed(base, position, 0)) for position, filling in enumerate(b.fillings) if filling.role != "input"
    }
    return Case(program, tuple(calls), tuple(Symbol(name, LOW, HIGH) for name in used), state, profile.mode, lane)


def _seed(base: int, position: int, call: int) -> int:
    return (base + 7919 * position + 104729 * call) % 2**31


@functools.lru_cache(maxsize=512)
def _index(count: int) -> st.SearchStrategy[int]:
    return st.integers(0, count - 1)


@st.composite
def _cases(draw: Any, profile: Profile) -> Case:
    choices = Choices(lambda count: draw(_index(count)))
    for _ in range(20):
        try:
            return generate(choices, profile).case
        except NothingDrawn:
            continue
    reject()


def cases(profile: Profile = PROFILES["default"]) -> st.SearchStrategy[Case]:
    """A public strategy over the cases of a profile, for @given."""
    return _cases(profile)


__all__ = ["Drawn", "NothingDrawn", "cases", "generate"]
