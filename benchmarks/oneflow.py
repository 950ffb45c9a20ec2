"""What a case costs in OneFlow: lockstep over five nodes, each way of running, and how long a worker takes to be ready."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from generators.draw import draw_case
from generators.profile import derive, profile
from harness.backends.protocol import target
from harness.cli.session import Session
from harness.engine.evaluate import Evaluator
from harness.environments.availability import missing
from harness.model.outcome import Status
from harness.workers.kernel import children_of, cpu_seconds

LOCKSTEP_GOAL = 4e-3  # CPU seconds of the target for a case of five nodes
READY_GOAL = 0.5  # CPU seconds from the request for a worker to its readiness
_WAYS = ("oneflow:lockstep", "oneflow:eager", "oneflow:fx", "oneflow:graph", "oneflow:graph-mlir")
_FORKS = 5


def cost(name: str, *, cases: int, seed: int) -> tuple[int, float, float]:
    """Over cases of five operators on one target: how many ran, and the mean and the median CPU seconds of the target's work."""
    session = Session.open((name,))
    try:
        session.versions()
        evaluator = Evaluator(session.runner(0))
        drawn = derive(profile("default,short=0"), max_nodes=5)
        spec = target(name)
        seconds: list[float] = []
        index = 0
        while index < 20 * cases and len(seconds) < cases:
            case, _ = draw_case(drawn, seed, index)
            index += 1
            if len(case.program.operators) != 5:
                continue
            reference = evaluator.reference(case)
            if reference.status is not Status.OK:
                continue
            outcome = evaluator.observe(case, spec, reference)
            # A whole program that is refused half-way costs less than one that runs.
            if outcome.death is None and (spec.lockstep or outcome.status is Status.OK):
                work = sum(spent for stage, spent in outcome.seconds.items() if stage not in ("total", "decode"))
                seconds.append(work / len(case.calls))
    finally:
        session.close()
    return len(seconds), statistics.fmean(seconds), statistics.median(seconds)


def readiness(name: str) -> tuple[float, float]:
    """The least seconds and CPU seconds from asking a warm zygote for a worker to its readiness: a busy machine only adds to both."""
    spec = target(name)
    session = Session.open((name,))
    try:
        session.versions()
        taken, spent = [], []
        for _ in range(_FORKS):
            zygote = session.pool.processes()[spec.zygote]
            older = set(children_of(zygote))
            began = time.monotonic()
            with session.pool.fresh(name) as worker:
                worker.start()
                taken.append(time.monotonic() - began)
                spent += [cpu_seconds(pid) or 0.0 for pid in children_of(zygote) if pid not in older]
    finally:
        session.close()
    return min(taken), min(spent)


def lines(*, cases: int, seed: int) -> Iterator[str]:
    """The figures and whether the goals are met; one line where OneFlow is not installed."""
    if (lack := missing("oneflow")) is not None:
        yield f"OneFlow is not measured: {lack.what}"
        return
    lockstep = 0.0
    for name in _WAYS:
        count, mean, median = cost(name, cases=min(cases, 60), seed=seed)
        lockstep = mean if name == "oneflow:lockstep" else lockstep
        yield f"{name}: {mean * 1e3:.2f} ms of CPU a call of five nodes (median {median * 1e3:.2f}), over {count} cases"
    ready = {name: readiness(name) for name in ("oneflow:lockstep", "oneflow:graph")}
    yield "a worker is ready in " + ", ".join(f"{taken:.2f} s, {cpu:.2f} s of CPU ({name})" for name, (taken, cpu) in ready.items())
    quick, early = _word(lockstep <= LOCKSTEP_GOAL), _word(ready["oneflow:lockstep"][1] <= READY_GOAL)
    yield f"lockstep within {LOCKSTEP_GOAL * 1e3:.0f} ms {quick}; ready within {READY_GOAL} s {early}"


def _word(met: bool) -> str:
    return "met" if met else "MISSED"
