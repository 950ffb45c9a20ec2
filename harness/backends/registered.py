"""The targets that come with fxdiff: which class runs each, in which process, and what may be asked of it."""

from __future__ import annotations

from dataclasses import replace

from harness.backends.protocol import TargetSpec, register, register_family

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
