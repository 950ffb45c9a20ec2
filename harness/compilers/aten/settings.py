"""Everything that can be chosen about the aten path, with its defaults: here and nowhere else."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import UnknownName, UsageError

PARTITIONERS = ("capability", "sequential")
PRECISIONS = ("given", "float16", "bfloat16", "float64")


def _setting(default: Any, says: str, *, may_change_results: bool = False) -> Any:
    return dataclasses.field(default=default, metadata={"says": says, "may_change_results": may_change_results})


def _names(value: Iterable[str]) -> Iterable[str]:
    if isinstance(value, str) or not all(isinstance(name, str) for name in value):
        raise UsageError(f"setting kept_in_torch must be a list of operator names, not {value!r}")
    return value


@dataclass(frozen=True, slots=True)
class AtenSettings:
    """One compilation's settings, changed by `replace` only; each field's metadata says whether it may change results."""

    engine: str = _setting("eager", "what runs a partition, by name: see harness.compilers.aten.engines")
    min_block_size: int = _setting(1, "partitions of fewer operators than this stay in torch")
    kept_in_torch: frozenset[str] = _setting(frozenset(), "operators that no engine gets: aten.add, or one overload, aten.add.Tensor")
    partitioner: str = _setting("capability", f"how supported operators are grouped: {' or '.join(PARTITIONERS)}")
    lowering: bool = _setting(True, "run the lowering passes before partitioning")
    pass_through_build_failures: bool = _setting(False, "run a partition in torch where its engine cannot be built; counted")
    check_results: bool = _setting(True, "compare what each engine returns with what its partition declares, on every call")
    precision: str = _setting("given", f"float dtype inside partitions: {', '.join(PRECISIONS)}", may_change_results=True)

    def __post_init__(self) -> None:
        # `object.__setattr__` is how a frozen dataclass takes a list for a set.
        object.__setattr__(self, "kept_in_torch", frozenset(_names(self.kept_in_torch)))
        for name, kind in (("engine", str), ("min_block_size", int), ("partitioner", str), ("precision", str)):
            value = getattr(self, name)
            if not isinstance(value, kind) or isinstance(value, bool):
                raise UsageError(f"setting {name} must be {kind.__name__}, not {value!r}")
        for name in ("lowering", "pass_through_build_failures", "check_results"):
            if not isinstance(getattr(self, name), bool):
                raise UsageError(f"setting {name} must be true or false, not {getattr(self, name)!r}")
        if self.min_block_size < 1:
            raise UsageError(f"setting min_block_size must be at least 1, not {self.min_block_size}")
        if self.partitioner not in PARTITIONERS:
            raise UnknownName("partitioner", self.partitioner, PARTITIONERS)
        if self.precision not in PRECISIONS:
            raise UnknownName("precision", self.precision, PRECISIONS)

    def replace(self, **changes: Any) -> AtenSettings:
        """The same settings but for `changes`; raises UnknownName with the nearest, UsageError for a value that cannot be."""
        for name in changes:
            if name not in FIELDS:
                raise UnknownName("setting", name, FIELDS)
        return dataclasses.replace(self, **changes)


FIELDS: Mapping[str, dataclasses.Field[Any]] = {field.name: field for field in dataclasses.fields(AtenSettings)}
DEFAULTS = AtenSettings()


def from_options(options: Mapping[str, Any] | None) -> AtenSettings:
    """The settings of torch.compile's `options=`."""
    return DEFAULTS.replace(**(options or {}))


def may_change_results(name: str) -> bool:
    """Whether another value of this setting may give other numbers."""
    return bool(FIELDS[name].metadata["may_change_results"])
