"""One torch-dialect module for several bindings of a case's symbols, from the modules imported for each.

The static modules must agree op by op. Where a dim differs it becomes `?`; where an integer constant differs it is
computed from the dynamic dim of an argument, by a straight line or a product through its values. So the result is right for
exactly the bindings at hand, which are all that will run, and costs a fraction of tracing with symbolic shapes.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.backends.torch_mlir.tracing import Specialized

_DIMS = re.compile(r"(?<=tensor<)\[([0-9,?]*)\]")
_CONSTANT = re.compile(r'^(\s*)(%\w+) = "torch\.constant\.int"\(\) <\{value = (-?\d+) : i64\}> : \(\) -> !torch\.int(.*)$')
_INT = "!torch.int"


@dataclass(frozen=True, slots=True)
class _Carrier:
    """An argument's dim that differs between the bindings, with its size in each."""

    argument: str
    kind: str
    dim: int
    sizes: tuple[int, ...]


def merge(texts: Sequence[str]) -> str:
    """The module for all bindings; `texts` are the modules in generic form, one for each binding.

    Raises Specialized where they differ in more than sizes or a size follows no argument's dim.
    """
    lines = [text.splitlines() for text in texts]
    if len({len(one) for one in lines}) > 1:
        raise Specialized("the bindings trace to programs of different length")
    carriers: list[_Carrier] = []
    merged: list[str] = []
    for versions in zip(*lines, strict=True):
        if versions[0].lstrip().startswith("^bb0(") and not carriers:
            carriers = _carriers(versions)
        constants = [_CONSTANT.match(version) for version in versions]
        if all(constants) and len(set(versions)) > 1:
            merged.extend(_computed([match for match in constants if match is not None], carriers))
        else:
            merged.append(_dynamic(versions))
    return "\n".join(merged) + "\n"


def _dynamic(versions: Sequence[str]) -> str:
    """One line with `?` for each dim that differs."""
    if len(set(versions)) == 1:
        return versions[0]
    if len({_DIMS.sub("[]", version) for version in versions}) > 1:
        raise Specialized("the bindings trace to programs that differ in more than sizes")
    shapes = list(zip(*(_DIMS.findall(version) for version in versions), strict=True))
    answers = iter([_common(shape) for shape in shapes])
    return _DIMS.sub(lambda _: f"[{next(answers)}]", versions[0])


def _common(shapes: Sequence[str]) -> str:
    dims = [shape.split(",") for shape in shapes]
    if len({len(one) for one in dims}) > 1:
        raise Specialized("the bindings trace to tensors of different rank")
    return ",".join(sizes[0] if len(set(sizes)) == 1 else "?" for sizes in zip(*dims, strict=True))


def _carriers(versions: Sequence[str]) -> list[_Carrier]:
    """The dims of the block's arguments that differ."""
    found: list[_Carrier] = []
    kinds = re.findall(r"(%\w+): (!torch\.vtensor<[^>]*>+)", _dynamic(versions))
    shapes = [_DIMS.findall(version) for version in versions]
    for index, (name, kind) in enumerate(kinds):
        per_binding = [shape[index].split(",") for shape in shapes]
        for dim, sizes in enumerate(zip(*per_binding, strict=True)):
            if len(set(sizes)) > 1:
                found.append(_Carrier(name, kind, dim, tuple(int(size) for size in sizes)))
    return found


def _computed(constants: Sequence[re.Match[str]], carriers: Sequence[_Carrier]) -> list[str]:
    """The lines that compute an integer which differs between the bindings."""
    indent, name, _, location = constants[0].groups()
    values = tuple(int(match[3]) for match in constants)
    for carrier in carriers:
        line = _line_through(carrier.sizes, values)
        if line is not None:
            steps = [("mul", line[0]), ("add", line[1])]
        else:
            inverse = _line_through(values, carrier.sizes)
            if inverse is None:
                continue
            steps = [("add", -inverse[1]), ("floordiv", inverse[0])]
        return [indent + text + location for text in _arithmetic(name, carrier, steps)]
    for left, right in itertools.combinations_with_replacement(carriers, 2):
        if all(a * b == value for a, b, value in zip(left.sizes, right.sizes, values, strict=True)):
            return [indent + text + location for text in _product(name, left, right)]
    raise Specialized(f"an integer that takes the values {values} follows no argument's dim")


def _line_through(sizes: tuple[int, ...], values: tuple[int, ...]) -> tuple[int, int] | None:
    """Slope and offset with `values = slope * sizes + offset`, if there is an integer line."""
    other = next((index for index, size in enumerate(sizes) if size != sizes[0]), None)
    if other is None:
        return None
    slope, remainder = divmod(values[other] - values[0], sizes[other] - sizes[0])
    offset = values[0] - slope * sizes[0]
    fits = remainder == 0 and all(slope * size + offset == value for size, value in zip(sizes, values, strict=True))
    return (slope, offset) if fits and slope != 0 else None


def _arithmetic(name: str, carrier: _Carrier, steps: Sequence[tuple[str, int]]) -> list[str]:
    needed = [(operation, amount) for operation, amount in steps if amount != (0 if operation == "add" else 1)]
    # Names of our own carry the constant's, so that they are unique.
    values = [f"%size_{name[1:]}_{number}" for number in range(len(needed))] + [name]
    lines = _size(values[0], carrier)
    for number, (operation, amount) in enumerate(needed):
        lines.append(_constant(f"{values[number]}_by", amount))
        lines.append(_binary(values[number + 1], operation, values[number], f"{values[number]}_by"))
    return lines


def _product(name: str, left: _Carrier, right: _Carrier) -> list[str]:
    a, b = f"%size_{name[1:]}_a", f"%size_{name[1:]}_b"
    return [*_size(a, left), *_size(b, right), _binary(name, "mul", a, b)]


def _size(name: str, carrier: _Carrier) -> list[str]:
    dim = f"%dim_{name[1:]}"
    read = f'{name} = "torch.aten.size.int"({carrier.argument}, {dim}) : ({carrier.kind}, {_INT}) -> {_INT}'
    return [_constant(dim, carrier.dim), read]


def _constant(name: str, value: int) -> str:
    return f'{name} = "torch.constant.int"() <{{value = {value} : i64}}> : () -> {_INT}'


def _binary(name: str, operation: str, left: str, right: str) -> str:
    return f'{name} = "torch.aten.{operation}.int"({left}, {right}) : ({_INT}, {_INT}) -> {_INT}'
