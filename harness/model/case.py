"""A Case: a Program, its symbolic sizes, how its tensors are filled, and the calls to make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.errors import FormatError
from harness.model.fill import DEPENDS_ON_COUNT, Data, Fill, Literal, storage_elements
from harness.model.program import Program, TensorSpec
from harness.model.symbols import Symbol, evaluate
from harness.model.values import Tensor, Value, storage_size

MODES = ("fwd", "grad", "train")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the program: the symbols' values, and what fills each input's storage."""

    binding: Mapping[str, int] = field(default_factory=dict)
    data: Mapping[str, Data] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """What is run: the same on every target.

    `state` fills parameters, buffers and constants by storage name, and module state by `attribute.local_name`; a
    storage's name is its spec's `storage`, or else the placeholder's own name. `lane` says how inputs were drawn.
    """

    program: Program
    calls: tuple[Call, ...] = (Call(),)
    symbols: tuple[Symbol, ...] = ()
    state: Mapping[str, Data] = field(default_factory=dict)
    mode: str = "fwd"
    lane: str = "ordinary"

    def arguments(self, index: int) -> dict[str, Value]:
        """Every placeholder's concrete value in call `index`: a Tensor, or an int for a symint.

        Raises FormatError where a storage has no data or a view does not fit.
        """
        call = self.calls[index]
        specs: dict[str, tuple[str, TensorSpec, bool]] = {}
        result: dict[str, Value] = {}
        for node in self.program.placeholders:
            if isinstance(node.spec, TensorSpec):
                specs[node.name] = (node.spec.storage or node.name, node.spec, node.role == "input")
        needed: dict[str, int] = {}
        for storage, spec, _ in specs.values():
            size = storage_size(spec.concrete_shape(call.binding), spec.concrete_strides(call.binding), spec.offset)
            needed[storage] = max(needed.get(storage, 0), size)
        for node in self.program.placeholders:
            if node.name not in specs:
                assert node.spec is not None and not isinstance(node.spec, TensorSpec)
                result[node.name] = evaluate(node.spec, call.binding)
                continue
            storage, spec, is_input = specs[node.name]
            data = call.data.get(storage) if is_input else self.state.get(storage)
            if data is None:
                raise FormatError(f"call {index} has no data for {storage!r}", where=f"placeholder {node.name!r}")
            if isinstance(data, Fill) and data.recipe in DEPENDS_ON_COUNT and spec.storage is not None:
                data = Literal(storage_elements(data, spec.dtype, needed[storage]).tobytes())
            result[node.name] = Tensor(
                spec.dtype,
                spec.concrete_shape(call.binding),
                data,
                spec.concrete_strides(call.binding),
                spec.offset,
                spec.storage,
            )
        return result

    def module_state(self, attribute: str) -> dict[str, Tensor]:
        """The tensors of one call_module's module, by local name."""
        recipe = self.program.modules[attribute]
        return {
            name: Tensor(spec.dtype, spec.concrete_shape({}), self.state.get(f"{attribute}.{name}", Fill("constant/1", low=0)))
            for name, spec in recipe.state.items()
        }

    def validate(self) -> None:
        """Check the program, the symbols of every call, and that every call's arguments can be made.

        Raises FormatError.
        """
        self.program.validate()
        if self.mode not in MODES:
            raise FormatError(f"mode {self.mode!r} is none of {', '.join(MODES)}")
        if not self.calls:
            raise FormatError("a case needs at least one call")
        for index, call in enumerate(self.calls):
            for symbol in self.symbols:
                value = call.binding.get(symbol.name)
                if value is None or not symbol.low <= value <= symbol.high:
                    raise FormatError(f"{symbol.name}={value} is not in {symbol.low}..{symbol.high}", where=f"call {index}")
            self.arguments(index)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a drawn case came from: `case = f(generator, profile, seed, index)`."""

    generator: str
    profile: str
    seed: int
    index: int
