"""`torch-mlir:linalg`, `:tosa`, `:stablehlo`: import, torch-mlir's pipelines down to one of them, and the result executed in place."""

from __future__ import annotations

import functools
import gc
import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch_mlir import ir

from harness.backends.protocol import Progress
from harness.backends.torch_mlir import warmup
from harness.backends.torch_mlir.boundary import WRAPPER_PASSES, carries_bfloat16, wrap_bfloat16
from harness.backends.torch_mlir.codegen import set_cheap_codegen
from harness.backends.torch_mlir.configuration import Configuration
from harness.backends.torch_mlir.declared import Claim, result_claims
from harness.backends.torch_mlir.imported import Imported, Result
from harness.backends.torch_mlir.importing import import_case
from harness.backends.torch_mlir.jit import Executable, RunFailure
from harness.backends.torch_mlir.lowerings import LINALG, LOWERINGS, STABLEHLO, TOSA, Lowering
from harness.backends.torch_mlir.pipelines import (
    Emitted,
    StageFailure,
    Toolchain,
    left_over,
    module_pipeline,
)
from harness.backends.torch_mlir.refusals import Failure, classify
from harness.backends.torch_mlir.tracing import Specialized
from harness.errors import TargetUnavailable, Unsupported, UsageError
from harness.model.case import Case
from harness.model.outcome import CallResult, Declared, Diagnostic, Job, Outcome, Status
from harness.model.values import Tensor, Value, leaves, map_leaves

ROUTES = ("auto", "raw", "decomposed", "export")


@functools.cache
def toolchain() -> Toolchain:
    """The process's one MLIR context: making one costs 10 ms, and it may be inherited over a fork."""
    return Toolchain()


@dataclass(slots=True)
class _Evidence:
    """What one attempt gathers on its way, for an Outcome at any point."""

    target: str
    keep_ir: bool
    stage: str = "import"
    call: int | None = None
    calls: dict[int, CallResult] = field(default_factory=dict)
    declared: list[Declared] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    artifacts: dict[str, str] = field(default_factory=dict)

    def enter(self, stage: str, progress: Progress) -> None:
        self.stage = stage
        progress.stage(stage)

    def heard(self, emitted: tuple[Emitted, ...]) -> None:
        self.diagnostics.extend(Diagnostic(item.severity, item.message, self.stage) for item in emitted)

    def outcome(self, status: Status, message: str = "", node: str | None = None) -> Outcome:
        # What worked needs no IR to be shown by, unless an error was swallowed on the way.
        quiet = status is Status.OK and not self.keep_ir and not any(item.severity == "error" for item in self.diagnostics)
        artifacts = {name: text for name, text in self.artifacts.items() if name == "route"} if quiet else dict(self.artifacts)
        return Outcome(
            self.target,
            status,
            self.stage,
            calls=tuple(self.calls[index] for index in sorted(self.calls)) if status is Status.OK else (),
            declared=tuple(self.declared),
            diagnostics=tuple(self.diagnostics),
            message=message,
            node=node,
            call=None if status is Status.OK else self.call,
            versions=versions(),
            artifacts=artifacts,
        )


@functools.cache
def versions() -> Mapping[str, str]:
    """Versions of what can change the result."""
    return {name: importlib.metadata.version(name) for name in ("torch", "torch-mlir", "numpy")}


class _Stopped(Exception):
    """The stage that the job asked to stop after has been reached."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The stages of one job: which lowering, in which configuration, and the stage to stop after."""

    lowering: Lowering
    configuration: Configuration
    until: Value

    @property
    def pipelines(self) -> tuple[tuple[str, str], ...]:
        """From the torch dialect to linalg: each stage with its passes."""
        return self.configuration.pipelines(self.lowering)

    @property
    def stages(self) -> tuple[str, ...]:
        return ("import", *(stage for stage, _ in self.pipelines))


_WARM: set[Lowering] = set()


