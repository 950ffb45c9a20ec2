"""`torch-mlir:inference`: torch-mlir's own shape and dtype functions, asked for what PyTorch's fake tensors had said.

The importer writes down the types that PyTorch worked out. Here they are erased, and `torch-lower-to-backend-contract` must
find them again: once with the arguments' sizes known, once with every one of them unknown. Re-parsing its library costs
the pass 110 ms each time and a function 5, so many functions share one module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torch_mlir import ir

from harness.backends.protocol import Progress
from harness.backends.torch_mlir.backend import ROUTES, attempts, declarations, toolchain, versions, warm_imports
from harness.backends.torch_mlir.declared import Claim, result_claims
from harness.backends.torch_mlir.imported import Imported
from harness.backends.torch_mlir.importing import import_case
from harness.backends.torch_mlir.pipelines import StageFailure, module_pipeline
from harness.backends.torch_mlir.refusals import INFERENCE, Failure, classify
from harness.backends.torch_mlir.tracing import Specialized
from harness.backends.torch_mlir.warmup import SILENT, executed
from harness.errors import TargetUnavailable, Unsupported, UsageError
from harness.model.case import Case
from harness.model.outcome import Declared, Diagnostic, Job, Outcome, Status

SOURCE = "torch-mlir's inference"
# A program that does not get there in one round hardly ever does later, and the pass would try ten times.
CONTRACT = "torch-lower-to-backend-contract{max-iterations=3}"
ONCE = "torch-lower-to-backend-contract{max-iterations=1}"
_KEPT = frozenset({"func.func", "builtin.module", "torch.vtensor.literal"})
_TENSOR = re.compile(r"vtensor<(?:\[[^\]]*\]|\*)(?:,[^<>]*(?:<[^<>]*>)?)?>")
_SIZES = re.compile(r"(?<=vtensor<\[)[^\]]+(?=\])")
_STRICT = "torch.assume_strict_symbolic_shapes"
_CULPRIT = re.compile(r"in function @f(\d+)")
_HALVED = 4  # fewer cases are not worth two modules
_OUTSIDE = re.compile(r'torch\.operator "(torch\.[\w.]+)"')


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A function whose types are wanted: the program for all calls or one, its arguments' sizes known or not."""

    imported: Imported
    call: int | None
    unknown_sizes: bool

    def declared(self, claims: tuple[Claim | None, ...]) -> list[Declared]:
        """What was inferred, as claims on the program's output."""
        source = f"{SOURCE} for unknown sizes" if self.unknown_sizes else SOURCE
        return [replace(claim, source=source) for claim in declarations(self.imported.output, claims, self.call)]


def erase(function: ir.Operation, *, sizes: bool) -> None:
    """Take from a function, in place, every type that an operator states of its results, and its arguments' sizes if `sizes`."""
    context = function.context

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name not in _KEPT:
            for result in op.results:
                bare = _TENSOR.sub("vtensor", str(result.type))
                if bare != str(result.type):
                    result.set_type(ir.Type.parse(bare, context))
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    block = function.regions[0].blocks[0]
    for argument in block.arguments if sizes else ():
        unknown = _SIZES.sub(lambda match: ",".join("?" for _ in match[0].split(",")), str(argument.type))
        argument.set_type(ir.Type.parse(unknown, context))
    if sizes and _STRICT in function.attributes:
        del function.attributes[_STRICT]  # it says that unknown sizes are never 1
    returned = block.operations[len(block.operations) - 1]
    kind = ir.FunctionType.get([arg.type for arg in block.arguments], [value.type for value in returned.operands], context)
    function.attributes["function_type"] = ir.TypeAttr.get(kind, context)


