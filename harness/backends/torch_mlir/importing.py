"""A Case into the torch dialect, by our own tracing or by the users' route.

Routes: `raw` records aten calls as they come, `decomposed` applies torch-mlir's decomposition table while recording,
`export` is `torch_mlir.fx.export_and_import`. What goes wrong here before torch-mlir's passes see anything is ours or
PyTorch's: it is reported as Unsupported with a text that begins `import:`, never as a finding.
"""

from __future__ import annotations

from dataclasses import replace

from harness.backends.torch_mlir.casetrace import CaseTracing
from harness.backends.torch_mlir.export import import_by_export
from harness.backends.torch_mlir.imported import Imported
from harness.backends.torch_mlir.merge import merge
from harness.backends.torch_mlir.pipelines import Toolchain
from harness.backends.torch_mlir.tracing import Mutates, NeedsFake, Specialized, Untraceable
from harness.errors import Unsupported
from harness.model.case import Case
from harness.model.outcome import OWN_LIMIT
from harness.model.program import TensorSpec


def import_case(case: Case, tools: Toolchain, *, route: str, call: int, dynamic: bool) -> Imported:
    """Import `case`, with symbolic sizes if `dynamic`, else for the sizes of call `call`.

    Raises Specialized where `dynamic` cannot hold for every call, and Unsupported where no valid IR comes out.
    """
    if case.mode != "fwd":
        raise Unsupported(f"import: {OWN_LIMIT} run mode {case.mode!r} on torch-mlir")
    if route == "export":
        imported = import_by_export(case, tools, call=call, dynamic=dynamic)
    elif dynamic:
        imported = _merged(case, tools, route=route)
    else:
        imported = _trace(case, route=route, call=call).imported(tools)
    broken = tools.invalid(imported.module)
    if broken:
        raise Unsupported(f"import: the {route} route made IR that does not verify: {broken[0].message}")
    return imported


def _merged(case: Case, tools: Toolchain, *, route: str) -> Imported:
    """One module for all bindings of the case, made of one for each."""
    bindings = {tuple(sorted(call.binding.items())): index for index, call in reversed(list(enumerate(case.calls)))}
    if len(bindings) < 2:
        raise Specialized("there is only one binding")
    head, *tail = sorted(bindings.values())
    traced = _trace(case, route=route, call=head)
    others = [_trace(case, route=route, call=index, functional=traced.functional, fake=traced.fake) for index in tail]
    first, *rest = each = [one.imported(tools) for one in (traced, *others)]
    if any((one.arguments, one.mutated, one.route) != (first.arguments, first.mutated, first.route) for one in rest):
        raise Specialized("the bindings trace to different signatures")
    if any(one.output != first.output for one in rest):
        raise Specialized("the program returns sizes as numbers")
    module = tools.parse(merge([one.module.operation.get_asm(enable_debug_info=True, print_generic_op_form=True) for one in each]))
    return replace(first, module=module, dynamic=True)


def _trace(case: Case, *, route: str, call: int, functional: bool = False, fake: bool = False) -> CaseTracing:
    """Trace as plainly as the program allows: each attempt costs more than the one before it."""
    while True:
        tracing = CaseTracing(case, route=route, call=call, functional=functional, fake=fake)
        try:
            return tracing.run()
        except Mutates as error:
            if functional:
                raise Unsupported(f"import: {error}") from error
            _refuse_shared_writes(case)
            functional = True
        except NeedsFake as error:
            if fake:
                raise Unsupported(f"import: {error}") from error
            fake = True
        except Untraceable as error:
            raise Unsupported(f"import: {error}") from error


def _refuse_shared_writes(case: Case) -> None:
    """Functionalization takes every input for memory of its own, so shared memory that is written to is beyond it."""
    storages = [n.spec.storage for n in case.program.placeholders if isinstance(n.spec, TensorSpec) and n.spec.storage is not None]
    if len(set(storages)) < len(storages):
        raise Unsupported(f"import: {OWN_LIMIT} hand torch-mlir a program that writes to tensors while its inputs share storage")