@functools.cache
def warm_imports() -> None:
    """Import a few tiny programs, each for a part of tracing that loads modules of its own, on one thread."""
    torch.set_num_threads(1)
    for case in warmup.imported():
        import_case(case, toolchain(), route="decomposed", call=0, dynamic=False)


class LoweringBackend:
    """Runs a case through torch-mlir by one lowering and on the wheel's ExecutionEngine.

    Options: `route` is one of ROUTES; `auto` tries them as `attempts` says; `until` stops after a stage and returns its
    IR; `dynamic` False imports every binding by itself; `lowering` takes another one for this job, for a vote; those of
    Configuration change the pipeline where that may not change a result. With `pipeline` the job is `torch-mlir:fixpoint`'s,
    which says where a finding comes from.
    """

    lowering: Lowering = LINALG

    def warm(self) -> None:
        """Import everything and compile a few tiny programs, on one thread; a forked child then starts at full speed."""
        if self.lowering in _WARM:
            return  # as the same target with other options has done
        warm_imports()
        set_cheap_codegen()
        for case in warmup.executed():
            outcome = self.run(case, Job(b"", f"torch-mlir:{self.lowering.name}"), warmup.SILENT)
            if outcome.status is not Status.OK:
                raise TargetUnavailable(f"torch-mlir does not work here: {outcome.stage}: {outcome.message}")
        _WARM.add(self.lowering)
        gc.collect()
        gc.freeze()

    def start(self) -> None:
        """Nothing to do in a fresh child: the context and the compiled pipelines are inherited."""

    def versions(self) -> Mapping[str, str]:
        """Versions of torch, torch-mlir and numpy."""
        return versions()

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        """Run every call of `case`; refusals, failures and results all come back as the Outcome of the best route."""
        if job.options.get("pipeline"):
            from harness.backends.torch_mlir.following import follow_case  # which needs this module

            return follow_case(case, job, progress)
        route, until = job.options.get("route", "auto"), job.options.get("until")
        if route not in ROUTES:
            raise UsageError(f"route {route!r} is none of {', '.join(ROUTES)}")
        chosen = job.options.get("lowering", self.lowering.name)
        if not isinstance(chosen, str) or chosen not in LOWERINGS:
            raise UsageError(f"lowering {chosen!r} is none of {', '.join(LOWERINGS)}")
        plan = _Plan(LOWERINGS[chosen], Configuration.of(job.options), until)
        if until is not None and until not in plan.stages:
            raise UsageError(f"until {until!r} is none of {', '.join(plan.stages)}")
        dynamic = bool(case.program.symbols()) and bool(job.options.get("dynamic", True))
        tried: list[Outcome] = []
        for name, symbolic in attempts(route, dynamic):
            if name == "raw" and tried and not all(map(import_failed, tried)):
                break
            outcome = self._attempt(case, job, progress, plan, route=name, dynamic=symbolic)
            if outcome is None:
                continue
            tried.append(outcome)
            if outcome.status is not Status.UNSUPPORTED:
                break
        return best(tried)

    def _attempt(self, case: Case, job: Job, progress: Progress, plan: _Plan, *, route: str, dynamic: bool) -> Outcome | None:
        """One route; None where sizes cannot be kept symbolic."""
        evidence = _Evidence(job.target, keep_ir="ir" in job.want or plan.until is not None)
        compiled: dict[tuple[tuple[str, int], ...], tuple[Imported, Executable]] = {}
        try:
            for index, call in enumerate(case.calls):
                key = () if dynamic else tuple(sorted(call.binding.items()))
                evidence.call = None if dynamic else index
                if key not in compiled:
                    compiled[key] = self._compile(case, evidence, progress, plan, route=route, call=index, dynamic=dynamic)
                evidence.call = index
                evidence.enter("run", progress)
                evidence.calls[index] = execute(*compiled[key], case, index)
        except Specialized:
            return None
        except Unsupported as error:
            return evidence.outcome(Status.UNSUPPORTED, str(error))
        except StageFailure as failure:
            return _failed(case, evidence, failure)
        except RunFailure as failure:
            evidence.artifacts["failure"] = "run-failure"
            return evidence.outcome(Status.ERROR, str(failure))
        except _Stopped:
            return evidence.outcome(Status.INCONCLUSIVE, f"stopped after {plan.until} as asked")
        return evidence.outcome(Status.OK)

    def _compile(
        self, case: Case, evidence: _Evidence, progress: Progress, plan: _Plan, *, route: str, call: int, dynamic: bool
    ) -> tuple[Imported, Executable]:
        evidence.enter("import", progress)
        imported = import_case(case, toolchain(), route=route, call=call, dynamic=dynamic)
        evidence.artifacts["route"] = imported.route + ("+dynamic" if imported.dynamic else "")
        evidence.artifacts["input.mlir"] = imported.module.operation.get_asm()
        # All that torch-mlir-opt can run: whoever asks for the input of a process that died has only this.
        beyond = {step.stage for step in plan.lowering.steps if not step.in_opt}
        evidence.artifacts["pipeline"] = module_pipeline(*(passes for stage, passes in plan.pipelines if stage not in beyond))
        if plan.until == "import":
            raise _Stopped
        claims = self._lowered(imported, evidence, progress, plan, call=None if dynamic else call)
        return imported, self._executable(imported.module, claims, evidence, progress, plan.configuration)

    def _lowered(
        self, imported: Imported, evidence: _Evidence, progress: Progress, plan: _Plan, *, call: int | None
    ) -> tuple[Claim | None, ...]:
        """Take the module down to linalg in place, stage by stage; what the torch dialect declares of its results."""
        claims: tuple[Claim | None, ...] = ()
        begun: list[str] = []
        consumed = {step.stage: step.consumes for step in plan.lowering.steps if step.consumes}
        for stage, passes in plan.pipelines:
            evidence.enter(stage, progress)
            begun.append(passes)
            evidence.artifacts["pipeline"] = module_pipeline(*begun)
            evidence.heard(toolchain().run(imported.module, (passes,), stage=stage))
            if stage == "torch-pipeline":
                claims = result_claims(imported.module)
                evidence.declared.extend(declarations(imported.output, claims, call))
            if evidence.keep_ir:
                evidence.artifacts[f"{'torch' if stage == 'torch-pipeline' else stage}.mlir"] = imported.module.operation.get_asm()
            if plan.until == stage:
                raise _Stopped
            if stage in consumed and (left := left_over(imported.module, consumed[stage])):
                raise StageFailure(stage, left)
        return claims

    def _executable(
        self, module: ir.Module, claims: tuple[Claim | None, ...], evidence: _Evidence, progress: Progress, configuration: Configuration
    ) -> Executable:
        """Down to machine code, by the short pipeline if it gets through and else by the reference one."""
        tools = toolchain()
        linalg = module.operation.get_asm()
        dtypes = [None if claim is None else claim[0] for claim in claims]
        wrapping: tuple[str, ...] = ()
        if carries_bfloat16(module):
            wrapping = WRAPPER_PASSES
            linalg = wrap_bfloat16(module, linalg)
        for final in (False, True):
            evidence.enter("llvm", progress)
            lowered = tools.parse(linalg)
            try:
                passes = configuration.llvm_passes(None if final else linalg)
                tools.run(lowered, (*wrapping, *passes), stage="llvm", verify=final)
                evidence.enter("jit", progress)
                with tools.collect() as emitted:
                    try:
                        executable = Executable(lowered, dtypes)
                        executable.compile()
                    except RuntimeError as error:
                        raise StageFailure("jit", tuple(emitted), reason=str(error)) from error
            except StageFailure:
                if final:
                    raise
            else:
                return executable
        raise AssertionError("unreachable")