class InferenceBackend:
    """Has torch-mlir infer the types of a case's outputs; nothing is executed.

    Options: `route` as for the lowerings. A result whose rank or dtype is not found is a refusal: no shape function is wrong
    there, one is missing.
    """

    def warm(self) -> None:
        """Import everything and infer a little, on one thread."""
        warm_imports()
        for case in executed():
            outcome = self.run(case, Job(b"", "torch-mlir:inference"), SILENT)
            if outcome.status is not Status.OK:
                raise TargetUnavailable(f"torch-mlir does not infer here: {outcome.stage}: {outcome.message}")

    def start(self) -> None:
        """Nothing to do in a fresh child."""

    def versions(self) -> Mapping[str, str]:
        """Versions of torch, torch-mlir and numpy."""
        return versions()

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        """Infer the types of one case's outputs."""
        return self.run_many([case], job, progress)[0]

    def run_many(self, cases: Sequence[Case], job: Job, progress: Progress) -> list[Outcome]:
        """Infer the types of many cases' outputs in one module, and of each by itself where the module does not get there."""
        progress.stage("import")
        imported = [_import(case, job) for case in cases]
        progress.stage(INFERENCE)
        waiting = {index: each for index, each in enumerate(imported) if isinstance(each, list)}
        together = _together(waiting) if len(cases) > 1 else {}
        outcomes = []
        for index, each in enumerate(imported):
            if isinstance(each, Outcome):
                outcomes.append(each)
            elif index in together:
                outcomes.append(_outcome(job, each, together[index]))
            else:
                outcomes.append(_alone(cases[index], job, each))
        return outcomes


def _together(waiting: Mapping[int, list[_Wanted]]) -> dict[int, list[tuple[Claim | None, ...]]]:
    """The claims of the cases that get theirs in one module.

    One round of the pass does for most; one function that needs more would have all others go round with it. So those that
    are not settled then share a second module, with as many rounds as a case has by itself.
    """
    settled = {index: claims for index, claims in _shared(waiting, ONCE).items() if _settled(waiting[index], claims)}
    rest = {index: each for index, each in waiting.items() if index not in settled}
    return settled | {index: claims for index, claims in _shared(rest, CONTRACT).items() if any(map(_complete, claims))}


def _settled(wanted: Sequence[_Wanted], claims: Sequence[tuple[Claim | None, ...]]) -> bool:
    """Whether another round could tell no more: every function is typed, and with known sizes nothing is open."""
    known = [found for each, found in zip(wanted, claims, strict=True) if not each.unknown_sizes and not each.imported.dynamic]
    return all(map(_complete, claims)) and all(claim is None or None not in (claim[1] or ()) for found in known for claim in found)


def _shared(waiting: Mapping[int, list[_Wanted]], contract: str) -> dict[int, list[tuple[Claim | None, ...]]]:
    """What one module says of every case; one that fails it is left out, or the module is halved."""
    waiting = dict(waiting)
    while waiting:
        places = [index for index, each in waiting.items() for _ in each]
        inferred, failure = _infer([wanted for each in waiting.values() for wanted in each], contract)
        if failure is None or classify(failure, ())[0] is Failure.REFUSAL:
            found: dict[int, list[tuple[Claim | None, ...]]] = {}
            for index, claims in zip(places, inferred, strict=True):
                found.setdefault(index, []).append(claims)
            return found
        named = _CULPRIT.search(str(failure))
        if named is not None:
            del waiting[places[int(named[1])]]
            continue
        if len(waiting) < _HALVED:
            return {}
        items = list(waiting.items())
        half = len(items) // 2
        return _shared(dict(items[:half]), contract) | _shared(dict(items[half:]), contract)
    return {}


def _import(case: Case, job: Job) -> list[_Wanted] | Outcome:
    """The functions whose types are wanted for a case, or how its import ended."""
    route, dynamic = job.options.get("route", "auto"), bool(case.program.symbols())
    if route not in ROUTES:
        raise UsageError(f"route {route!r} is none of {', '.join(ROUTES)}")
    refusal = "import: no route"
    for name, symbolic in attempts(str(route), dynamic):
        try:
            calls = [None] if symbolic else _bindings(case)
            found = [(import_case(case, toolchain(), route=name, call=call or 0, dynamic=symbolic), call) for call in calls]
        except Specialized:
            continue
        except Unsupported as error:
            refusal = str(error)
            continue
        wanted = [_Wanted(imported, call, unknown) for imported, call in found for unknown in (False, True)]
        outside = _OUTSIDE.search(found[0][0].module.operation.get_asm())
        if outside is not None:
            return _refused(job, f"{outside[1]}: no operator of the torch dialect", "import")
        if job.options.get("until") == "import":
            artifacts = {"input.mlir": _module(wanted).operation.get_asm(), "pipeline": module_pipeline(CONTRACT)}
            return Outcome(job.target, Status.INCONCLUSIVE, "import", message="stopped as asked", versions=versions(), artifacts=artifacts)
        return wanted
    return _refused(job, refusal, "import")


