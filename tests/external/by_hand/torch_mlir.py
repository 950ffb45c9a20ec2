"""fxdiff's findings in torch-mlir, each written again by hand: eager PyTorch against `fx.export_and_import`, without fxdiff.

    python tests/external/by_hand/torch_mlir.py [ID...]

Prints a line per finding, `confirmed` or `not shown`; exits 0 when all that were asked for show. Results are computed by passes and
the engine of the torch-mlir wheel. Each finding has a process of its own: many end theirs.
"""

from __future__ import annotations

import ctypes
import math
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

CPU_SECONDS = 30  # of one finding; the slowest that answers at all takes eight
DEADLINE = 600.0  # seconds, on a busy machine
VALUES = "other values"


@dataclass(frozen=True)
class Finding:
    """A program, `make(torch)` giving the callable and its inputs, and what torch-mlir does with it.

    `shows` is the signal that ends the process, SIGXCPU where it never ends, VALUES, or a part of the error's text. Each axis
    in `dynamic` is exported as a symbolic size of the first input. `through` is what `fx.export_and_import` is asked for.
    """

    id: str
    title: str
    make: Callable[[Any], tuple[Any, ...]]
    shows: str
    dynamic: tuple[int, ...] = ()
    through: str = "linalg-on-tensors"


FINDINGS = (
    Finding("101d9227", "pad by 1 and -1", lambda t: (lambda x: t.nn.functional.pad(x, [1, -1]), t.tensor([[1.0, 2.0]])), VALUES),
    Finding("fcdb9e3e", "ConstantPad2d by 1 and -1", lambda t: (t.nn.ConstantPad2d([0, 0, 1, -1], 0), t.tensor([[1.0]])), VALUES),
    Finding("e82a6254", "roll by more than the size", lambda t: (lambda x: x.roll(3, 0), t.tensor([0.0, 1.0])), VALUES),
    Finding(
        "f18c4e37",
        "scatter_add with a negative dim, rank 4",
        lambda t: (lambda x, i: x.scatter_add(-4, i, x), t.tensor([[[[0.0]]], [[[1.0]]]]), t.zeros(2, 1, 1, 1, dtype=t.int64)),
        VALUES,
    ),
    Finding(
        "2e461c6a",
        "scatter with a negative dim",
        lambda t: (lambda x, i, y: x.scatter(-3, i, y), t.tensor([[[0.0]], [[0.0]], [[1.0]]]), t.tensor([[[2]]]), t.tensor([[[0.0]]])),
        VALUES,
    ),
    Finding(
        "c0ae2c16",
        "a float constant compared with an integer: folded wrongly, which way depends on the run",
        lambda t: (lambda x: (t.full_like(x, 3) > 0) & (t.full_like(x, 3) < 5), t.tensor([0.0])),
        VALUES,
    ),
    Finding("7a002a98", "repeat by zeros", lambda t: (lambda x: x.repeat(2, 0, 0), t.zeros(7, 7, 1)), VALUES, dynamic=(0, 1)),
    Finding("ee2339c5", "variance of nothing", lambda t: (lambda x: t.var_mean(x), t.zeros(0)), VALUES),
    Finding(
        "ee2339c5", "variance with a correction past the size", lambda t: (lambda x: x.var(correction=3), t.tensor([1.0, 2.0])), VALUES
    ),
    Finding("f73aca83", "argmax over NaN", lambda t: (lambda x: x.argmax(), t.tensor([0.0, math.nan])), VALUES),
    Finding(
        "1233697a",
        "scatter_add with a negative dim",
        lambda t: (lambda x, i, y: x.scatter_add(-1, i, y), t.tensor([0.0]), t.tensor([0]), t.tensor([0.0])),
        "SIGSEGV",
    ),
    Finding(
        "763d5bb1",
        "scatter_add of int64 with a negative dim",
        lambda t: (lambda x, i, y: x.scatter_add(-1, i, y), t.tensor([0]), t.tensor([0]), t.tensor([0])),
        "SIGSEGV",
    ),
    Finding("b79a465b", "max of uint8", lambda t: (lambda x: x.max(), t.tensor([0], dtype=t.uint8)), "SIGSEGV"),
    Finding("e629b046", "min of uint8", lambda t: (lambda x: t.min(x), t.tensor([0], dtype=t.uint8)), "SIGSEGV"),
    Finding("2cd161dc", "floor division of uint8", lambda t: (lambda x: x // 1, t.tensor([0], dtype=t.uint8)), "SIGSEGV"),
    Finding("ea9c9ab8", "repeat by 0", lambda t: (lambda x: x.repeat(0), t.tensor([0.0])), "SIGFPE"),
    Finding("34f6e9b1", "reshape of nothing", lambda t: (lambda x: t.reshape(x, [0]), t.zeros(0, 0)), "SIGFPE"),
    Finding("aa8d3c68", "tile of nothing", lambda t: (lambda x: t.tile(x, [0]), t.zeros(0)), "SIGFPE"),
    Finding("de3dec97", "Flatten of nothing", lambda t: (t.nn.Flatten(0, 1), t.zeros(0, 0, 0)), "SIGFPE"),
    Finding("34059e94", "matmul over nothing", lambda t: (lambda x, y: t.matmul(x, y), t.zeros(1, 1, 0), t.zeros(0)), "SIGFPE"),
    Finding(
        "af7faa7b",
        "index_add of nothing",
        lambda t: (lambda x, i, y: x.index_add(0, i, y), t.zeros(1, 0), t.tensor([0]), t.zeros(1, 0)),
        "SIGFPE",
    ),
    Finding("42f141ef", "Softmin of a scalar", lambda t: (t.nn.Softmin(0), t.tensor(0.0)), "SIGXCPU"),
    Finding("3a77e4bf", "Softmax of a scalar", lambda t: (t.nn.Softmax(0), t.tensor(0.5)), "SIGXCPU"),
    Finding("2e5a7282", "a boolean mask of rank 2", lambda t: (lambda x, m: x[m], t.tensor([[0.0]]), t.tensor([[False]])), "SIGXCPU"),
    Finding(
        "36886f55",
        "full of uint8",
        lambda t: (lambda: t.full([0], 0, dtype=t.uint8),),
        "inferred type(s) '!torch.vtensor<[0],si8>' are incompatible",
    ),
    Finding("f77eb94f", "fmin with broadcasting", lambda t: (lambda x, y: t.fmin(x, y), t.zeros(2), t.zeros(1)), "are cast incompatible"),
    Finding("a43b4965", "fmax with broadcasting", lambda t: (lambda x, y: t.fmax(x, y), t.zeros(1), t.zeros(2)), "are cast incompatible"),
    Finding("43353716", "AvgPool1d, unbatched", lambda t: (t.nn.AvgPool1d(1), t.zeros(1, 1)), "'linalg.pooling_nchw_sum' op expected"),
    Finding("1ef4a388", "AvgPool2d, unbatched", lambda t: (t.nn.AvgPool2d(1), t.zeros(1, 1, 1)), "'linalg.pooling_nchw_sum' op expected"),
    Finding(
        "12c65ba5",
        "AdaptiveAvgPool1d, unbatched",
        lambda t: (t.nn.AdaptiveAvgPool1d(3), t.zeros(1, 3)),
        "'linalg.pooling_nchw_sum' op expected",
    ),
    Finding(
        "571cdfab",
        "ConvTranspose1d with groups, unbatched",
        lambda t: (t.nn.ConvTranspose1d(3, 3, 4, groups=3), t.zeros(3, 1)),
        "expected reassociation map #0 to have size equal to the expanded rank",
    ),
    Finding("c140d12a", "concatenation of nothing", lambda t: (lambda x: t.cat((x, x)), t.zeros(0, 2)), "requires at least one input"),
    Finding(
        "4d80ebfc",
        "roll without dims",
        lambda t: (lambda x: t.roll(x, 1), t.tensor([0.0, 1.0])),
        "list sizes of shifts and dims are not the same",
    ),
    Finding(
        "14a15bdd",
        "where whose condition is broadcast, of nothing",
        lambda t: (lambda c, x: t.where(c, x, x), t.zeros(0, dtype=t.bool), t.zeros(0, 1)),
        "doesn't match function result type",
    ),
    Finding(
        "a84fa83d",
        "where whose condition has more dims",
        lambda t: (lambda c, x: t.where(c, x, x), t.tensor([[False]]), t.tensor([0.0])),
        "doesn't match function result type",
    ),
    Finding(
        "49c66299",
        "remainder with a negative divisor, through StableHLO",
        lambda t: (lambda x, y: x % y, t.tensor([1.0, -1.0, 5.0]), t.tensor([-2.0, 2.0, -3.0])),
        VALUES,
        through="stablehlo",
    ),
    Finding(
        "3050ea07",
        "sum of booleans, through TOSA",
        lambda t: (lambda x, y: x + y, t.tensor([True, True, False]), t.tensor([True, False, False])),
        VALUES,
        through="tosa",
    ),
    Finding(
        "4abc9aa6",
        "an empty slice, through StableHLO",
        lambda t: (lambda x: x[0:0], t.tensor([0.0])),
        "are incompatible with return type(s) of operation 'tensor<0xf32>'",
        through="stablehlo",
    ),
    Finding(
        "7c6880e9",
        "Conv3d with padding and symbolic sizes, through TOSA",
        lambda t: (t.nn.Conv3d(1, 1, 1, padding=(1, 0, 0)), t.arange(9.0).reshape(3, 1, 3, 1, 1)),
        "operand and result must have the same size and dtype",
        dynamic=(0, 2),
        through="tosa",
    ),
)

# From what torch-mlir gives to linalg-on-tensors, as its end-to-end suite does.
TO_LINALG = {
    "tosa": """builtin.module(func.func(
  tosa-to-arith, tosa-to-scf, tosa-optional-decompositions, tosa-to-linalg-named, tosa-to-linalg, tosa-to-tensor, tosa-to-arith))""",
    "stablehlo": """builtin.module(
  func.func(stablehlo-aggressive-simplification), stablehlo-legalize-to-linalg, stablehlo-convert-to-signless, canonicalize)""",
}

# Through the C interface of main(result*, inputs*...), so that no callback into Python is needed.
LINALG_TO_LLVM = """builtin.module(
  func.func(linalg-generalize-named-ops, refback-generalize-tensor-pad, refback-generalize-tensor-concat, tm-tensor-bufferize),
  one-shot-bufferize{copy-before-write bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map},
  func.func(tm-tensor-to-loops, refback-munge-memref-copy, convert-linalg-to-loops, lower-affine, llvm-request-c-wrappers),
  convert-scf-to-cf,
  expand-strided-metadata, lower-affine, func.func(arith-expand, convert-math-to-llvm), convert-math-to-libm,
  finalize-memref-to-llvm, func.func(convert-arith-to-llvm), convert-func-to-llvm, convert-cf-to-llvm,
  reconcile-unrealized-casts)"""


def execute(module: Any, inputs: tuple[Any, ...]) -> list[Any]:
    """The tensors that `main` of a linalg-on-tensors module returns for `inputs`."""
    import numpy as np
    import torch
    from torch_mlir import ir, passmanager, runtime
    from torch_mlir.execution_engine import ExecutionEngine
    from torch_mlir.runtime import np_to_memref

    main = next(op for op in module.body if op.operation.name == "func.func" and op.name.value == "main")
    dtypes = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "i32": np.int32, "i8": np.int8, "i1": np.bool_}
    with module.context:
        types = [ir.RankedTensorType(result) for result in main.type.results]
        results = [(dtypes[str(one.element_type)], one.rank) for one in types]
        passmanager.PassManager.parse(LINALG_TO_LLVM).run(module.operation)

    def descriptor(dtype: Any, rank: int) -> Any:
        element = np.ctypeslib.as_ctypes_type(np.dtype(dtype))
        return np_to_memref.make_nd_memref_descriptor(rank, element) if rank else np_to_memref.make_zero_d_memref_descriptor(element)

    fields = [(f"result{i}", descriptor(dtype, rank)) for i, (dtype, rank) in enumerate(results)]
    struct = type("Results", (ctypes.Structure,), {"_fields_": fields})()
    arrays = [tensor.detach().contiguous().numpy() for tensor in inputs]
    arguments = [struct, *(runtime.get_ranked_memref_descriptor(array) for array in arrays)]
    engine = ExecutionEngine(module, opt_level=0)
    engine.invoke("main", *(ctypes.pointer(ctypes.pointer(argument)) for argument in arguments))
    found = []
    for (name, _), (dtype, rank) in zip(fields, results, strict=True):
        value = getattr(struct, name)
        shape = tuple(value.shape) if rank else ()
        if math.prod(shape) == 0:
            array = np.zeros(shape, dtype)
        elif rank:
            array = np.array(runtime.ranked_memref_to_numpy(ctypes.pointer(value)))
        else:
            array = np.array(value.aligned[value.offset], dtype)
        found.append(torch.from_numpy(array))
    return found


def show(finding: Finding) -> int:
    """Run one finding here: 1 where results differ or torch-mlir refuses, 0 where all is well; many findings end the process."""
    import torch
    from torch_mlir import fx, passmanager

    torch.manual_seed(0)
    function, *inputs = finding.make(torch)

    class Program(torch.nn.Module):
        def forward(self, *args: Any) -> Any:
            return function(*args)

    program = function if isinstance(function, torch.nn.Module) else Program()
    results = program(*inputs)
    eager = list(results) if isinstance(results, tuple) else [results]
    options: dict[str, Any] = {}
    if finding.dynamic:
        axes = dict.fromkeys(finding.dynamic, torch.export.Dim.AUTO)
        options["dynamic_shapes"] = (axes,) if function is program else ((axes,),)
    module = fx.export_and_import(program, *inputs, output_type=finding.through, **options)
    if finding.through in TO_LINALG:
        with module.context:
            passmanager.PassManager.parse(TO_LINALG[finding.through]).run(module.operation)
    lowered = execute(module, tuple(inputs))
    print(f"torch-mlir {lowered}, eager {eager}")
    try:
        torch.testing.assert_close(lowered, eager, rtol=0, atol=0, equal_nan=True)
    except AssertionError:
        return 1
    return 0


def observed(finding: Finding) -> tuple[bool, str]:
    """Whether a finding shows in a process of its own, and what was seen there."""
    command = [sys.executable, "-I", "-W", "ignore", __file__, "--here", finding.title]
    run = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
    if run.returncode < 0:
        name = signal.Signals(-run.returncode).name
        return finding.shows == name, name if name != "SIGXCPU" else f"no answer in {CPU_SECONDS} CPU-seconds"
    said = next((line for line in run.stderr.splitlines() if "error: " in line and finding.shows in line), "")
    if said:
        return True, said[said.find("error: ") :].strip()
    if run.stdout.startswith("torch-mlir ["):
        return finding.shows == VALUES and run.returncode == 1, " ".join(run.stdout.split())
    return False, (run.stderr.strip() or "nothing").splitlines()[-1]


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--here"]:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
        return show(next(finding for finding in FINDINGS if finding.title == arguments[1]))
    wanted = [finding for finding in FINDINGS if not arguments or finding.id in arguments]
    missing = set(arguments) - {finding.id for finding in wanted}
    if missing:
        print(f"no such finding: {', '.join(sorted(missing))}", file=sys.stderr)
        return 2
    shown = 0
    for finding in wanted:
        confirmed, seen = observed(finding)
        shown += confirmed
        print(f"{finding.id}  {'confirmed' if confirmed else 'NOT SHOWN'}  {finding.title}: {seen}", flush=True)
    return 0 if shown == len(wanted) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
