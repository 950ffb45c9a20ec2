"""Reproducers for torch-mlir: repro.py on the users' route, and repro.mlir for what torch-mlir-opt alone can show."""

from __future__ import annotations

import dataclasses
import importlib.resources

from harness.backends.protocol import target
from harness.backends.torch_mlir.lowerings import LOWERINGS, Lowering, lowering_of
from harness.errors import HarnessError, Unsupported
from harness.model.case import Case
from harness.model.outcome import Outcome
from harness.model.program import Node, TensorSpec
from harness.model.symbols import Sym, free_symbols
from harness.model.values import Ref, Tensor, Value, leaves
from harness.model.verdict import Kind, Verdict
from harness.reproducers.check import DECLARED_KINDS, ERROR_KINDS, PROCESS_KINDS, Tolerance, compared, docstring, tolerance_of
from harness.reproducers.entry_point import entry_point
from harness.reproducers.literals import tensor_source
from harness.reproducers.source import ModuleSource, arguments_source, imports_source, module_source

_MARK = "# --- inlined from here ---\n"
INFERENCE = "torch-mlir:inference"
UNKNOWN_SIZES = "for unknown sizes"  # ends the source of a claim that was made so
# What torch-mlir-opt holds; the way from linalg to LLVM is in the Python bindings only.
OPT_STAGES = ("inference", "torch-pipeline", *(step.stage for each in LOWERINGS.values() for step in each.steps if step.in_opt))
# Where the pipeline may fail before there is anything to execute.
LOWERING_STAGES = ("torch-pipeline", *(step.stage for each in LOWERINGS.values() for step in each.steps))

_TO_LINALG = '''
TO_LINALG = """builtin.module(
  {pipeline})"""


def to_linalg(module):
    """Lower {title} to linalg-on-tensors, as torch-mlir's end-to-end suite does to execute it."""
    with module.context:
        passmanager.PassManager.parse(TO_LINALG).run(module.operation)
    return module
'''

_COMPARE = '''
def check(actual, wanted):
    """Raise AssertionError where a result is not what eager PyTorch gives."""
    if wanted.dtype == torch.uint8 and actual.dtype == torch.int8:
        actual = actual.view(torch.uint8)  # linalg's integers have no sign{bits}
    torch.testing.assert_close(actual, wanted, rtol={rtol!r}, atol={atol!r}, equal_nan=True){signs}
'''
_BITS = """
    if wanted.dtype == torch.bfloat16 and actual.dtype == torch.int16:
        actual = actual.view(torch.bfloat16)"""
_SIGNS = """
    if wanted.is_floating_point():
        zeros = wanted == 0
        torch.testing.assert_close(actual.signbit()[zeros], wanted.signbit()[zeros], msg="the signs of zeros differ")"""

_RUN = """
def run():
    try:
        lower("raw")
    except Exception as error:
        print(f"cannot run: torch.export or torch-mlir's importer refuses this module: {{error}}")
        return 2
    try:
        results = {execute}
    except Exception as error:
        print(f"{failure}: {{error}}")
        return {failure_code}
    actual = [result for result in results if isinstance(result, torch.Tensor)]
    try:
        assert len(actual) == len(expected), f"{{len(actual)}} results instead of {{len(expected)}}"
        for index in {chosen}:
            check(actual[index], expected[index])
    except AssertionError as error:
        print(f"BUG: torch-mlir disagrees with eager PyTorch\\n{{error}}\\ngot {{actual}}\\nexpected {{expected}}")
        return 1
    print("fixed: torch-mlir agrees with eager PyTorch")
    return 0
"""

_LOWER_ONLY = """
def run():
    try:
        lower("raw")
    except Exception as error:
        print(f"cannot run: torch.export or torch-mlir's importer refuses this module: {{error}}")
        return 2
    try:
        {lowered}
    except Exception as error:
        print(f"{failure}: {{error}}")
        return {failure_code}
    print("fixed: torch-mlir lowers it to {reached}")
    return 0
"""

