"""torch-mlir's torch-level pipelines as data: the passes in order, as its C++ builds them.

Transcribed from lib/Dialect/Torch/Transforms/Passes.cpp; a test holds each against what torch-mlir-opt prints with
`--dump-pass-pipeline` for the pipeline's name, and against the named pipeline's result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.errors import UnknownName


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline by name; `named` is how torch-mlir spells it as a whole. `repeats` where torch-mlir itself runs it again."""

    name: str
    named: str
    passes: tuple[str, ...]
    summary: str
    repeats: bool


def nested(*names: str) -> str:
    """Passes over each function, as a pipeline of modules holds them."""
    return f"func.func({','.join(names)})"


_CANONICALIZE = nested("canonicalize")


def _refinement(kind: str) -> tuple[str, ...]:
    """createRefinementPipeline, for `shape` or `dtype`: library functions in, inlined, simplified, and out again."""
    return (
        f"torch-reify-{kind}-calculations",
        "inline",
        nested(f"torch-simplify-{kind}-calculations"),
        nested("cse"),
        nested(f"torch-simplify-{kind}-calculations"),
        nested("torch-drop-abstract-interp-calculations"),
    )


# createTorchSimplificationPipeline, which LowerToBackendContract runs until the backend contract is met.
_SIMPLIFICATION = (
    _CANONICALIZE,
    "torch-inline-global-slots",
    "torch-erase-module-initializer",
    _CANONICALIZE,
    nested("torch-recompose-complex-ops"),
    nested("torch-reduce-op-variants"),
    _CANONICALIZE,
    "symbol-dce",
    nested("torch-maximize-value-semantics"),
    "torch-refine-public-return",
    _CANONICALIZE,
    *_refinement("shape"),
    *_refinement("dtype"),
    "torch-refine-public-return",
    _CANONICALIZE,
    nested("torch-decompose-complex-ops"),
    _CANONICALIZE,
)
# createTorchDynamoExportToTorchBackendPipeline, behind the pass that torch_mlir.fx puts before it.
_FX = (
    nested("torch-match-quantized-custom-ops"),
    "inline",
    nested("torch-reduce-op-variants"),
    _CANONICALIZE,
    nested("torch-decompose-complex-ops"),
    nested("torch-recompose-complex-ops"),
    _CANONICALIZE,
)

_PIPELINES = {
    item.name: item
    for item in (
        Pipeline(
            "fx",
            "func.func(torch-match-quantized-custom-ops),torchdynamo-export-to-torch-backend-pipeline",
            _FX,
            "what torch_mlir.fx runs before any lowering",
            repeats=False,
        ),
        Pipeline(
            "simplification",
            "torch-simplification-pipeline",
            _SIMPLIFICATION,
            "what torch-lower-to-backend-contract repeats",
            repeats=True,
        ),
    )
}
PIPELINES = tuple(_PIPELINES)
VERIFY_CONTRACT = "torch-verify-backend-contract-no-decompositions"
_NESTED = re.compile(r"^func\.func\((?P<inner>.*)\)$")
_OPTIONS = re.compile(r"\{.*\}$")


def pipeline(name: str, *, legal_ops: tuple[str, ...] = ()) -> Pipeline:
    """The pipeline `fx` or `simplification`, its decompositions sparing `legal_ops` such as `aten.roll`.

    Raises UnknownName.
    """
    if name not in _PIPELINES:
        raise UnknownName("pipeline", name, PIPELINES)
    found = _PIPELINES[name]
    if not legal_ops:
        return found
    listed = ",".join(legal_ops)
    spared = nested(f"torch-decompose-complex-ops{{legal-ops={listed}}}")
    passes = tuple(spared if name_of(text) == "torch-decompose-complex-ops" else text for text in found.passes)
    return Pipeline(name, f"{found.named}{{backend-legal-ops={listed}}}", passes, found.summary, found.repeats)


def name_of(text: str) -> str:
    """The bare name of a pass: `canonicalize` of `func.func(canonicalize)`."""
    match = _NESTED.match(text)
    return _OPTIONS.sub("", match["inner"] if match is not None else text)