class LinalgBackend(LoweringBackend):
    """`torch-mlir:linalg`."""

    lowering = LINALG


class TosaBackend(LoweringBackend):
    """`torch-mlir:tosa`."""

    lowering = TOSA


class StablehloBackend(LoweringBackend):
    """`torch-mlir:stablehlo`."""

    lowering = STABLEHLO


def attempts(route: str, dynamic: bool) -> tuple[tuple[str, bool], ...]:
    """The routes to try in turn, each with whether sizes stay symbolic.

    `auto` takes the decomposition table that torch-mlir gives its users, so that what is found is found on their route
    too; it costs no more than raw. Raw is for what cannot be imported so. torch.export, at ten times the price of all the
    rest, is only for those who ask.
    """
    routes = ("decomposed", "raw") if route == "auto" else (route,)
    return tuple((name, symbolic) for name in routes for symbolic in ((True, False) if dynamic else (False,)))


def import_failed(outcome: Outcome) -> bool:
    """Whether torch-mlir's passes saw nothing of the case."""
    return outcome.status is Status.UNSUPPORTED and outcome.message.startswith("import:")


def best(tried: Sequence[Outcome]) -> Outcome:
    """The outcome to report: the first that ran, else the first failure, else a refusal of torch-mlir before one of ours.

    What other routes said is kept among the artifacts as `other_routes`.
    """
    order = {Status.OK: 0, Status.INCONCLUSIVE: 0, Status.ERROR: 1, Status.UNSUPPORTED: 2}
    chosen = min(tried, key=lambda outcome: (order[outcome.status], import_failed(outcome)))
    others = [f"{o.artifacts.get('route', 'import')}: {o.status.value}: {o.message}" for o in tried if o is not chosen]
    return replace(chosen, artifacts={**chosen.artifacts, "other_routes": "\n".join(others)}) if others else chosen


