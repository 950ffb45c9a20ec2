"""A pipeline followed pass by pass on in-memory IR, verified after each pass, and again until nothing changes.

A pass is run on an IR once: what it made of it is remembered, so that the run which confirms a fixpoint, and a second route
that imports to the same IR, cost next to nothing.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from torch_mlir import ir

from harness.backends.torch_mlir.declared import Claim, tensor_claim
from harness.backends.torch_mlir.imported import Imported
from harness.backends.torch_mlir.passes import VERIFY_CONTRACT, Pipeline, name_of
from harness.backends.torch_mlir.pipelines import Emitted, StageFailure, Toolchain
from harness.backends.torch_mlir.precision import result_claims, spelled, worse
from harness.backends.torch_mlir.refusals import is_refusal, refused_operator
from harness.backends.torch_mlir.torch_dialect.meaning import Meaning, Meanings
from harness.model.story import Ending, Fault, FixpointStory, Interpreted, PassStep, StepFault

IMPORT = "import"
MAX_ITERATIONS = 10  # as torch-lower-to-backend-contract has it
SLOW_SECONDS = 3.0  # of CPU for one pass over a module of a few operators, where the slowest known takes 0.06
LARGE_MB = 600  # by which one pass makes the process grow
GROWTH_FACTOR, GROWTH_FLOOR = 50, 2000  # operations

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one story; a pass that never returns is the worker's deadline's affair."""

    iterations: int = MAX_ITERATIONS
    seconds: float = SLOW_SECONDS
    growth_mb: int = LARGE_MB


class PassRunner:
    """Runs one pass over a module and hands back the module to go on with; tests put their own faulty passes here."""

    def __init__(self, tools: Toolchain) -> None:
        self.tools = tools

    def __call__(self, module: ir.Module, text: str) -> tuple[ir.Module, tuple[Emitted, ...]]:
        """Run the pass; raises StageFailure where it fails."""
        return module, self.tools.run(module, (text,), stage=name_of(text), verify=False)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """IR as it was at one moment."""

    digest: str
    text: str
    module: ir.Module
    size: int
    types: dict[str, str]
    broken: tuple[Emitted, ...] = ()


@dataclass(frozen=True, slots=True)
class _Ran:
    """What one pass did with one snapshot."""

    after: _Snapshot | None
    emitted: tuple[Emitted, ...]
    failure: StageFailure | None
    seconds: float
    grown_mb: int


@dataclass(slots=True)
class Follower:
    """Follows imported modules through pipelines; one for a case, so that its routes share what they have in common.

    `enter` is told the name of each pass before it runs.
    """

    tools: Toolchain
    enter: Callable[[str], None] = lambda _: None
    limits: Limits = field(default_factory=Limits)
    runner: PassRunner | None = None
    snapshots: dict[str, _Snapshot] = field(default_factory=dict)
    _ran: dict[tuple[str, str], _Ran] = field(default_factory=dict)
    _meanings: dict[tuple[str, int], Meaning] = field(default_factory=dict)

    def follow(self, imported: Imported, pipeline: Pipeline, meanings: Meanings, *, calls: Sequence[int]) -> FixpointStory:
        """The story of `imported`, which is left as it is; its snapshots are kept by digest."""
        return _Story(self, imported, pipeline, meanings, tuple(calls)).tell()

    def snapshot(self, module: ir.Module) -> _Snapshot:
        """The IR as it is now; where the verifier rejects it, its text is in generic form."""
        broken = self.tools.invalid(module)
        text = module.operation.get_asm(print_generic_op_form=bool(broken), assume_verified=not broken)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        if digest not in self.snapshots:
            size = text.count(" = ") + text.count("return")
            self.snapshots[digest] = _Snapshot(digest, text, self._copy(module), size, _types(module), broken)
        return self.snapshots[digest]

    def _copy(self, module: ir.Module) -> ir.Module:
        # A clone keeps its locations, and costs less than text; what comes back is the module's OpView, which does as well.
        with self.tools.context:
            return cast(ir.Module, module.operation.clone())

    def run(self, before: _Snapshot, text: str) -> tuple[_Ran, bool]:
        """What the pass makes of a snapshot, and whether that was known already."""
        key = (before.digest, text)
        if key in self._ran:
            return self._ran[key], True
        module = self._copy(before.module)
        runner = self.runner if self.runner is not None else PassRunner(self.tools)
        resident, began = _resident_mb(), time.process_time()
        failure: StageFailure | None = None
        emitted: tuple[Emitted, ...] = ()
        try:
            module, emitted = runner(module, text)
        except StageFailure as error:
            failure, emitted = error, error.emitted
        seconds, grown = time.process_time() - began, _resident_mb() - resident
        after = self.snapshot(module) if failure is None or failure.invalid_ir else None
        self._ran[key] = _Ran(after, emitted, failure, seconds, grown)
        return self._ran[key], False

    def meaning(self, snapshot: _Snapshot, meanings: Meanings) -> Meaning:
        """What the interpreter makes of a snapshot, worked out once."""
        key = (snapshot.digest, id(meanings))
        if key not in self._meanings:
            self._meanings[key] = meanings.of(snapshot.module) if not snapshot.broken else Meaning(unknown="invalid IR")
        return self._meanings[key]

    def contract(self, snapshot: _Snapshot) -> str:
        """What torch-mlir's own verifier of the backend contract says, empty where it is content."""
        try:
            self.tools.run(self._copy(snapshot.module), (VERIFY_CONTRACT,), stage="contract")
        except StageFailure as failure:
            return str(failure)
        return ""


