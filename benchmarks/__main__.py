"""`python -m benchmarks`: executions per CPU-second, the share of overhead, and what the first case costs.

CPU time counts the engine, every zygote and every worker, living and dead. Warming is reported apart: it is paid once.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict, dataclass

from benchmarks import oneflow, torch_mlir
from generators.draw import draw_case
from generators.profile import derive, profile
from harness.cli.session import Session
from harness.engine.evaluate import Evaluator, Runner, executions
from harness.model.codec import to_wire
from harness.model.outcome import Job, Outcome

GOALS = {"eager:copy": 50.0, "oneflow:lockstep+torch-mlir:linalg": 10.0}
OVERHEAD_GOAL = 0.25


@dataclass(frozen=True, slots=True)
class Throughput:
    """One measured mix of targets; CPU seconds without warming."""

    targets: str
    cases: int
    executions: int
    cpu_seconds: float
    outside_targets: float
    warm_seconds: float

    @property
    def rate(self) -> float:
        """Executions (case x binding) per CPU-second."""
        return self.executions / self.cpu_seconds

    @property
    def overhead(self) -> float:
        """Share of CPU outside the targets."""
        return self.outside_targets / self.cpu_seconds


class _Plumbing:
    """A Runner that adds up the CPU seconds of workers outside their backend."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.workers = 0.0
        self.measuring = 0.0  # here, not in the workers

    def run(self, job: Job, *, fresh: bool = False, patience: float = 1.0) -> Outcome:
        """Run `job`; what encoding its outcome took is measured by encoding it once more, since no outcome can tell."""
        outcome = self._runner.run(job, fresh=fresh, patience=patience)
        stages = sum(seconds for stage, seconds in outcome.seconds.items() if stage not in ("total", "decode"))
        began = time.process_time()
        to_wire(outcome)
        encoding = time.process_time() - began
        self.measuring += encoding
        self.workers += max(outcome.seconds.get("total", 0.0) - stages, 0.0) + encoding
        return outcome


def _cpu(session: Session) -> dict[str, float]:
    own = os.times()
    return {**session.pool.cpu_seconds(), "engine": own.user + own.system}


def throughput(targets: tuple[str, ...], *, cases: int, seed: int) -> Throughput:
    """Run cases of exactly five operators, in this thread, with isolation on; disagreements are judged, not investigated.

    Outside the targets is the engine (drawing, judging, supervising), the zygotes (forking), and in the workers whatever is
    no stage of a backend: decoding cases, encoding outcomes. Drawing cases that are not of five operators is left out.
    """
    session = Session.open(targets)
    try:
        session.versions()  # waits until every target is warm
        plumbing = _Plumbing(session.runner(0))
        evaluator = Evaluator(plumbing)
        drawn = derive(profile("default,short=0"), max_nodes=5)
        index = 0
        for warm in range(3):
            evaluator.evaluate(draw_case(drawn, seed + 1, warm)[0], session.targets)
        plumbing.workers = plumbing.measuring = 0.0
        before = _cpu(session)
        count = ran = 0
        skipped = 0.0
        while count < cases:
            began = time.process_time()
            case, _ = draw_case(drawn, seed, index)
            index += 1
            if len(case.program.operators) != 5:
                skipped += time.process_time() - began
                continue
            evaluation = evaluator.evaluate(case, session.targets)
            count += 1
            ran += executions(evaluation) if evaluation.valid else 0
    finally:
        after = session.close()
    spent = {name: after.get(name, 0.0) - before.get(name, 0.0) for name in after}
    warm = sum(seconds for name, seconds in before.items() if name.startswith("zygote:"))
    spent["engine"] -= skipped + plumbing.measuring
    outside = plumbing.workers + spent["engine"] + sum(seconds for name, seconds in spent.items() if name.startswith("zygote:"))
    return Throughput("+".join(targets), count, ran, sum(spent.values()), outside, warm)


def main() -> int:
    """Measure, print, and say which goals are met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--cases", type=int, default=150, help="cases for each mix of targets")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    begun = time.monotonic()
    results = []
    for mix in (("eager:copy",), ("oneflow:lockstep", "torch-mlir:linalg")):
        results.append(throughput(mix, cases=arguments.cases, seed=arguments.seed))
    if arguments.json:
        print(json.dumps([{**asdict(result), "rate": result.rate, "overhead": result.overhead} for result in results], indent=2))
        return 0
    print(f"{'targets (and eager)':38} {'cases':>6} {'exec':>6} {'CPU s':>7} {'exec/CPU s':>11} {'goal':>6} {'overhead':>9} {'warming':>8}")
    for result in results:
        goal = GOALS[result.targets]
        print(
            f"{result.targets:38} {result.cases:6} {result.executions:6} {result.cpu_seconds:7.1f} {result.rate:11.1f} {goal:6.0f} "
            f"{result.overhead:9.0%} {result.warm_seconds:6.1f} s"
        )
    met = all(result.rate >= GOALS[result.targets] for result in results)
    low = all(result.overhead <= OVERHEAD_GOAL for result in results)
    print("\n".join(torch_mlir.lines(cases=arguments.cases, seed=arguments.seed)))
    print("\n".join(oneflow.lines(cases=arguments.cases, seed=arguments.seed)))
    print(f"rates {_word(met)}; overhead of at most {OVERHEAD_GOAL:.0%} {_word(low)}; {time.monotonic() - begun:.0f} s")
    return 0


def _word(met: bool) -> str:
    return "met" if met else "MISSED"


if __name__ == "__main__":
    raise SystemExit(main())