_DECLARED = '''
DTYPES = {{
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "si64": torch.int64,
    "si32": torch.int32, "si16": torch.int16, "si8": torch.int8, "ui8": torch.uint8, "i1": torch.bool,
}}  # fmt: skip


def agrees(declared, tensor):
    """Whether a type such as !torch.vtensor<[2,?],f32> describes a tensor."""
    match = re.fullmatch(r"!torch\\.vtensor<\\[([\\d,?]*)\\],(\\w+)>", declared)
    if match is None:
        return True
    dims = match[1].split(",") if match[1] else []
    shape = len(dims) == tensor.dim() and all(dim in ("?", str(size)) for dim, size in zip(dims, tensor.shape))
    return shape and DTYPES.get(match[2], tensor.dtype) == tensor.dtype


def run():
    try:
        module = {declaring}
    except Exception as error:
        print(f"cannot run: {{error}}")
        return 2
    (main,) = (op for op in module.body if op.attributes["sym_name"].value == "main")
    declared = [str(kind) for kind in main.attributes["function_type"].value.results if "vtensor" in str(kind)]
    actual = [f"{{tensor.dtype}} {{list(tensor.shape)}}" for tensor in expected]
    if not all(map(agrees, declared, expected)):
        print(f"BUG: torch-mlir declares {{declared}} where eager PyTorch gives {{actual}}")
        return 1
    print(f"fixed: {{declared}} describes {{actual}}")
    return 0
'''

_INFERENCE = """
def run():
    try:
        lower("raw")
    except Exception as error:
        print(f"cannot run: torch.export or torch-mlir's importer refuses this module: {{error}}")
        return 2
    try:
        infer(lower("raw"))
        infer(lower("raw"), unknown_sizes=True)
    except Exception as error:
        print(f"{failure}: {{error}}")
        return {failure_code}
    print("fixed: torch-mlir infers its types")
    return 0
"""

_SILENT = """
def run():
    context = ir.Context()
    torch_d.register_dialect(context)
    context.emit_error_diagnostics = True
    errors = []

    def handler(diagnostic):
        if diagnostic.severity == ir.DiagnosticSeverity.ERROR:
            errors.append(diagnostic.message)
        return True

    context.attach_diagnostic_handler(handler)
    try:
        lower("{output_type}", fx_importer=FxImporter(context=context))
    except Exception as error:
        print(f"cannot run: the failure is not silent: {{error}}")
        return 2
    if errors:
        print(f"BUG: a pass emits an error and yet succeeds: {{errors}}")
        return 1
    print("fixed: no errors are emitted")
    return 0
"""


def repro_source(
    case: Case,
    verdict: Verdict,
    reference: Outcome,
    *,
    tolerance: Tolerance | None = None,
    flat: bool = False,
    timeout: float = 30.0,
    note: str = "",
) -> str:
    """repro.py: exits 1 while the bug exists, 0 once it is fixed, 2 if it cannot run.

    `tolerance` is by default the one in the verdict. `flat` passes parameters and buffers as arguments, for bugs that
    constant folding hides; `timeout` is in seconds. Raises Unsupported for what the users' route has no place for.
    """
    if verdict.kind is Kind.MUTATION:
        raise Unsupported("export_and_import does not take a module that writes to its inputs")
    call, kind, lowering = verdict.call or 0, verdict.kind, lowering_of(verdict.target)
    case = _tensors_only(case, reference.calls[call].output if len(reference.calls) > call else None)
    module = module_source(case, flat=flat)
    wanted = _wanted(reference, call)
    halves = any(tensor.dtype == "bfloat16" for tensor in [*wanted, *_tensors(case, call)])
    # Where lowering itself fails there is nothing to execute, and the script stays as short as an issue wants it.
    lowers = kind in (*ERROR_KINDS, *PROCESS_KINDS) and verdict.stage in LOWERING_STAGES
    executes = lowering.execution is not None and ((kind not in (*DECLARED_KINDS, Kind.SILENT_ERROR) and not lowers) or _is_beyond(verdict))
    infers = verdict.target.startswith(INFERENCE)
    lowers = lowers or (infers and kind not in DECLARED_KINDS)
    given = _inputs(case, module, 0, "inputs")
    parts = [module.text, "\n".join(given if lowers else [*given, f"expected = [{_expected(wanted)}]"])]
    if call > 0 and not lowers:
        comment = "# The module is exported with the inputs above and run with these."
        parts.append("\n".join([comment, *_inputs(case, module, call, "later_inputs")]))
    parts.append(_lower(case, module, _legal_ops(verdict.target)))
    if infers:
        parts.append(inlined("torch_mlir_inference.py"))
    elif executes:
        parts.append(_to_linalg(lowering))
    if kind in DECLARED_KINDS:
        unknown = ", unknown_sizes=True" if verdict.stage.endswith(UNKNOWN_SIZES) else ""
        parts.append(_DECLARED.format(declaring=f'infer(lower("raw"){unknown})' if infers else 'lower("torch")'))
    elif infers:
        failure, code = _failure(kind)
        parts.append(_INFERENCE.format(failure=failure, failure_code=code))
    elif kind is Kind.SILENT_ERROR:
        parts.append(_SILENT.format(output_type=lowering.output_type))
    elif lowers:
        failure, code = _failure(kind)
        lowered = f'lower("{lowering.output_type}")'
        lowered = f"to_linalg({lowered})" if executes else lowered
        reached = "linalg-on-tensors" if executes else lowering.title
        parts.append(_LOWER_ONLY.format(failure=failure, failure_code=code, lowered=lowered, reached=reached))
    else:
        parts += [inlined("torch_mlir_bfloat16.py")] if halves else []
        parts += [inlined("torch_mlir_runtime.py"), _check(verdict, reference, call, tolerance or tolerance_of(verdict), halves)]
    parts.append(entry_point(kind, timeout=timeout))
    body = "\n\n\n".join(part.strip("\n") for part in parts)
    return f"{docstring(verdict, note)}\n\n{_imports(kind, body, halves, lowers, executes, infers)}\n\n{body}\n"