class _Story:
    """One story while it is being told."""

    def __init__(self, owner: Follower, imported: Imported, pipeline: Pipeline, meanings: Meanings, calls: tuple[int, ...]) -> None:
        self.owner, self.imported, self.pipeline, self.meanings, self.calls = owner, imported, pipeline, meanings, calls
        self.steps: list[PassStep] = []
        self.results: list[tuple[Interpreted, ...]] = []
        self.first = owner.snapshot(imported.module)
        self.origin = owner.meaning(self.first, meanings)
        self.last_meaning = self.origin
        # What the importer itself declares wrongly is its own affair, as is what an operation of its own does.
        self.known_violations = {(v.declared, v.actual) for _, v in self.origin.violations}
        self.settled: list[dict[str, Claim | None]] = [result_claims(self.first.types)]
        self.message = ""

    def tell(self) -> FixpointStory:
        self.steps.append(
            self._judged(PassStep(IMPORT, "", 0, self.first.digest, self.first.size, types=self.first.types), None, self.first)
        )
        current, seen, ending, iteration = self.first, {self.first.digest: 0}, Ending.BOUND, 0
        while ending is Ending.BOUND and iteration < self.owner.limits.iterations:
            iteration += 1
            begun = current
            for text in self.pipeline.passes:
                after = self._step(current, text, iteration)
                if after is None:
                    return self._told(self._stopped(), iteration, current)
                current = after
            if current.digest == begun.digest:
                ending = Ending.FIXPOINT
            elif current.digest in seen:
                ending = Ending.CYCLE
                self._blame(Fault.CYCLE, f"iteration {iteration} ends with the IR of iteration {seen[current.digest]}", begun)
            seen[current.digest] = iteration
            self._settle(current, iteration)
        if ending is Ending.BOUND:
            self._blame(Fault.NO_CONVERGENCE, f"still changing in iteration {iteration}", begun)
        return self._told(ending, iteration, current)

    def _stopped(self) -> Ending:
        return Ending.FAULT if self.steps[-1].faults else Ending.REFUSED

    def _told(self, ending: Ending, iterations: int, current: _Snapshot) -> FixpointStory:
        contract = self.owner.contract(current) if ending is Ending.FIXPOINT else ""
        return FixpointStory(
            self.imported.route,
            self.pipeline.name,
            self.calls,
            tuple(self.steps),
            ending,
            iterations,
            self.imported.dynamic,
            tuple(self.results),
            contract,
            self.message,
        )

    def _step(self, before: _Snapshot, text: str, iteration: int) -> _Snapshot | None:
        """Run one pass; None where there is nothing to go on with."""
        name = name_of(text)
        self.owner.enter(name)
        ran, reused = self.owner.run(before, text)
        diagnostics = tuple(f"{item.severity}: {item.message}" for item in ran.emitted)
        after = ran.after
        step = PassStep(
            name,
            text,
            iteration,
            after.digest if after is not None else before.digest,
            after.size if after is not None else before.size,
            changed=after is not None and after.digest != before.digest,
            seconds=0.0 if reused else ran.seconds,
            reused=reused,
            types=after.types if after is not None else before.types,
            diagnostics=diagnostics,
        )
        faults = list(self._faults_of(ran, before))
        if after is not None and after.digest != before.digest:
            added, removed = _difference(before.text, after.text)
            step = replace(step, added=added, removed=removed)
        step = replace(step, faults=tuple(faults))
        if after is None or after.broken or any(fault.kind is Fault.GROWTH for fault in faults):
            self.steps.append(step)
            self.message = "\n".join(diagnostics) or (str(ran.failure) if ran.failure is not None else "")
            return None
        self.steps.append(self._judged(step, before, after))
        return after

    def _faults_of(self, ran: _Ran, before: _Snapshot) -> Sequence[StepFault]:
        """What is wrong with a pass itself."""
        found: list[StepFault] = []
        errors = [item.message for item in ran.emitted if item.severity == "error"]
        if ran.after is not None and ran.after.broken:
            found.append(StepFault(Fault.INVALID_IR, ran.after.broken[0].message))
        elif ran.failure is not None:
            operator = refused_operator(errors)
            made_here = operator is not None and operator not in self.first.text and operator.removeprefix("torch.") not in self.first.text
            if not any(is_refusal(message) for message in errors):
                found.append(StepFault(Fault.PASS_FAILURE, str(ran.failure)))
            elif made_here and operator is not None:
                found.append(StepFault(Fault.PASS_FAILURE, f"refuses an operation that an earlier pass made: {ran.failure}", op=operator))
        elif errors and not any(is_refusal(message) for message in errors):
            found.append(StepFault(Fault.SILENT_ERROR, "\n".join(errors)))
        if ran.seconds > self.owner.limits.seconds:
            found.append(StepFault(Fault.SLOW, f"{ran.seconds:.1f} s of CPU for one pass"))
        if ran.grown_mb > self.owner.limits.growth_mb:
            found.append(StepFault(Fault.MEMORY, f"the process grows by {ran.grown_mb} MB"))
        if ran.after is not None and ran.after.size > max(GROWTH_FLOOR, GROWTH_FACTOR * self.first.size) > before.size:
            found.append(StepFault(Fault.GROWTH, f"from {before.size} to {ran.after.size} operations, {self.first.size} at first"))
        return found

    def _judged(self, step: PassStep, before: _Snapshot | None, after: _Snapshot) -> PassStep:
        """The step with what the interpreter makes of the snapshot after it."""
        meaning = self.owner.meaning(after, self.meanings)
        faults = list(step.faults)
        for call, violation in meaning.violations:
            key = (violation.declared, violation.actual)
            if before is not None and key not in self.known_violations:
                self.known_violations.add(key)
                text = f"{violation.op} is declared {violation.declared}, and gives {violation.actual}"
                declared = spelled(tensor_claim(violation.declared))
                faults.append(StepFault(Fault.WRONG_TYPE, text, violation.op, violation.actual, declared, call))
        result, change, why = None, None, ""
        undetermined = self.origin.undetermined or (meaning.undetermined if not self.origin.interpreted else "")
        if meaning.refused is not None:
            op, _, text = meaning.refused
            why = f"eager PyTorch refuses {text}"
            if before is not None and self.origin.interpreted and self.last_meaning.refused is None:
                faults.append(StepFault(Fault.UNEXECUTABLE, f"the IR now holds what eager PyTorch refuses: {text}", op))
        elif meaning.unknown:
            why = f"the interpreter does not run {meaning.unknown}"
        elif undetermined:
            why = f"the values of {undetermined} are not determined"
        else:
            result = self._result(meaning.answers)
            previous = self.last_meaning
            if before is not None and previous.interpreted and previous.answers != meaning.answers:
                change = self.meanings.change(previous, meaning)
        if meaning.interpreted or meaning.refused is not None:
            self.last_meaning = meaning
        return replace(step, faults=tuple(faults), result=result, uninterpreted=why, change=change)

    def _result(self, answers: tuple[Interpreted, ...]) -> int:
        if answers not in self.results:
            self.results.append(answers)
        return self.results.index(answers)

    def _settle(self, current: _Snapshot, iteration: int) -> None:
        """Hold the types at the end of an iteration against those of the import, which FakeTensor gave, and of the one before."""
        now = result_claims(current.types)
        for earlier in (self.settled[0], self.settled[-1]):
            for place, old in earlier.items():
                problem = worse(old, now.get(place)) if place in now else None
                if problem is not None:
                    kind, text = problem
                    self._blame_type(kind, f"{place}: {text} after iteration {iteration}", place, old)
                    self.settled.append(now)
                    return
        self.settled.append(now)

    def _blame_type(self, kind: Fault, text: str, place: str, old: Claim | None) -> None:
        """Put a fault on the first pass of this iteration after which the type was worse and stayed so."""
        iteration = self.steps[-1].iteration
        guilty = len(self.steps) - 1
        for index in range(len(self.steps) - 1, -1, -1):
            if self.steps[index].iteration != iteration or worse(old, result_claims(self.steps[index].types).get(place)) is None:
                break
            guilty = index
        shown = spelled(old), spelled(result_claims(self.steps[guilty].types).get(place))
        fault = StepFault(kind, text, place, *shown)
        self.steps[guilty] = replace(self.steps[guilty], faults=(*self.steps[guilty].faults, fault))

    def _blame(self, kind: Fault, text: str, begun: _Snapshot) -> None:
        """Put a fault on the pass of the last iteration that led away from the IR with which the iteration began, for good."""
        first = next(index for index, step in enumerate(self.steps) if step.iteration == self.steps[-1].iteration)
        back = max((index for index in range(first, len(self.steps)) if self.steps[index].digest == begun.digest), default=first - 1)
        guilty = back + 1
        self.steps[guilty] = replace(self.steps[guilty], faults=(*self.steps[guilty].faults, StepFault(kind, text)))


def _resident_mb() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * _PAGE >> 20


def _types(module: ir.Module) -> dict[str, str]:
    """The type of each public function."""
    found = {}
    for op in module.body.operations:
        if op.operation.name == "func.func" and "sym_visibility" not in op.attributes:
            found[ir.StringAttr(op.attributes["sym_name"]).value] = str(ir.TypeAttr(op.attributes["function_type"]).value)
    return found


def _difference(before: str, after: str) -> tuple[int, int]:
    """Lines added and removed, wherever they stand."""
    old, new = Counter(before.splitlines()), Counter(after.splitlines())
    return (new - old).total(), (old - new).total()
