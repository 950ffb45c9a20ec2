"""`torch-mlir:fixpoint`: the torch-level pipelines pass by pass, every snapshot given its meaning; nothing is lowered."""

from __future__ import annotations

import gc
from collections.abc import Mapping

import torch

from harness.backends.protocol import Progress
from harness.backends.torch_mlir import warmup
from harness.backends.torch_mlir.backend import toolchain, versions
from harness.backends.torch_mlir.fixpoint import Follower, Limits, PassRunner
from harness.backends.torch_mlir.imported import Imported
from harness.backends.torch_mlir.importing import import_case
from harness.backends.torch_mlir.passes import PIPELINES, pipeline
from harness.backends.torch_mlir.patterns import Applied, guilty_pattern
from harness.backends.torch_mlir.pipelines import module_pipeline
from harness.backends.torch_mlir.torch_dialect.meaning import Meanings
from harness.backends.torch_mlir.tracing import Specialized
from harness.errors import TargetUnavailable, Unsupported, UsageError
from harness.model.case import Case
from harness.model.outcome import Job, Outcome, Status
from harness.model.story import Ending, Fault, FixpointStory
from harness.model.values import Value

ROUTES = ("raw", "decomposed", "export")
BOTH = ("decomposed", "raw")  # the users' way first, so that what both show is told of it
IMPORT = "import"
DEFAULT_LIMITS = Limits()
SNAPSHOT = "ir/"  # the artifact of a snapshot is called so, and by its digest


class FixpointBackend:
    """Tells the stories of a case: each route through each pipeline, until nothing changes.

    Options: `route` is one of ROUTES, by default raw and decomposed; `pipeline` is one of PIPELINES, by default each;
    `dynamic` False imports the sizes of the first call; `pattern`, as `decomposed|fx|5`, has the guilty pattern of that step
    of that story looked for; `until` import stops there and keeps the IR.
    """

    def warm(self) -> None:
        """Import everything and follow tiny programs, on one thread."""
        torch.set_num_threads(1)
        for case in (*warmup.executed(), *warmup.imported()):
            outcome = self.run(case, Job(b"", "torch-mlir:fixpoint", options={"route": "decomposed"}), warmup.SILENT)
            if outcome.status is not Status.OK:
                raise TargetUnavailable(f"torch-mlir does not work here: {outcome.stage}: {outcome.message}")
        gc.collect()
        gc.freeze()

    def start(self) -> None:
        """Nothing to do in a fresh child: the context and the compiled pipelines are inherited."""

    def versions(self) -> Mapping[str, str]:
        """Versions of torch, torch-mlir and numpy."""
        return versions()

    def runner(self) -> PassRunner:
        """What runs a pass; doubles that are wrong on purpose have their own."""
        return PassRunner(toolchain())

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        """The stories of `case`; a route that cannot be imported is named in the message, and tells none."""
        return follow_case(case, job, progress, runner=self.runner())


