"""torch-mlir's forms: the short script of an issue, and a test in the manner of its end-to-end suite."""

from __future__ import annotations

import ast
import re

import numpy as np

from harness.backends.torch_mlir.lowerings import CONVERSIONS, EXECUTIONS, Lowering, lowering_of
from harness.corpus.entry import Entry
from harness.errors import Unsupported
from harness.exporting.names import camel, one_line
from harness.exporting.pieces import Pieces, pieces
from harness.exporting.sides import actual_output
from harness.model.dtypes import widen
from harness.model.program import TensorSpec
from harness.model.symbols import Sym, free_symbols
from harness.model.values import Tensor, leaves
from harness.model.verdict import Kind, Verdict
from harness.reproducers.check import DECLARED_KINDS, ERROR_KINDS, PROCESS_KINDS, VALUE_KINDS, compared, tolerance_of
from harness.reproducers.source import arguments_source, imports_source, module_source
from harness.reproducers.torch_mlir import INFERENCE, inlined

# Up to here fx.export_and_import comes; the rest of the way is in no public function of the wheel.
LOWERING_STAGES = ("import", "torch-pipeline", *CONVERSIONS)
# Names of the reference backend's results, and numpy's dtypes.
_ELEMENTS = {
    "float64": ("mrf64", "np.float64"),
    "float32": ("mrf32", "np.float32"),
    "float16": ("mrf16", "np.float16"),
    "int64": ("mri64", "np.int64"),
    "int32": ("mri32", "np.int32"),
    "int16": ("mri16", "np.int16"),
    "int8": ("mri8", "np.int8"),
    "uint8": ("mri8", "np.uint8"),
    "bool": ("mri1", "np.bool_"),
    "complex64": ("mrc32", "np.complex64"),
    "complex128": ("mrc64", "np.complex128"),
}
# What the end-to-end suite's reports forgive, as torch.allclose says it.
SUITE_RTOL, SUITE_ATOL = 1e-3, 1e-7
_FX = "from torch_mlir import fx"
SUITE = "projects/pt1/python/torch_mlir_e2e_test/test_suite"

_RUNTIME = '''\
# From here on as torch-mlir's RefBackendLinalgOnTensorsBackend does, which the wheel does not hold.
PIPELINE = """{pipeline}"""
passmanager.PassManager.parse(PIPELINE, module.context).run(module.operation)
{naming}
actual, reference = [], ctypes.POINTER(runtime.UnrankedMemRefDescriptor)
consume = ctypes.CFUNCTYPE(None, *[reference] * len(dtypes))(
    lambda *results: actual.extend(np.array(runtime.unranked_memref_to_numpy(*each)) for each in zip(results, dtypes))
)
engine = ExecutionEngine(module, opt_level=0)
engine.register_runtime(name, consume)
arrays = [tensor.detach().contiguous().numpy() for tensor in {inputs}]
engine.invoke("main", *[ctypes.pointer(ctypes.pointer(runtime.get_unranked_memref_descriptor(array))) for array in arrays])
'''
_TO_LINALG = '''\
# As torch-mlir's end-to-end suite does, to execute {title}.
TO_LINALG = """builtin.module(
  {pipeline})"""
passmanager.PassManager.parse(TO_LINALG, module.context).run(module.operation)
'''
_PREFIX = "refbackend_consume_func_return_"
# Where the bug is the result's dtype, mending it changes the name.
_LOOK_UP = """\
names = [op.attributes["sym_name"].value for op in module.body if "sym_name" in op.attributes]
(name,) = [name for name in names if name.startswith("refbackend_consume_func_return_")]
dtypes = [{{{elements}}}[kind] for kind in name.split("_")[4:]]"""

_SILENT = """\
context = ir.Context()
torch_d.register_dialect(context)
context.emit_error_diagnostics = True
errors = []
context.attach_diagnostic_handler(
    lambda diagnostic: errors.append(diagnostic.message) is None if diagnostic.severity == ir.DiagnosticSeverity.ERROR else True
)
{lowering}
assert not errors, f"lowering succeeds although a pass reports: {{errors}}"
"""


