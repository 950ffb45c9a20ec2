"""The ways from the torch dialect down to linalg-on-tensors, as data. Imports no torch, so that reproducers may read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """One stage: its name, and its passes as MLIR's pipeline text.

    `in_opt` says whether torch-mlir-opt has them too; operators of the dialects that it `consumes` may not be left over.
    """

    stage: str
    passes: str
    in_opt: bool = True
    consumes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lowering:
    """A way down: `conversion` is torch-mlir's own and what `fx.export_and_import(output_type=...)` runs.

    `execution` is how torch-mlir's end-to-end suite gets from there to the linalg that its reference backend executes.
    """

    name: str
    title: str
    output_type: str
    conversion: Step
    execution: Step | None = None

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every stage on the way, in order."""
        return (self.conversion,) if self.execution is None else (self.conversion, self.execution)


_TOSA_TO_LINALG = (
    "func.func(tosa-to-arith,tosa-to-scf,tosa-optional-decompositions,tosa-to-linalg-named,tosa-to-linalg,tosa-to-tensor,tosa-to-arith)"
)
_STABLEHLO_TO_LINALG = (
    "func.func(stablehlo-aggressive-simplification),stablehlo-legalize-to-linalg,stablehlo-convert-to-signless,canonicalize"
)

LINALG = Lowering("linalg", "linalg-on-tensors", "linalg-on-tensors", Step("linalg", "torch-backend-to-linalg-on-tensors-backend-pipeline"))
TOSA = Lowering(
    "tosa",
    "TOSA",
    "tosa",
    Step("tosa", "torch-backend-to-tosa-backend-pipeline"),
    Step("tosa-to-linalg", _TOSA_TO_LINALG, in_opt=False, consumes=("tosa",)),
)
STABLEHLO = Lowering(
    "stablehlo",
    "StableHLO",
    "stablehlo",
    Step("stablehlo", "torch-backend-to-stablehlo-backend-pipeline"),
    Step("stablehlo-to-linalg", _STABLEHLO_TO_LINALG, consumes=("stablehlo", "chlo")),
)
LOWERINGS: Mapping[str, Lowering] = {each.name: each for each in (LINALG, TOSA, STABLEHLO)}
CONVERSIONS = tuple(each.conversion.stage for each in LOWERINGS.values())
EXECUTIONS = tuple(each.execution.stage for each in LOWERINGS.values() if each.execution is not None)


def lowering_of(target: str) -> Lowering:
    """The lowering of a target such as `torch-mlir:tosa?extra=cse`; linalg's for one that names none."""
    return LOWERINGS.get(target.partition("?")[0].rpartition(":")[2], LINALG)