def _bindings(case: Case) -> list[int | None]:
    """The first call of each binding; None, for every call, where there is but one."""
    firsts = {tuple(sorted(call.binding.items())): index for index, call in reversed(list(enumerate(case.calls)))}
    return [None] if len(firsts) == 1 else sorted(firsts.values())  # type: ignore[return-value]


def _refused(job: Job, message: str, stage: str, node: str | None = None) -> Outcome:
    return Outcome(job.target, Status.UNSUPPORTED, stage, message=message, node=node, versions=versions())


def _module(wanted: Sequence[_Wanted]) -> ir.Module:
    """All functions in one module, their types erased: `f0`, `f1` and so on."""
    tools = toolchain()
    with tools.context, ir.Location.unknown():
        module = ir.Module.create()
    for number, each in enumerate(wanted):
        for op in each.imported.module.body.operations:
            function = op.operation.clone()
            module.body.append(function)
            function.attributes["sym_name"] = ir.StringAttr.get(f"f{number}", tools.context)
            erase(function, sizes=each.unknown_sizes)
    return module


def _infer(wanted: Sequence[_Wanted], contract: str = CONTRACT) -> tuple[list[tuple[Claim | None, ...]], StageFailure | None]:
    """The types of every function's results, and how the pass failed, if it did: what it found until then is found."""
    if not wanted:
        return [], None
    module, failure = _module(wanted), None
    try:
        toolchain().run(module, (contract,), stage=INFERENCE)
    except StageFailure as error:
        failure = error
    return [result_claims(module, f"f{number}") for number in range(len(wanted))], failure


def _complete(claims: tuple[Claim | None, ...]) -> bool:
    """Whether every result has a rank and a dtype."""
    return all(claim is None or (claim[0] is not None and claim[1] is not None) for claim in claims)


def _alone(case: Case, job: Job, wanted: Sequence[_Wanted]) -> Outcome:
    """One case by itself, and its functions one by one where they fail together: a failure of one hides the others."""
    claims, failure = _infer(wanted)
    if failure is not None and not all(map(_complete, claims)):
        claims = []
        for each in wanted:
            (found,), failure = _infer([each])
            claims.append(found)
            if failure is not None and classify(failure, ())[0] is not Failure.REFUSAL:
                return _failed(case, job, each, failure)
    if not any(map(_complete, claims)):
        said = str(failure) if failure is not None else "no rank or no dtype for a result"
        operator = classify(failure, ())[1] if failure is not None else None
        return _refused(job, f"{operator or INFERENCE}: {said}", INFERENCE, _node(case, failure))
    return _outcome(job, wanted, claims)


def _node(case: Case, failure: StageFailure | None) -> str | None:
    names = {node.name for node in case.program}
    return next((name for name in failure.nodes if name in names), None) if failure is not None else None


def _failed(case: Case, job: Job, wanted: _Wanted, failure: StageFailure) -> Outcome:
    kind, _ = classify(failure, ())
    artifacts = {"failure": kind.value, "input.mlir": _module([wanted]).operation.get_asm(), "pipeline": module_pipeline(CONTRACT)}
    heard = tuple(Diagnostic(item.severity, item.message, INFERENCE) for item in failure.emitted)
    return Outcome(
        job.target,
        Status.ERROR,
        INFERENCE,
        diagnostics=heard,
        message=str(failure),
        node=_node(case, failure),
        versions=versions(),
        artifacts=artifacts,
    )


def _outcome(job: Job, wanted: Sequence[_Wanted], claims: Sequence[tuple[Claim | None, ...]]) -> Outcome:
    declared = [item for each, found in zip(wanted, claims, strict=True) if _complete(found) for item in each.declared(found)]
    route = wanted[0].imported.route + ("+dynamic" if wanted[0].imported.dynamic else "")
    return Outcome(job.target, Status.OK, INFERENCE, declared=tuple(declared), versions=versions(), artifacts={"route": route})
