"""How an operator is declared: one frozen OpSpec, whose draw function picks legal operands and emits its nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from generators.builder import Builder


class Skip(Exception):
    """No legal operands for this operator here and now; the caller undoes what was drawn and tries another one."""


@dataclass(frozen=True, slots=True)
class OpSpec:
    """One operator of the catalogue.

    `spellings` say how it may be written: `torch.relu` and other qualified functions, `.relu` a method, `operator.add`,
    `aten.relu.default`, `nn.ReLU` a module. `dtypes` are those of its first operand. Only an operator that can be
    `exact` is drawn in the exact lane, where `draw` skips whatever would round. `variant` tells apart the declarations of one
    canonical operator that take other arguments.
    """

    name: str
    family: str
    spellings: tuple[str, ...]
    draw: Callable[[Builder], None]
    dtypes: tuple[str, ...]
    exact: bool = True
    weight: int = 4
    variant: str = ""

    @property
    def key(self) -> str:
        """The name, with the variant where one canonical operator is declared more than once."""
        return f"{self.name}:{self.variant}" if self.variant else self.name

    def names(self) -> tuple[str, ...]:
        """Everything that a profile's glob may call it."""
        return (self.name, self.key, f"family:{self.family}", *self.spellings)