def _failed(case: Case, evidence: _Evidence, failure: StageFailure) -> Outcome:
    earlier = [item.message for item in evidence.diagnostics if item.severity == "error"]
    evidence.heard(failure.emitted)
    node = next((name for name in failure.nodes if any(name == known.name for known in case.program)), None)
    kind, operator = classify(failure, earlier)
    if kind is Failure.REFUSAL:
        named = operator or (case.program.node(node).target if node is not None else failure.stage)
        return evidence.outcome(Status.UNSUPPORTED, f"{named}: {failure}", node)
    evidence.artifacts["failure"] = kind.value
    message = "\n".join([*earlier, str(failure)]) if kind is Failure.SILENT_ERROR else str(failure)
    return evidence.outcome(Status.ERROR, message, node)


def declarations(output: Value, claims: tuple[Claim | None, ...], call: int | None) -> list[Declared]:
    """What torch-mlir claims of each tensor in the output."""
    found: list[Declared] = []
    for path, leaf in leaves(output):
        claim = claims[leaf.index] if isinstance(leaf, Result) and leaf.index < len(claims) else None
        if claim is not None:
            found.append(Declared("torch-mlir", path, claim[0], claim[1], call))
    return found


def execute(imported: Imported, executable: Executable, case: Case, index: int) -> CallResult:
    """Run call `index` and put the results where the program's output has them."""
    arguments: dict[str, Value] = {**imported.literals, **case.arguments(index)}
    results = executable([arguments[name] for name in imported.arguments])
    output = map_leaves(imported.output, lambda leaf: results[leaf.index] if isinstance(leaf, Result) else leaf)
    mutated = {name: results[position] for name, position in imported.mutated.items()}
    return CallResult(output, {name: after for name, after in mutated.items() if changed(arguments[name], after)})


def changed(before: Tensor, after: Tensor) -> bool:
    """Whether a tensor's dtype, shape or any bit of it differ."""
    return (before.dtype, before.shape) != (after.dtype, after.shape) or before.array().tobytes() != after.array().tobytes()
