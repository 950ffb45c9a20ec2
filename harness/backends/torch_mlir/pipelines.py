"""torch-mlir's own lowering, stage by stage, with every diagnostic caught, and the way from linalg down to LLVM.

The torch-mlir stages run exactly what `torch_mlir.fx.export_and_import` runs, verified after every pass. What
follows linalg only serves to execute the result, so it is kept cheap: passes that this module does not need are left
out, and torch-mlir's full reference pipeline runs only where the short one does not get through.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.passmanager import PassManager

from harness.backends.torch_mlir.lowerings import LINALG

TORCH_PASSES = "func.func(torch-match-quantized-custom-ops),torchdynamo-export-to-torch-backend-pipeline"
LINALG_PASSES = LINALG.conversion.passes

_BUFFERIZE = "one-shot-bufferize{copy-before-write bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map}"

REFERENCE_LLVM_PASSES = (
    "func.func(linalg-generalize-named-ops)",
    "func.func(linalg-fuse-elementwise-ops)",
    "convert-shape-to-std",
    "func.func(expand-realloc)",
    "func.func(refback-generalize-tensor-pad)",
    "func.func(refback-generalize-tensor-concat)",
    "func.func(tm-tensor-bufferize)",
    _BUFFERIZE,
    "refback-mlprogram-bufferize",
    "func.func(buffer-deallocation-pipeline)",
    "inline",
    "refback-munge-calling-conventions",
    "func.func(tm-tensor-to-loops)",
    "func.func(refback-munge-memref-copy)",
    "func.func(convert-linalg-to-loops)",
    "func.func(lower-affine)",
    "convert-scf-to-cf",
    "func.func(refback-expand-ops-for-llvm)",
    "func.func(arith-expand)",
    "func.func(convert-math-to-llvm)",
    "convert-math-to-libm",
    "expand-strided-metadata",
    "finalize-memref-to-llvm",
    "lower-affine",
    "convert-scf-to-cf",
    "convert-bufferization-to-memref",
    "finalize-memref-to-llvm",
    "func.func(convert-arith-to-llvm)",
    "convert-vector-to-llvm",
    "convert-func-to-llvm",
    "convert-cf-to-llvm",
    "convert-complex-to-llvm",
    "reconcile-unrealized-casts",
)

# A short pipeline keeps a pass only where the linalg text mentions what the pass works on, and frees no buffers: a few
# kilobytes a case, against a deallocation pass that costs time and refuses some legal modules.
_SHORT_LLVM_PASSES = (
    ("linalg.", "func.func(linalg-generalize-named-ops,linalg-fuse-elementwise-ops)"),
    ("shape.", "convert-shape-to-std"),
    ("tensor.pad", "func.func(refback-generalize-tensor-pad)"),
    ("tensor.concat", "func.func(refback-generalize-tensor-concat)"),
    ("tm_tensor.", "func.func(tm-tensor-bufferize)"),
    ("", _BUFFERIZE),
    ("ml_program.", "refback-mlprogram-bufferize"),
    ("", "refback-munge-calling-conventions"),
    ("tm_tensor.", "func.func(tm-tensor-to-loops)"),
    ("", "func.func(refback-munge-memref-copy,convert-linalg-to-loops,lower-affine,convert-scf-to-cf)"),
    ("", "func.func(refback-expand-ops-for-llvm,arith-expand,convert-math-to-llvm)"),
    ("math.", "convert-math-to-libm"),
    ("", "expand-strided-metadata"),
    ("", "lower-affine"),
    ("", "finalize-memref-to-llvm"),
    ("", "func.func(convert-arith-to-llvm)"),
    ("", "convert-func-to-llvm"),
    ("", "convert-cf-to-llvm"),
    ("complex", "convert-complex-to-llvm"),
    ("", "reconcile-unrealized-casts"),
)


def module_pipeline(*passes: str) -> str:
    """The pipeline text, as `torch-mlir-opt -pass-pipeline` takes it, that runs `passes` over a module."""
    return f"builtin.module({','.join(passes)})"


def short_llvm_passes(linalg: str) -> tuple[str, ...]:
    """The passes that bring this linalg text down to the LLVM dialect."""
    return tuple(text for needle, text in _SHORT_LLVM_PASSES if needle in linalg)


@dataclass(frozen=True, slots=True)
class Emitted:
    """One diagnostic as MLIR emitted it; `names` are the file names in its location, which are our nodes' names."""

    severity: str
    message: str
    names: tuple[str, ...] = ()