def short_script(entry: Entry) -> str:
    """A script that meets the bug on the users' route and ends in failure while it is there.

    Raises Unsupported where only the whole repro.py can show it.
    """
    verdict, parts = entry.verdict, _pieces(entry)
    if verdict is None:
        raise Unsupported("no disagreement was recorded")
    if entry.target.startswith(INFERENCE):
        raise Unsupported("it takes a helper to erase types")
    module, given = _given(parts)
    lowering, stage = lowering_of(entry.target), entry.observed.stage or verdict.stage
    if verdict.kind in DECLARED_KINDS:
        return _script([module, given, *_declared(parts)], ["import re"], [_FX])
    if verdict.kind is Kind.SILENT_ERROR:
        wheel = ["from torch_mlir import fx, ir", "from torch_mlir.dialects import torch as torch_d"]
        wheel.append("from torch_mlir.extras.fx_importer import FxImporter")
        called = _lowering(parts, lowering.output_type, ", fx_importer=FxImporter(context=context)")
        return _script([module, given, _SILENT.format(lowering=called)], [], wheel)
    called = _lowering(parts, lowering.output_type)
    failing = verdict.kind in (*ERROR_KINDS, *PROCESS_KINDS)
    if failing and stage in LOWERING_STAGES:
        return _script([module, f"{given}\n{called}"], [], [_FX])
    further = [_to_linalg(lowering)] if lowering.execution is not None else []
    if failing and stage in EXECUTIONS:
        return _script([module, f"{given}\nmodule = {called}", *further], [], ["from torch_mlir import fx, passmanager"])
    inputs = "later_inputs" if "later_inputs" in parts.parts else "inputs"
    blocks = [module, f"{given}\nmodule = {called}", *further, _runtime(entry, verdict, inputs)]
    wheel = ["from torch_mlir import fx, passmanager, runtime", "from torch_mlir.execution_engine import ExecutionEngine"]
    return _script(blocks if failing else [*blocks, _comparison(entry, verdict, inputs)], ["import ctypes"], wheel)


def core_script(entry: Entry) -> str:
    """What a user would write: the module, its inputs, and fx.export_and_import. Raises Unsupported."""
    parts = _pieces(entry)
    module, given = _given(parts)
    return _script([module, f"{given}\nmodule = {_lowering(parts, lowering_of(entry.target).output_type)}"], [], [_FX])


def _to_linalg(lowering: Lowering) -> str:
    """The statements that bring a module down to what the reference backend executes."""
    assert lowering.execution is not None
    return _TO_LINALG.format(title=lowering.title, pipeline=lowering.execution.passes.replace(",", ", "))


def _pieces(entry: Entry) -> Pieces:
    if entry.repro is None:
        raise Unsupported("there is no reproducer to shorten")
    return pieces(entry.repro)


def _given(parts: Pieces) -> tuple[str, str]:
    """The module's class, and the statements that make its inputs."""
    parts.source("lower")
    names = list(parts.parts)
    return parts.source("M"), "\n".join(parts.parts[each] for each in names[: names.index("lower")] if each not in ("M", "expected"))


def _lowering(parts: Pieces, output_type: str, more: str = "") -> str:
    """The call that repro.py's lower() makes, spelled out."""
    _, text = parts.body("lower")
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call):
        raise Unsupported("repro.py's lower() does not end in a call: it was changed by hand")
    call.keywords = [
        ast.keyword("output_type", ast.Constant(output_type)),
        *(each for each in call.keywords if each.arg not in (None, "output_type")),
    ]
    return ast.unparse(call).replace("'", '"')[:-1] + more + ")"


def _script(blocks: list[str], standard: list[str], wheel: list[str]) -> str:
    """A script of these blocks, a blank line between each two; `standard` and `wheel` are imports that no block shows."""
    head, *rest = (block.strip("\n") for block in blocks)
    body = head + "\n\n\n" + "\n\n".join(rest)
    found = [line for line in imports_source(body).split("\n") if line]
    plain = [line for line in found if not line.startswith("import torch")] + standard
    third = [line for line in found if line.startswith("import torch")]
    third = (["import numpy as np"] if re.search(r"\bnp\.", body) else []) + third + wheel
    return "\n".join([*plain, *([""] if plain else []), *third]) + f"\n\n\n{body}\n"


def _declared(parts: Pieces) -> list[str]:
    check = f"""\
module = {_lowering(parts, "torch")}
(main,) = (op for op in module.body if op.attributes["sym_name"].value == "main")
declared = [str(kind) for kind in main.attributes["function_type"].value.results if "vtensor" in str(kind)]
actual = [result for result in torch.utils._pytree.tree_leaves(M()(*inputs)) if isinstance(result, torch.Tensor)]
print("declared:", declared)
print("eager:   ", [(tensor.dtype, list(tensor.shape)) for tensor in actual])
assert all(map(agrees, declared, actual))"""
    return [parts.source("DTYPES"), parts.source("agrees"), check]