def follow_case(case: Case, job: Job, progress: Progress, *, runner: PassRunner | None = None, limits: Limits = DEFAULT_LIMITS) -> Outcome:
    """The stories of `case` as `job`'s options ask for them.

    The stage is the pass at work. An outcome in which something is wrong, or that was asked for `ir`, keeps the snapshots at issue.
    """
    routes = _chosen(job.options.get("route"), ROUTES, BOTH, "route")
    names = _chosen(job.options.get("pipeline"), PIPELINES, PIPELINES, "pipeline")
    tools = toolchain()
    follower = Follower(tools, enter=progress.stage, limits=limits, runner=runner)
    stories: list[FixpointStory] = []
    refusals: list[str] = []
    sought = str(job.options.get("pattern") or "").split("|")
    artifacts: dict[str, str] = {}
    for route in routes:
        progress.stage(IMPORT)
        try:
            imported, calls = _imported(case, route=route, dynamic=bool(job.options.get("dynamic", True)))
        except Unsupported as error:
            refusals.append(f"{route}: {error}")
            continue
        artifacts.setdefault("route", imported.route + ("+dynamic" if imported.dynamic else ""))
        artifacts.setdefault("input.mlir", imported.module.operation.get_asm())
        if job.options.get("until") == IMPORT:
            artifacts["pipeline"] = module_pipeline(pipeline(names[0]).named)
            return Outcome(job.target, Status.INCONCLUSIVE, IMPORT, message="stopped after import as asked", artifacts=artifacts)
        meanings = Meanings(case, imported, calls)
        for name in names:
            story = follower.follow(imported, pipeline(name), meanings, calls=calls)
            stories.append(story)
            if sought[:2] == [story.route, name]:
                progress.stage("pattern")
                artifacts.update(_pattern(follower, meanings, story, int(sought[2])))
    wanted = {digest for story in stories for digest in snapshots_at_issue(story, everything="ir" in job.want)}
    artifacts.update({SNAPSHOT + digest: follower.snapshots[digest].text for digest in sorted(wanted)})
    if refusals:
        artifacts["other_routes"] = "\n".join(refusals)
    refused = [story for story in stories if story.ending is Ending.REFUSED]
    if not stories:
        message = refusals[0].partition(": ")[2]
        return Outcome(job.target, Status.UNSUPPORTED, IMPORT, message=message, versions=versions(), artifacts=artifacts)
    faulty = any(step.faults for story in stories for step in story.steps)
    if len(refused) == len(stories) and not faulty:
        last = refused[0].steps[-1]
        return Outcome(
            job.target,
            Status.UNSUPPORTED,
            last.name,
            message=f"{last.name}: {refused[0].message}",
            versions=versions(),
            artifacts=artifacts,
            stories=tuple(stories),
        )
    quiet = not wanted and "ir" not in job.want
    kept = {name: text for name, text in artifacts.items() if name != "input.mlir"} if quiet else artifacts
    return Outcome(job.target, Status.OK, stories[-1].steps[-1].name, versions=versions(), artifacts=kept, stories=tuple(stories))


def _pattern(follower: Follower, meanings: Meanings, story: FixpointStory, index: int) -> dict[str, str]:
    """The pattern behind what step `index` of a story does wrong, as artifacts; nothing where there is none to name."""
    before, step = follower.snapshots[story.steps[index - 1].digest], story.steps[index]
    right = meanings.of(before.module)
    reported = {fault.message for fault in step.faults if fault.kind is Fault.SILENT_ERROR}
    wrong_types = {(fault.op, fault.expected) for fault in step.faults if fault.kind is Fault.WRONG_TYPE}

    def is_wrong(made: Applied) -> bool:
        if any(line in made.said for text in reported for line in text.splitlines()):
            return True
        if made.failed:
            return True
        meaning = meanings.of(toolchain().parse(made.text))
        if any((violation.op, violation.actual) in wrong_types for _, violation in meaning.violations):
            return True
        if meaning.refused is not None and right.refused is None:
            return True
        return meaning.interpreted and not meanings.agree(right, meaning)

    source = before.module.operation.get_asm(enable_debug_info=True)
    found = guilty_pattern(source, step.text, is_wrong)
    return {"pattern": f"{found.name}\n{found.op}"} if found is not None else {}


def _chosen(value: Value, known: tuple[str, ...], default: tuple[str, ...], what: str) -> tuple[str, ...]:
    if value in (None, "", "all"):
        return default
    if value not in known:
        raise UsageError(f"{what} {value!r} is none of {', '.join(known)}")
    return (str(value),)


def _imported(case: Case, *, route: str, dynamic: bool) -> tuple[Imported, tuple[int, ...]]:
    """The case in the torch dialect, and the calls that it holds for: all where sizes stay symbolic, else those sized like the first."""
    tools = toolchain()
    if dynamic and case.program.symbols():
        try:
            return import_case(case, tools, route=route, call=0, dynamic=True), tuple(range(len(case.calls)))
        except Specialized:
            pass
    imported = import_case(case, tools, route=route, call=0, dynamic=False)
    return imported, tuple(index for index, call in enumerate(case.calls) if call.binding == case.calls[0].binding)


def snapshots_at_issue(story: FixpointStory, *, everything: bool = False) -> set[str]:
    """The snapshots before and after each pass that did something wrong, or after which the answers differ."""
    found: set[str] = set()
    for before, step in zip(story.steps, story.steps[1:], strict=False):
        differs = step.result is not None and before.result is not None and step.result != before.result
        if everything or step.faults or differs:
            found |= {before.digest, step.digest}
    return found
