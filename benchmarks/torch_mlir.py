"""What a case costs at each stage of torch-mlir, in CPU time, and what a worker's memory does over many cases."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from generators.draw import draw_case
from generators.profile import derive, profile
from harness.backends.protocol import target
from harness.model.case import Case
from harness.model.codec import to_wire
from harness.model.outcome import Job, Outcome
from harness.workers.kernel import children_of
from harness.workers.pool import WorkerPool
from harness.workers.settings import WorkerSettings

LOWERINGS = ("torch-mlir:linalg", "torch-mlir:tosa", "torch-mlir:stablehlo")
INFERENCE = "torch-mlir:inference"
STEPS = 10
EXECUTION = ("llvm", "jit", "run")
# What is printed, by the stages that it sums, and its goal in milliseconds where there is one.
ROWS = (
    ("traced import", "torch-mlir:linalg", ("import",), 6.0),
    ("FX pipeline and linalg", "torch-mlir:linalg", ("torch-pipeline", "linalg"), 12.0),
    ("LLVM, JIT and run, one case a module", "torch-mlir:linalg", EXECUTION, 50.0),
    ("TOSA, and from there to linalg", "torch-mlir:tosa", ("tosa", "tosa-to-linalg"), 15.0),
    ("StableHLO, and from there to linalg", "torch-mlir:stablehlo", ("stablehlo", "stablehlo-to-linalg"), 15.0),
)


@dataclass(frozen=True, slots=True)
class Stages:
    """One printed line: median CPU milliseconds over the cases that were executed, and the goal."""

    name: str
    milliseconds: float
    cases: int
    goal: float | None


@dataclass(frozen=True, slots=True)
class Memory:
    """Megabytes that all processes of the three lowerings hold, shared pages counted once, at even steps through `cases` cases."""

    megabytes: tuple[float, ...]
    cases: int

    @property
    def flat(self) -> bool:
        """Whether the second half peaks no more than a tenth above the first."""
        half = len(self.megabytes) // 2
        return max(self.megabytes[half:]) <= 1.1 * max(self.megabytes[:half])


def cases_of_five(count: int, seed: int) -> Iterator[Case]:
    """Drawn cases of exactly five operators."""
    drawn, index, found = derive(profile("default,short=0"), max_nodes=5), 0, 0
    while found < count:
        case, _ = draw_case(drawn, seed, index)
        index += 1
        if len(case.program.operators) == 5:
            found += 1
            yield case


def stages(cases: Sequence[Case]) -> list[Stages]:
    """The median of every row over the cases that its target executed, static or with one import for all sizes."""
    with WorkerPool([target(name) for name in (*LOWERINGS, INFERENCE)], WorkerSettings(case_seconds=10.0)) as pool:
        spent = {name: [_run(pool, name, case).seconds for case in cases] for name in LOWERINGS}
        found = []
        for name, on, parts, goal in ROWS:
            values = [sum(seconds.get(part, 0.0) for part in parts) for seconds in spent[on] if seconds.get("run", 0.0) > 0]
            found.append(Stages(name, _median(values), len(values), goal))
        batch = target(INFERENCE).batch
        whole = [_many(pool, cases[start : start + batch]) for start in range(0, len(cases) - batch + 1, batch)]
        values = [outcome.seconds["total"] / batch for outcome in whole if outcome.death is None]
        found.append(Stages(f"inference, {batch} cases a module, each with and without sizes", _median(values), len(cases), None))
    return found


def memory(cases: Sequence[Case]) -> Memory:
    """What the processes hold while they run the cases, retired and replaced as in any run."""
    step, seen = max(1, len(cases) // STEPS), []
    with WorkerPool([target(name) for name in LOWERINGS], WorkerSettings(case_seconds=10.0)) as pool:
        for number, case in enumerate(cases):
            for name in LOWERINGS:
                _run(pool, name, case)
            if (number + 1) % step == 0:
                seen.append(_held(pool))
    return Memory(tuple(seen), len(cases))


def _median(seconds: Sequence[float]) -> float:
    """In milliseconds; not a number where nothing was measured."""
    return 1000 * statistics.median(seconds) if seconds else math.nan


def _held(pool: WorkerPool) -> float:
    """Megabytes of the pool's zygotes and their workers, each page divided among those who share it."""
    zygotes = pool.processes().values()
    return sum(map(_proportional, {pid for zygote in zygotes for pid in (zygote, *children_of(zygote))}))


def _proportional(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return 0.0  # it died between two looks
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("Pss:"))) / 1024


def lines(*, cases: int, seed: int) -> Iterator[str]:
    """The report: stages, then memory."""
    drawn = list(cases_of_five(cases, seed))
    yield f"{'torch-mlir, median CPU of a case of five operators':66} {'ms':>7} {'goal':>6} {'cases':>6}"
    for row in stages(drawn):
        yield f"{row.name:66} {row.milliseconds:7.1f} {'' if row.goal is None else format(row.goal, '.0f'):>6} {row.cases:6}"
    held = memory(drawn)
    word = "flat" if held.flat else "GROWING"
    yield f"memory of the three lowerings over {held.cases} cases, in MB: {' '.join(f'{each:.0f}' for each in held.megabytes)}; {word}"


def _run(pool: WorkerPool, name: str, case: Case) -> Outcome:
    return pool.worker(name).run(Job(to_wire(case), name))


def _many(pool: WorkerPool, cases: Sequence[Case]) -> Outcome:
    first, *rest = map(to_wire, cases)
    return pool.worker(INFERENCE).run(Job(first, INFERENCE, more=tuple(rest)), patience=3.0)