def _is_beyond(verdict: Verdict) -> bool:
    """Whether it failed on the way from what torch-mlir made to what is executed."""
    execution = lowering_of(verdict.target).execution
    return execution is not None and verdict.stage == execution.stage


def _to_linalg(lowering: Lowering) -> str:
    assert lowering.execution is not None
    pipeline = lowering.execution.passes.replace(",", ", ")
    return _TO_LINALG.format(pipeline=pipeline, title=lowering.title)


def _legal_ops(name: str) -> str:
    """The option of export_and_import for the operators to leave whole; raises Unsupported for what it has no option for."""
    options = dict(target(name).options)
    legal = [each for each in options.pop("legal-ops", "").split(",") if each]
    for followed in ("route", "pipeline"):  # which story torch-mlir:fixpoint tells, no matter to the users' route
        options.pop(followed, None)
    if options:
        raise Unsupported(f"{' and '.join(options)} is no option of export_and_import")
    return f", backend_legal_ops={legal!r}".replace("'", '"') if legal else ""


def _tensors_only(case: Case, output: Value) -> Case:
    """The case returning its tensors alone: a None or an int among a function's results is not what is at issue."""
    program = case.program
    if all(isinstance(leaf, Ref) for _, leaf in leaves(program.output)):
        return case
    given = [leaf for _, leaf in leaves(program.output)]
    known = [leaf for _, leaf in leaves(output)] if output is not None else given
    same = len(known) == len(given)
    kept = tuple(
        ref for i, ref in enumerate(given) if isinstance(ref, Ref) and (output is None or not same or isinstance(known[i], Tensor))
    )
    last = Node(program.nodes[-1].name, "output", "output", (kept,))
    return dataclasses.replace(case, program=dataclasses.replace(program, nodes=(*program.nodes[:-1], last)))


def _wanted(reference: Outcome, call: int) -> list[Tensor]:
    if len(reference.calls) <= call:
        return []
    return [leaf for _, leaf in leaves(reference.calls[call].output) if isinstance(leaf, Tensor)]


def _tensors(case: Case, call: int) -> list[Tensor]:
    return [value for value in case.arguments(call).values() if isinstance(value, Tensor)]


def _inputs(case: Case, module: ModuleSource, call: int, name: str) -> list[str]:
    names = list(module.arguments.values())
    return [*arguments_source(case, module, call=call), f"{name} = ({names[0]},)" if len(names) == 1 else f"{name} = ({', '.join(names)})"]


def _expected(tensors: list[Tensor]) -> str:
    texts = [tensor_source(tensor, indent="    ") for tensor in tensors]
    if sum(map(len, texts)) < 90 and not any("\n" in text for text in texts):
        return ", ".join(texts)
    return "\n" + "".join(f"    {text},\n" for text in texts)


def _lower(case: Case, module: ModuleSource, more: str = "") -> str:
    mode = ".eval()" if module.training is False else ""
    dynamic = _dynamic_shapes(case, module)
    shapes = f", dynamic_shapes={dynamic}" if dynamic else ""
    return (
        "def lower(output_type, **options):\n"
        f"    return fx.export_and_import({module.class_name}(){mode}, *inputs, output_type=output_type{shapes}{more}, **options)\n"
    )


