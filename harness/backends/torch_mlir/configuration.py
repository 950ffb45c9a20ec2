"""Configurations of torch-mlir's pipelines that may not change what a program means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.backends.torch_mlir.lowerings import Lowering
from harness.backends.torch_mlir.pipelines import REFERENCE_LLVM_PASSES, TORCH_PASSES, short_llvm_passes
from harness.errors import UsageError
from harness.model.values import Value

EXTRA_PASSES = ("canonicalize", "cse")
_TORCH_PIPELINE = "torchdynamo-export-to-torch-backend-pipeline"
_BEFORE_LLVM = "refback-expand-ops-for-llvm"


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a job changes: `extra` passes after every stage, operators to leave whole (`legal`), checks at run time.

    `legal` goes to `backend-legal-ops`, "ops to be considered legal for the backend", as the end-to-end suite gives
    `aten.adaptive_max_pool2d` to linalg; a lowering that lacks one of them says so. `verification` adds
    `generate-runtime-verification`, as the reference backend does by default.
    """

    extra: tuple[str, ...] = ()
    legal: tuple[str, ...] = ()
    verification: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Value]) -> Configuration:
        """The configuration that a job's options ask for; raises UsageError."""
        extra = _names(options, "extra")
        for name in extra:
            if name not in EXTRA_PASSES:
                raise UsageError(f"extra={name}: only {' and '.join(EXTRA_PASSES)} may run anywhere without changing a program's meaning")
        verification = options.get("runtime-verification") or "off"
        if verification not in ("on", "off"):
            raise UsageError(f"runtime-verification={verification!r} is neither on nor off")
        return cls(extra, _names(options, "legal-ops"), verification == "on")

    def pipelines(self, lowering: Lowering) -> tuple[tuple[str, str], ...]:
        """The stages from the import to linalg-on-tensors, each with its passes."""
        torch = TORCH_PASSES
        if self.legal:
            torch = torch.replace(_TORCH_PIPELINE, f"{_TORCH_PIPELINE}{{backend-legal-ops={','.join(self.legal)}}}")
        stages = [("torch-pipeline", torch), *((step.stage, step.passes) for step in lowering.steps)]
        return tuple((stage, ",".join((passes, *self.extra))) for stage, passes in stages)

    def llvm_passes(self, linalg: str | None) -> tuple[str, ...]:
        """From linalg to the LLVM dialect: what this text needs, or without one, the whole reference pipeline."""
        passes = REFERENCE_LLVM_PASSES if linalg is None else short_llvm_passes(linalg)
        if not self.verification:
            return passes
        at = next(index for index, text in enumerate(passes) if _BEFORE_LLVM in text)
        return (*passes[:at], "generate-runtime-verification", *passes[at:])


def _names(options: Mapping[str, Value], key: str) -> tuple[str, ...]:
    text = options.get(key, "")
    if not isinstance(text, str):
        raise UsageError(f"{key}={text!r} is not a list of names with commas between")
    return tuple(name for name in text.split(",") if name)
