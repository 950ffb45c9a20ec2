"""What an import yields, and what its failures mean."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from torch_mlir import ir

from harness.errors import Unsupported
from harness.model.values import Tensor, Value

_IMPORTER_ERRORS = (
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
    LookupError,
    AssertionError,
    AttributeError,
    ir.MLIRError,
)


@dataclass(frozen=True, slots=True)
class Result:
    """A leaf of the output that the compiled function returns at this position."""

    index: int


@dataclass(frozen=True, slots=True)
class Imported:
    """A module in the torch dialect, valid IR, for every call or for one.

    `arguments` names the placeholders and module tensors to pass, in order; `literals` are further ones with fixed
    values. `output` is the program's output with a Result in place of each tensor; `mutated` says which results are
    the new contents of which argument.
    """

    module: ir.Module
    route: str
    arguments: tuple[str, ...]
    output: Value
    mutated: Mapping[str, int] = field(default_factory=dict)
    literals: Mapping[str, Tensor] = field(default_factory=dict)
    dynamic: bool = False


@contextlib.contextmanager
def importer_errors() -> Iterator[None]:
    """FxImporter's exceptions as Unsupported: it raises plain Python errors for what it cannot express."""
    try:
        yield
    except _IMPORTER_ERRORS as error:
        raise Unsupported(f"import: FxImporter: {type(error).__name__}: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """The first line of an exception's text."""
    return str(error).strip().split("\n")[0]