def _runtime(entry: Entry, verdict: Verdict, inputs: str) -> str:
    dtypes = _result_dtypes(entry)
    if "bfloat16" in dtypes or any(isinstance(each, Tensor) and each.dtype == "bfloat16" for each in entry.case.arguments(0).values()):
        raise Unsupported("the reference backend takes no bfloat16 at its boundary, and the way round it is long")
    if verdict.kind in (Kind.DTYPE, Kind.STRUCTURE):
        elements = dict(_ELEMENTS[dtype] for dtype in sorted(set(dtypes)))
        naming = _LOOK_UP.format(elements=", ".join(f'"{kind}": {dtype}' for kind, dtype in elements.items()))
    else:
        call = verdict.call or 0
        results = [leaf.dtype for _, leaf in leaves(entry.reference.calls[call].output) if isinstance(leaf, Tensor)]
        kinds = [_ELEMENTS[dtype] for dtype in results]
        naming = f'name, dtypes = "{_PREFIX}{"_".join(kind for kind, _ in kinds)}", [{", ".join(dtype for _, dtype in kinds)}]'
    return _RUNTIME.format(pipeline=pipeline(), naming=naming, inputs=inputs)


def pipeline(width: int = 150) -> str:
    """The reference backend's passes from linalg to LLVM, in as few lines as `width` allows."""
    match = re.search(r'LINALG_TO_LLVM = """(.*?)"""', inlined("torch_mlir_runtime.py"), re.DOTALL)
    if match is None:
        raise Unsupported("the pipeline to LLVM is not where it was")
    words = " ".join(match[1].split()).replace("( ", "(").split(", ")
    lines, last = [], ""
    for word in words:
        if last and len(last) + len(word) + 2 > width:
            lines.append(last + ",")
            last = word
        else:
            last = f"{last}, {word}" if last else word
    return "\n  ".join([*lines, last])


def _result_dtypes(entry: Entry) -> set[str]:
    given = [leaf for result in entry.reference.calls for _, leaf in leaves(result.output)]
    given += [leaf for _, leaf in leaves(actual_output(entry))]
    return {leaf.dtype for leaf in given if isinstance(leaf, Tensor)}


def _comparison(entry: Entry, verdict: Verdict, inputs: str) -> str:
    call = verdict.call or 0
    output = entry.reference.calls[call].output
    picked = compared(verdict, output)
    tensors = [leaf for _, leaf in leaves(output) if isinstance(leaf, Tensor)]
    tolerance = tolerance_of(verdict)
    training = ".eval()" if module_source(entry.case).training is False else ""
    if len(tensors) == 1 and isinstance(output, Tensor):
        lines = [f"actual, expected = torch.from_numpy(actual[0]), M(){training}(*{inputs})"]
    else:
        index = picked[0]
        lines = [
            f"expected = [each for each in torch.utils._pytree.tree_leaves(M(){training}(*{inputs})) if isinstance(each, torch.Tensor)]",
            f"actual, expected = torch.from_numpy(actual[{index}]), expected[{index}]",
        ]
    lines.append('print(f"{expected=}\\n{actual=}")')
    if tolerance.signs:
        lines.append("assert torch.equal(expected.signbit(), actual.signbit())")
    else:
        lines.append(f"torch.testing.assert_close(actual, expected, rtol={tolerance.rtol!r}, atol={tolerance.atol!r}, equal_nan=True)")
    return "\n".join(lines)