class StageFailure(Exception):
    """A stage did not get through: the errors it emitted, whether it left invalid IR behind, and the torch operators left."""

    def __init__(
        self,
        stage: str,
        emitted: tuple[Emitted, ...],
        *,
        invalid_ir: bool = False,
        remaining: tuple[str, ...] = (),
        reason: str = "",
    ) -> None:
        errors = [item.message for item in emitted if item.severity == "error"]
        super().__init__("\n".join(errors) or reason or f"{stage} failed without a word")
        self.stage = stage
        self.emitted = emitted
        self.invalid_ir = invalid_ir
        self.remaining = remaining

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that the errors point at, in order, without repetition."""
        return tuple(dict.fromkeys(name for item in self.emitted if item.severity == "error" for name in item.names))


def _name(op: ir.OpView | ir.Operation) -> str:
    return str(op.operation.name)


def left_over(module: ir.Module, dialects: tuple[str, ...]) -> tuple[Emitted, ...]:
    """The operators of these dialects that a partial conversion leaves behind and something reads, as a full one says it."""
    found: dict[str, Emitted] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        name = _name(op)
        read = any(True for result in op.results for _ in result.uses)
        if name.partition(".")[0] in dialects and name not in found and read:
            where = tuple(_LOCATION_NAME.findall(str(op.location)))
            found[name] = Emitted("error", f"failed to legalize operation '{name}'", where)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return tuple(found.values())


_TORCH_OPERATOR = re.compile(r"= \"?(torch\.(?:aten|prims|operator)\b[\w.]*)")
_LOCATION_NAME = re.compile(r'"([^"]+)":\d+:\d+')


def _emitted(diagnostic: ir.Diagnostic) -> Emitted:
    parts = [str(diagnostic.message), *(f"note: {note.message}" for note in diagnostic.notes)]
    severity = str(diagnostic.severity).rpartition(".")[2].lower()
    return Emitted(severity, "\n".join(parts), tuple(_LOCATION_NAME.findall(str(diagnostic.location))))


class Toolchain:
    """One MLIR context with its parsed pipelines; diagnostics go to whoever is collecting, never to stderr."""

    def __init__(self) -> None:
        self.context = ir.Context()
        torch_dialect.register_dialect(self.context)
        self.context.enable_multithreading(False)
        self.context.emit_error_diagnostics = True
        self._collecting: list[Emitted] = []
        self._handler = self.context.attach_diagnostic_handler(self._handle)
        self._pipelines: dict[tuple[str, bool], PassManager] = {}

    def _handle(self, diagnostic: ir.Diagnostic) -> bool:
        self._collecting.append(_emitted(diagnostic))
        return True

    @contextlib.contextmanager
    def collect(self) -> Iterator[list[Emitted]]:
        """Everything that MLIR says inside the block."""
        outer, self._collecting = self._collecting, []
        try:
            yield self._collecting
        finally:
            self._collecting = outer

    def parse(self, text: str) -> ir.Module:
        """A module from its text; raises MLIRError."""
        return ir.Module.parse(text, self.context)

    def invalid(self, module: ir.Module) -> tuple[Emitted, ...]:
        """What the verifier has against `module`; empty for valid IR."""
        with self.collect() as emitted:
            try:
                valid = module.operation.verify()
            except ir.MLIRError:
                valid = False
        if valid:
            return ()
        return tuple(emitted) or (Emitted("error", "the verifier rejects this module"),)

    def run(self, module: ir.Module, passes: tuple[str, ...], *, stage: str, verify: bool = True) -> tuple[Emitted, ...]:
        """Run `passes` over `module` in place and return what was emitted.

        Raises StageFailure with the errors; `invalid_ir` is set where the module no longer verifies.
        """
        pipeline = module_pipeline(*passes)
        manager = self._pipelines.get((pipeline, verify))
        if manager is None:
            with self.context:
                manager = PassManager.parse(pipeline)
            manager.enable_verifier(verify)
            self._pipelines[pipeline, verify] = manager
        with self.collect() as emitted:
            try:
                manager.run(module.operation)
            except ir.MLIRError as error:
                broken = bool(self.invalid(module))
                remaining = () if broken else tuple(dict.fromkeys(_TORCH_OPERATOR.findall(module.operation.get_asm())))
                raise StageFailure(stage, tuple(emitted), invalid_ir=broken, remaining=remaining, reason=str(error)) from error
        return tuple(emitted)
