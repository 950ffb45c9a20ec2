"""The protocol that every target is written against, and the registry of targets.

A target is a class with three methods; fxdiff imports it in a process of its own, so it may crash, hang or leak.
Register it with `register(TargetSpec(...))` from a module named by `--import`, or from the entry-point group
`fxdiff.targets`. This module imports neither torch nor Hypothesis.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

from harness.errors import HarnessError, UnknownName, UsageError
from harness.model.case import Case
from harness.model.outcome import Job, Outcome


class Progress(Protocol):
    """Where a backend says what it is about to do, so that a death has an address."""

    def stage(self, name: str) -> None:
        """Enter a stage: its deadline starts, and its CPU time is counted."""

    def node(self, name: str) -> None:
        """Name the node that is about to run."""


class Backend(Protocol):
    """One system under test."""

    def warm(self) -> None:
        """Import and warm libraries in the zygote, before any fork. Threads started here hang the children."""

    def start(self) -> None:
        """Prepare a freshly forked worker."""

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        """Run every call of `case` and return the evidence.

        Raise Unsupported where the system itself refuses, Rejected where eager does; anything else that escapes
        becomes harness_error. The system's own exceptions are caught here and returned as status `error`.
        """

    def versions(self) -> Mapping[str, str]:
        """Name and version of every library that can change the result."""


class BatchBackend(Backend, Protocol):
    """A system under test that is much cheaper for many cases at once."""

    def run_many(self, cases: Sequence[Case], job: Job, progress: Progress) -> Sequence[Outcome]:
        """Run every case by the options of `job` and return the evidence of each, in order, as `run` would."""


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """What the engine knows of a target without importing it.

    `entry` is `module:Class`; `environment` is `main` or `oneflow`; targets with one `zygote` share the warmed parent
    process of that name, which is itself forked from that of `parent_zygote` where one of its targets is in use.
    `needs` is evidence that the reference must supply (`trace`). `modes` are the modes of cases that it honours: one without
    `grad` runs the forward pass alone. `family` groups targets for reports and signatures. Where bulk runs take a
    shortcut, `users_route` holds the options of the way that users go; `evidence_run` those of a run that stops early and
    leaves behind, as artifacts, what a process that dies cannot. `choices` names the options that may follow the name, as
    in `torch-mlir:linalg?extra=cse`, with what each does; `options` are those that did. `voters` are other ways to the same
    results, by name, with the options that take them, and `voter` is this target's own name among them: what they say of a
    disagreement tells which part is at fault; a bug in one of `shared_stages` is known to all of a family that have it. A
    target of `batch` takes as many cases in one job (BatchBackend). `patience` multiplies every deadline, where compiling
    takes its time.
    `follow_run` holds the options of a run that follows the pipeline pass by pass, to say where a finding comes from.
    Voters that are `layered` stand in order, each with a part of the system more than the one before.
    """

    name: str
    entry: str
    summary: str
    environment: str = "main"
    zygote: str = "torch"
    family: str = ""
    needs: tuple[str, ...] = ()
    lockstep: bool = False
    default: bool = False
    parent_zygote: str = ""
    modes: tuple[str, ...] = ("fwd",)
    users_route: Mapping[str, str] = field(default_factory=dict)
    evidence_run: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    voters: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    voter: str = ""
    shared_stages: tuple[str, ...] = ()
    batch: int = 1
    patience: float = 1.0
    layered: bool = False
    follow_run: Mapping[str, str] = field(default_factory=dict)


WITHOUT_OPTIONS = "without options"  # the voter that a target with options has more than the plain one
_TARGETS: dict[str, TargetSpec] = {}
_FAMILIES: dict[str, Callable[[str], TargetSpec]] = {}


def register(spec: TargetSpec) -> TargetSpec:
    """Add a target; raises UsageError where the name is taken by another one."""
    if _TARGETS.get(spec.name, spec) != spec:
        raise UsageError(f"target {spec.name!r} is registered twice, by {_TARGETS[spec.name].entry} and {spec.entry}")
    _TARGETS[spec.name] = spec
    return spec


def target(name: str) -> TargetSpec:
    """The target of this name, with the options that follow it, as in `NAME?KEY=VALUE&KEY=VALUE`.

    Raises UnknownName with the nearest name of a target or an option, UsageError for an option without a value.
    """
    base, mark, text = name.partition("?")
    prefix, colon, rest = base.partition(":")
    if base in _TARGETS:
        spec = _TARGETS[base]
    elif colon and rest and prefix in _FAMILIES:
        spec = _FAMILIES[prefix](rest)
    else:
        raise UnknownName("target", base, _TARGETS)
    return _with_options(spec, text) if mark else spec


def _with_options(spec: TargetSpec, text: str) -> TargetSpec:
    given: dict[str, str] = {}
    for part in text.split("&"):
        key, _, value = part.partition("=")
        if key not in spec.choices:
            raise UnknownName(f"option of {spec.name}", key, spec.choices)
        if not value:
            raise UsageError(f"the option {key!r} of {spec.name} needs a value: {key}=...; {spec.choices[key]}")
        given[key] = value
    name = f"{spec.name}?{'&'.join(f'{key}={given[key]}' for key in sorted(given))}"
    voters = {**spec.voters, WITHOUT_OPTIONS: dict.fromkeys(given, "")} if spec.voters else spec.voters
    return replace(spec, name=name, options={**spec.options, **given}, voters=voters, default=False)


def register_family(prefix: str, make: Callable[[str], TargetSpec]) -> None:
    """Have `make` give the targets `prefix:NAME` for names that nobody registered."""
    _FAMILIES[prefix] = make


def targets() -> tuple[TargetSpec, ...]:
    """Every registered target, by name."""
    return tuple(_TARGETS[name] for name in sorted(_TARGETS))


def load_backend(entry: str) -> Backend:
    """Instantiate the class that a `module:Class` entry names, with the text after a second colon as its argument.

    Raises HarnessError where there is none.
    """
    module_name, _, rest = entry.partition(":")
    class_name, colon, argument = rest.partition(":")
    cls = getattr(importlib.import_module(module_name), class_name, None)
    if cls is None:
        raise HarnessError(f"target entry {entry!r}: {module_name} has no {class_name!r}")
    return cast(Backend, cls(argument) if colon else cls())


_EVERY_MODE = ("fwd", "grad", "train")

register(
    TargetSpec("eager", "harness.backends.eager:EagerBackend", "PyTorch eager, the reference", family="eager", modes=_EVERY_MODE),
)
register(
    TargetSpec(
        "eager:copy",
        "harness.backends.eager_copy:EagerCopyBackend",
        "eager again, in other layouts and threads",
        family="eager",
        modes=_EVERY_MODE,
    )
)
register(
    TargetSpec(
        "oneflow:eager",
        "harness.backends.oneflow.whole:WholeBackend",
        "whole programs in OneFlow, node after node",
        environment="oneflow",
        zygote="oneflow",
        family="oneflow",
    )
)
register(
    TargetSpec(
        "oneflow:lockstep",
        "harness.backends.oneflow.lockstep:LockstepBackend",
        "every node in OneFlow by itself, fed the reference's inputs",
        environment="oneflow",
        zygote="oneflow",
        family="oneflow",
        needs=("trace",),
        lockstep=True,
        default=True,
    )
)
# Whole programs as modules. nn.Graph's run time hangs in a child of a process that had OneFlow's library mapped.
_ONEFLOW_WAYS = {
    "graph": ("GraphBackend", "whole programs in OneFlow, compiled as nn.Graph"),
    "graph-mlir": ("GraphMlirBackend", "whole programs in OneFlow, compiled as nn.Graph through MLIR, with its passes that fuse"),
    "fx": ("FxBackend", "whole programs in OneFlow, traced by onefx and run from the code that it generates"),
    "fused": ("FusedBackend", "the same with batch norms folded into convolutions; programs without them are refused"),
}
_MLIR_PASSES = "cse, inference, forward, normalization, matmul, jit, launch or none, with + between; by default all but launch"
for _name, (_entry, _title) in _ONEFLOW_WAYS.items():
    register(
        TargetSpec(
            f"oneflow:{_name}",
            f"harness.backends.oneflow.targets:{_entry}",
            _title,
            environment="oneflow",
            zygote="oneflow-unmapped",
            family="oneflow",
            needs=("trace",),
            choices={"passes": _MLIR_PASSES} if _name == "graph-mlir" else {},
            voters={way: {"way": way} for way in ("eager", *_ONEFLOW_WAYS) if way in (_name, "eager", "graph", "graph-mlir", "fx")},
            voter=_name,
        )
    )
_LOWERINGS = {"linalg": "linalg-on-tensors", "tosa": "TOSA", "stablehlo": "StableHLO"}
_TORCH_MLIR = TargetSpec(
    "",
    "",
    "",
    zygote="torch-mlir",
    parent_zygote="torch",
    family="torch-mlir",
    users_route={"route": "export"},
    evidence_run={"until": "import"},
    follow_run={"pipeline": "fx"},
    choices={
        "extra": "canonicalize, cse or both, with a comma between, after every stage",
        "legal-ops": "operators such as aten.adaptive_max_pool2d, with commas between, for the backend to take whole",
        "runtime-verification": "on: MLIR's generate-runtime-verification before LLVM",
    },
    voters={name: {"lowering": name} for name in _LOWERINGS},
    shared_stages=("torch-pipeline",),
)
for _name, _title in _LOWERINGS.items():
    register(
        replace(
            _TORCH_MLIR,
            name=f"torch-mlir:{_name}",
            entry=f"harness.backends.torch_mlir.backend:{_name.capitalize()}Backend",
            summary=f"torch-mlir through {_title}, executed on the wheel's own engine",
            default=_name == "linalg",
            voter=_name,
        )
    )
register(
    replace(
        _TORCH_MLIR,
        name="torch-mlir:inference",
        entry="harness.backends.torch_mlir.inference:InferenceBackend",
        summary="torch-mlir's own shape and dtype functions, on programs whose types are erased; nothing is executed",
        choices={},
        voters={},
        shared_stages=(),
        batch=16,
    )
)


_TORCH_COMPILE = TargetSpec("", "", "", zygote="torch-compile", parent_zygote="torch", modes=_EVERY_MODE, patience=2.0)


# What a backend of torch.compile is made of: each of PyTorch's own backends has one part more than the one before.
_LAYERS = {
    "Dynamo": "eager",
    "AOTAutograd": "aot_eager",
    "decompositions": "aot_eager_decomp_partition",
    "Inductor": "inductor",
}


def _through_dynamo(name: str) -> TargetSpec:
    backends = list(_LAYERS.values())
    below = {layer: backend for layer, backend in _LAYERS.items() if name not in backends or backends.index(backend) < backends.index(name)}
    layers = {layer: backend for layer, backend in below.items() if backend != "inductor"}
    own = next((layer for layer, backend in _LAYERS.items() if backend == name), name)
    return replace(
        _TORCH_COMPILE,
        name=f"compile:{name}",
        entry=f"harness.backends.torch_compile.through_dynamo:CompileBackend:{name}",
        summary=f"torch.compile with the backend {name}",
        family=name.rpartition(":")[2],
        patience=6.0 if name == "inductor" else 2.0,
        choices={
            "dynamic": "true or false: what torch.compile is told of sizes; by default it finds out by itself",
            "mode": "torch.compile's mode, such as max-autotune-no-cudagraphs",
        },
        voters={**{layer: {"backend": backend} for layer, backend in layers.items()}, own: {}},
        voter=own,
        layered=True,
    )


def _without_dynamo(name: str) -> TargetSpec:
    return replace(
        _TORCH_COMPILE,
        name=f"backend:{name}",
        entry=f"harness.backends.torch_compile.direct:DirectBackend:{name}",
        summary=f"the torch.compile backend {name}, given the module's graph without Dynamo",
        family=name.rpartition(":")[2],
        patience=6.0 if name == "inductor" else 2.0,
    )


_ENGINES = {
    "eager": "PyTorch",
    "numpy-constants": "PyTorch on constants that were numpy",
    "torch-mlir": "torch-mlir",
    "oneflow": "OneFlow",
    "tensorrt": "TensorRT",
}
# Engines that need more than torch are looked for under a zygote of their own.
_ENGINE_ZYGOTES = {"torch-mlir": "torch-mlir", "oneflow": "torch-compile-oneflow", "tensorrt": "torch-compile-tensorrt"}


def _aten(engine: str) -> TargetSpec:
    return replace(
        _TORCH_COMPILE,
        name=f"aten:{engine}",
        entry=f"harness.compilers.aten.target:AtenTarget:{engine}",
        summary=f"the aten path of fxdiff_aten, without Dynamo, its partitions run by {_ENGINES.get(engine, engine)}",
        zygote=_ENGINE_ZYGOTES.get(engine, _TORCH_COMPILE.zygote),
        family="aten",
        users_route={"route": "dynamo"},
        choices={
            "min_block_size": "partitions of fewer operators stay in torch",
            "kept_in_torch": "operators that no engine gets, such as aten.add, with commas between",
            "partitioner": "capability or sequential",
            "lowering": "true or false",
            "pass_through_build_failures": "true or false",
            "precision": "given, float16, bfloat16 or float64",
            "route": "twin, or dynamo for torch.compile",
            "audit": "off, light or full: checks of the aten path by itself",
        },
    )


for _name in _ENGINES:
    register(_aten(_name))
register_family("aten", _aten)
register_family("compile", _through_dynamo)
register_family("backend", _without_dynamo)
for _name in ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor"):
    register(_through_dynamo(_name))
    register(_without_dynamo(_name))
register(
    replace(
        _TORCH_COMPILE,
        name="oneflow:compile",
        entry="harness.compilers.oneflow.target:CompiledTarget",
        summary="torch.compile with fxdiff's backend oneflow: what OneFlow does in OneFlow, its autograd too, the rest in torch",
        family="oneflow",
        choices={"dynamic": "true or false: what torch.compile is told of sizes; by default it finds out by itself"},
    )
)
register(
    replace(
        _TORCH_COMPILE,
        name="jit:trace",
        entry="harness.backends.torch_compile.torchscript:TraceBackend",
        summary="TorchScript's tracer",
        family="torchscript",
        modes=("fwd",),
    )
)
register(
    TargetSpec(
        "torch-mlir:fixpoint",
        "harness.backends.torch_mlir.following:FixpointBackend",
        "torch-mlir's torch-level pipelines pass by pass until nothing changes, every snapshot run by an interpreter",
        zygote="torch-mlir",
        parent_zygote="torch",
        family="torch-mlir",
        users_route={"route": "export"},
        evidence_run={"until": "import"},
        follow_run={"pipeline": "all"},
        choices={
            "route": "raw, decomposed or export; by default raw and decomposed, each by itself",
            "pipeline": "fx, what torch_mlir.fx runs, or simplification, what torch-lower-to-backend-contract repeats; by default both",
        },
    )
)