def e2e_test(entry: Entry) -> str:
    """A test in the manner of torch-mlir's own suite; raises Unsupported where that suite could not see the bug."""
    verdict = entry.verdict
    if verdict is None:
        raise Unsupported("no disagreement was recorded")
    if entry.target.startswith(INFERENCE):
        raise Unsupported("torch-mlir's end-to-end suite erases no types")
    _suite_can_see(entry, verdict)
    name = f"{camel(entry.signature.operator)}{camel(verdict.kind.value)}{entry.id.capitalize()}Module"
    module = module_source(entry.case, class_name=name)
    values = entry.case.arguments(0)
    annotations = ["None,"]
    for placeholder in module.arguments:
        spec, value = entry.case.program.node(placeholder).spec, values[placeholder]
        if not isinstance(spec, TensorSpec) or not isinstance(value, Tensor):
            raise Unsupported("the suite's annotations know tensors only, and this module takes an int")
        annotations.append(f"({list(value.shape)}, torch.{value.dtype}, True),")
    text = module.text
    if "def __init__" not in text:
        text = text.replace(":\n", ":\n    def __init__(self):\n        super().__init__()\n\n", 1)
    decorated = "\n".join(
        ["    @export", "    @annotate_args([", *(f"        {each}" for each in annotations), "    ])", "    def forward("]
    )
    text = text.replace("    def forward(", decorated, 1)
    statements = [f"    {line}" for line in arguments_source(entry.case, module)]
    mode = ".eval()" if module.training is False else ""
    arguments = ", ".join(module.arguments.values())
    body = "\n".join(
        [
            f"@register_test_case(module_factory=lambda: {name}(){mode})",
            f"def {name}_basic(module, tu: TestUtils):",
            *statements,
            f"    module.forward({arguments})",
        ]
    )
    suite = ["from torch_mlir_e2e_test.framework import TestUtils", "from torch_mlir_e2e_test.registry import register_test_case"]
    suite.append("from torch_mlir_e2e_test.annotations import annotate_args, export")
    suffix = "" if lowering_of(entry.target).execution is None else f"_{lowering_of(entry.target).name}"
    standing = f"FX_IMPORTER{suffix.upper()}_{'CRASHING' if verdict.kind in PROCESS_KINDS else 'XFAIL'}_SET"
    about = [
        f"# {one_line(verdict.message)}",
        f"# Belongs into a file of {SUITE};",
        f"# until the bug is fixed its name stands in {standing} of projects/pt1/e2e_testing/xfail_sets.py. Run it by",
        f"#   projects/pt1/tools/e2e_test.sh --sequential --verbose --config fx_importer{suffix} --filter {name}_basic",
    ]
    imports = imports_source(f"{text}\n{body}").strip("\n")
    return "\n".join([*about, "", imports, "", *suite, "", "", text.rstrip("\n"), "", "", body, ""])


def _suite_can_see(entry: Entry, verdict: Verdict) -> None:
    if verdict.kind in (*DECLARED_KINDS, Kind.SILENT_ERROR, Kind.MUTATION, Kind.STRUCTURE):
        raise Unsupported(f"torch-mlir's end-to-end suite compares results only, and this bug is of kind {verdict.kind.value}")
    if entry.victim is not None:
        raise Unsupported("it takes a later case in the same process to show it")
    if entry.route == "raw":
        raise Unsupported("torch-mlir's end-to-end suite goes the users' route, on which this bug does not show")
    if any(isinstance(dim, Sym) and free_symbols(dim) for spec in _specs(entry) for dim in spec.shape) or verdict.call:
        raise Unsupported("torch-mlir's end-to-end suite exports with fixed sizes, and this bug needs dynamic ones")
    if "bfloat16" in _result_dtypes(entry) or any(spec.dtype == "bfloat16" for spec in _specs(entry)):
        raise Unsupported("torch-mlir's end-to-end suite goes through numpy, which has no bfloat16")
    if verdict.kind not in VALUE_KINDS:
        return
    if verdict.detail.get("special") == "signed-zero":
        raise Unsupported("torch-mlir's end-to-end suite takes -0.0 for 0.0")
    expected = [leaf for _, leaf in leaves(entry.reference.calls[0].output) if isinstance(leaf, Tensor)]
    actual = [leaf for _, leaf in leaves(actual_output(entry)) if isinstance(leaf, Tensor)]
    if len(expected) == len(actual) and all(map(_forgiven, expected, actual)):
        raise Unsupported(f"torch-mlir's end-to-end suite forgives this difference: its tolerance is rtol {SUITE_RTOL}, atol {SUITE_ATOL}")


def _specs(entry: Entry) -> list[TensorSpec]:
    return [node.spec for node in entry.case.program.placeholders if isinstance(node.spec, TensorSpec)]


def _forgiven(expected: Tensor, actual: Tensor) -> bool:
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return False
    one, two = widen(expected.array(), expected.dtype), widen(actual.array(), actual.dtype)
    return bool(np.allclose(two, one, rtol=SUITE_RTOL, atol=SUITE_ATOL, equal_nan=True))