def _dynamic_shapes(case: Case, module: ModuleSource) -> str:
    """torch.export's dynamic_shapes: every symbolic dim is left to it, so that related dims need no spelling."""
    parts = []
    found = False
    for name in module.arguments:
        spec = case.program.node(name).spec
        if not isinstance(spec, TensorSpec):
            parts.append("None")
            continue
        axes = [axis for axis, dim in enumerate(spec.shape) if isinstance(dim, Sym) and free_symbols(dim)]
        found = found or bool(axes)
        parts.append("{" + ", ".join(f"{axis}: torch.export.Dim.AUTO" for axis in axes) + "}" if axes else "None")
    if not found:
        return ""
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _failure(kind: Kind) -> tuple[str, int]:
    """What an exception from torch-mlir means, and the exit code that says so."""
    if kind in ERROR_KINDS:
        return "BUG: torch-mlir fails", 1
    if kind in PROCESS_KINDS:
        return "fixed: torch-mlir refuses it", 0
    return "cannot run: torch-mlir now refuses it", 2


def _check(verdict: Verdict, reference: Outcome, call: int, tolerance: Tolerance, halves: bool) -> str:
    failure, code = _failure(verdict.kind)
    lowering = lowering_of(verdict.target)
    lowered = f'lower("{lowering.output_type}")'
    lowered = f"to_linalg({lowered})" if lowering.execution is not None else lowered
    lowered = f"pass_bfloat16_as_bits({lowered})" if halves else lowered
    execute = f"execute({lowered}, *{'later_inputs' if call else 'inputs'})"
    picked = compared(verdict, reference.calls[call].output) if len(reference.calls) > call else []
    chosen = "range(len(expected))" if len(picked) == len(_wanted(reference, call)) else repr(picked)
    signs, bits = _SIGNS if tolerance.signs else "", _BITS if halves else ""
    compare = _COMPARE.format(rtol=tolerance.rtol, atol=tolerance.atol, signs=signs, bits=bits)
    return compare + "\n" + _RUN.format(execute=execute, failure=failure, failure_code=code, chosen=chosen)


def inlined(name: str) -> str:
    """The definitions of a file here that reproducers inline, without its imports."""
    text = importlib.resources.files("harness.reproducers").joinpath(name).read_text(encoding="utf-8")
    _, mark, body = text.partition(_MARK)
    if not mark:
        raise HarnessError(f"{name} has lost its mark")
    lines = body.strip().split("\n")
    first = next(number for number, line in enumerate(lines) if line and not line.startswith(("import ", "from ")))
    return "\n".join(lines[first:]) + "\n"


def _imports(kind: Kind, body: str, halves: bool, lowers: bool, executes: bool, infers: bool) -> str:
    standard = {"sys"}
    if kind in PROCESS_KINDS:
        standard |= {"signal", "subprocess"}
    numpy: list[str] = []
    wheel = ["from torch_mlir import fx"]
    if infers:
        standard.add("re")
        wheel = ["from torch_mlir import fx, ir, passmanager"]
    elif kind in DECLARED_KINDS:
        standard.add("re")
    elif kind is Kind.SILENT_ERROR:
        wheel = [
            "from torch_mlir import fx, ir",
            "from torch_mlir.dialects import torch as torch_d",
            "from torch_mlir.extras.fx_importer import FxImporter",
        ]
    elif lowers and executes:
        wheel = ["from torch_mlir import fx, passmanager"]
    elif not lowers:
        standard |= {"ctypes", "re"} if halves else {"ctypes"}
        modules = "fx, ir, passmanager, runtime" if halves else "fx, passmanager, runtime"
        numpy = ["import numpy as np"]
        wheel = [f"from torch_mlir import {modules}", "from torch_mlir.execution_engine import ExecutionEngine"]
    head, _, torch_lines = imports_source(body).rpartition("import torch\n")
    head = "\n".join(line for line in head.strip("\n").split("\n") if line)
    guarded = [*numpy, "import torch", *(line for line in torch_lines.split("\n") if line), *wheel]
    lines = [f"import {name}" for name in sorted(standard)] + ([head] if head else [])
    lines += ["", "try:", *(f"    {line}" for line in guarded), "except ImportError as error:"]
    lines += ['    print(f"cannot run: {error}")', "    sys.exit(2)"]
    return "\n".join(lines) + "\n"


def mlir_source(outcome: Outcome) -> str | None:
    """repro.mlir: the IR before the guilty pipeline under lit's RUN line, where torch-mlir-opt can run that pipeline."""
    ir, pipeline = outcome.artifacts.get("input.mlir"), outcome.artifacts.get("pipeline")
    if not ir or not pipeline or outcome.stage not in OPT_STAGES:
        return None
    if "'" in pipeline or "\n" in pipeline:
        raise HarnessError(f"a pipeline that does not fit a RUN line: {pipeline!r}")
    return f"// RUN: torch-mlir-opt -pass-pipeline='{pipeline}' %s\n{ir.rstrip()}\n"
