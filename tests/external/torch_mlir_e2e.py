"""Run torch-mlir's own end-to-end suite on eager PyTorch and on fxdiff's torch-mlir targets, and compare with its lists.

    python -m tests.external.torch_mlir_e2e CHECKOUT [--filter REGEX] [--sample N] [--seconds S] [--rows FILE]

CHECKOUT is a checkout of llvm/torch-mlir; nothing of it is kept here. Every test is captured in a worker and its cases are run
by all targets in workers of their own, so that no death ends the run. `--rows` keeps one JSON line a test; a later run with
the same file goes on where that one stopped. Each test is checked, or refused for the reason that is printed; what differs
from the suite's lists of expected failures is listed with what we saw, and with what the suite's own configuration, run here
in a worker too, makes of the test today. Exit code 0, or 3 where fxdiff itself failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from harness.backends.protocol import TargetSpec, target
from harness.backends.torch_mlir.lowerings import lowering_of
from harness.cli.session import SlotRunner
from harness.engine.evaluate import Evaluation, Evaluator
from harness.exporting.torch_mlir import SUITE_ATOL, SUITE_RTOL
from harness.model.case import Call, Case
from harness.model.codec import from_json, to_wire
from harness.model.outcome import Job, Outcome, Status
from harness.model.program import Node, Program
from harness.model.values import Tensor, leaves
from harness.model.verdict import Kind
from harness.workers.pool import WorkerPool
from harness.workers.settings import WorkerSettings
from tests.external.torch_mlir_e2e_capture import CHECKOUT

SUITE = TargetSpec("e2e-suite", "tests.external.torch_mlir_e2e_capture:SuiteBackend", "torch-mlir's tests", zygote="e2e-suite")
# The suite's configurations: fxdiff's target, and the lists that hold its expected failures.
CONFIGS = {
    "torch-mlir:linalg?legal-ops=aten.adaptive_max_pool2d": ("FX_IMPORTER_XFAIL_SET", "FX_IMPORTER_CRASHING_SET"),
    "torch-mlir:tosa": ("FX_IMPORTER_TOSA_XFAIL_SET", "FX_IMPORTER_TOSA_CRASHING_SET"),
    "torch-mlir:stablehlo": ("FX_IMPORTER_STABLEHLO_XFAIL_SET", "FX_IMPORTER_STABLEHLO_CRASHING_SET"),
}
AGREES, DISAGREES, REFUSES, INTERNAL = "agrees", "disagrees", "refuses", "internal"
_ORDER = (AGREES, REFUSES, DISAGREES, INTERNAL)  # of several calls the last counts
_NOTHING = to_wire(Case(Program((Node("output", "output", "output", (None,)),)), (Call(),)))
_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What one target did with one test; `lenient` where the suite's own tolerance would let a disagreement pass."""

    answer: str
    says: str = ""
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One test: how it was captured or why it was not, and every target's answer.

    `own` is what the suite's own configuration says where an answer is not what its lists say: empty where it passes.
    """

    test: str
    captured: str = ""
    refused: str = ""
    internal: str = ""
    answers: Mapping[str, Answer] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)


class Suite:
    """torch-mlir's tests, and the workers that capture and run them."""

    def __init__(self, checkout: Path, targets: Sequence[TargetSpec]) -> None:
        os.environ[CHECKOUT] = str(checkout.resolve())
        self.targets = tuple(targets)
        self.pool = WorkerPool([SUITE, target("eager"), *targets], WorkerSettings(case_seconds=_SECONDS, retire_after=40))
        self.pool.start()
        self.evaluator = Evaluator(SlotRunner(self.pool, 0))

    def ask(self, **options: str | bool) -> Outcome:
        """One job of the capturing worker."""
        return self.pool.worker(SUITE.name).run(Job(_NOTHING, SUITE.name, options=options))

    def names(self) -> tuple[list[str], dict[str, list[str]]]:
        """All tests, and the suite's lists by name."""
        self.pool.check(SUITE.name)
        told = self.ask(list=True)
        if told.status is not Status.OK:
            raise SystemExit(f"the suite cannot be registered: {told.message}\n{told.artifacts.get('traceback', '')}")
        return json.loads(told.artifacts["tests"]), json.loads(told.artifacts["lists"])

    def row(self, test: str) -> Row:
        """Capture a test, and run what it calls on every target."""
        told = self.ask(test=test)
        if told.status is Status.HARNESS_ERROR:
            return Row(test, internal=f"{told.stage}: {told.message}")
        if told.status is not Status.OK:
            return Row(test, refused=told.message or f"{told.status.value} in {told.stage}")
        texts = [told.artifacts[f"case/{index}"] for index in range(len(told.artifacts) - 1)]
        answers: dict[str, Answer] = {}
        for text in texts:
            evaluation = self.evaluator.evaluate(from_json(Case, text.encode("ascii"), where=test), self.targets)
            if evaluation.reference.status is Status.HARNESS_ERROR:
                return Row(test, told.artifacts["how"], internal=f"eager: {evaluation.reference.message}")
            if not evaluation.valid:
                return Row(test, told.artifacts["how"], f"eager refuses what was captured: {evaluation.reference.message}")
            for spec in self.targets:
                found = answer_of(evaluation, spec.name)
                if spec.name not in answers or _ORDER.index(found.answer) > _ORDER.index(answers[spec.name].answer):
                    answers[spec.name] = found
        return Row(test, told.artifacts["how"], answers=answers)

    def with_own(self, row: Row, failing: Mapping[str, Container[str]]) -> Row:
        """The row with what the suite's own configurations say, wherever ours is not what its lists say."""
        own = dict(row.own)
        for name, listed in failing.items():
            if name not in own and differs(row, name, expected_to_fail=row.test in listed):
                told = self.ask(test=row.test, config=lowering_of(name).name)
                own[name] = "" if told.status is Status.OK else told.message or f"{told.status.value} in {told.stage}"
        return replace(row, own=own)


def answer_of(evaluation: Evaluation, name: str) -> Answer:
    """What a target's outcome and its verdicts come to."""
    outcome, verdicts = evaluation.observed[name], evaluation.of(name)
    if outcome.status is Status.HARNESS_ERROR:
        return Answer(INTERNAL, f"{outcome.stage}: {outcome.message}"[:300])
    if verdicts:
        values = all(verdict.kind in (Kind.VALUE, Kind.SPECIAL) for verdict in verdicts)
        return Answer(
            DISAGREES, f"{verdicts[0].kind.value}: {verdicts[0].message}"[:300], values and forgiven(evaluation.reference, outcome)
        )
    if outcome.status is Status.OK:
        return Answer(AGREES)
    said = outcome.death.stderr.strip().splitlines()[-1:] if outcome.death is not None else []
    return Answer(REFUSES, f"{outcome.stage}: {' '.join([outcome.message.splitlines()[0] if outcome.message else '', *said])}"[:300])


def forgiven(reference: Outcome, observed: Outcome) -> bool:
    """Whether the suite's own comparison lets the difference pass."""
    pairs = [
        (want, have)
        for expected, actual in zip(reference.calls, observed.calls, strict=True)
        for (_, want), (_, have) in zip(leaves(expected.output), leaves(actual.output), strict=True)
        if isinstance(want, Tensor) and isinstance(have, Tensor)
    ]
    return all(np.allclose(have.array(), want.array(), SUITE_RTOL, SUITE_ATOL, equal_nan=True) for want, have in pairs)


def differs(row: Row, name: str, *, expected_to_fail: bool) -> bool:
    """Whether an answer is not what the suite's lists say."""
    found = row.answers.get(name)
    return found is not None and (found.answer == AGREES) == expected_to_fail


def explanation(row: Row, name: str, *, expected_to_fail: bool) -> str | None:
    """Why an answer is not what the suite's lists say, with what the suite itself makes of the test here; None where it is."""
    if not differs(row, name, expected_to_fail=expected_to_fail):
        return None
    found, own = row.answers[name], row.own.get(name)
    if found.answer == AGREES:
        ours = "listed as failing, agrees here"
    elif found.lenient:
        ours = f"fxdiff is stricter than the suite's rtol {SUITE_RTOL}, atol {SUITE_ATOL}: {found.says}"
    else:
        ours = f"listed as passing, {found.answer} here: {found.says}"
    theirs = "" if own is None else "; the suite's own run passes here too" if not own else f"; the suite's own run fails here: {own}"
    return ours + theirs


def report(rows: Sequence[Row], lists: Mapping[str, Sequence[str]], total: int) -> Iterator[str]:
    """The counts, every refusal by reason, every difference from the lists, and what of ours went wrong."""
    checked = [row for row in rows if row.answers]
    refused = [row for row in rows if row.refused]
    internal = [row for row in rows if row.internal or any(each.answer == INTERNAL for each in row.answers.values())]
    yield f"{len(rows)} of {total} tests: {len(checked)} checked, {len(refused)} refused before any target, {len(internal)} internal errors"
    for reason, count in Counter(re.sub(r"[\d.]+ s|0x\w+", "..", row.refused)[:160] for row in refused).most_common():
        yield f"  refused {count}: {reason}"
    for row in internal:
        yield f"  INTERNAL {row.test}: {row.internal or [each.says for each in row.answers.values() if each.answer == INTERNAL]}"
    for name, keys in CONFIGS.items():
        failing = failing_of(keys, lists)
        counts = Counter((row.answers[name].answer, row.test in failing) for row in checked if name in row.answers)
        said = ", ".join(f"{answer} {counts[answer, False]} (+{counts[answer, True]} in the suite's lists)" for answer in _ORDER[:3])
        yield f"{name}: {said}"
        for row in checked:
            why = explanation(row, name, expected_to_fail=row.test in failing)
            if why is not None:
                yield f"  {row.test}: {why}"


def failing_of(keys: Sequence[str], lists: Mapping[str, Sequence[str]]) -> set[str]:
    """The tests that any of these lists holds."""
    return {test for key in keys for test in lists[key]}


def read_rows(path: Path | None) -> dict[str, Row]:
    """The rows of an earlier run."""
    found: dict[str, Row] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else ():
        data = json.loads(line)
        answers = {name: Answer(**each) for name, each in data.pop("answers").items()}
        found[data["test"]] = Row(**data, answers=answers)
    return found


def main() -> int:
    """Run the suite, or a part of it, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--filter", default="", help="only tests whose name this regular expression finds")
    parser.add_argument("--sample", type=int, default=0, help="only so many tests, evenly spread")
    parser.add_argument("--seconds", type=float, default=0.0, help="start no test after so many seconds")
    parser.add_argument("--rows", type=Path, help="keep one JSON line a test here, and go on from what it holds")
    arguments = parser.parse_args()
    if not (arguments.checkout / "projects" / "pt1" / "e2e_testing").is_dir():
        parser.error(f"{arguments.checkout} is no checkout of llvm/torch-mlir")
    begun = time.monotonic()
    suite = Suite(arguments.checkout, [target(name) for name in CONFIGS])
    rows = read_rows(arguments.rows)
    try:
        tests, lists = suite.names()
        failing = {name: failing_of(keys, lists) for name, keys in CONFIGS.items()}
        chosen = [test for test in tests if re.search(arguments.filter, test)]
        if arguments.sample:
            chosen = chosen[:: max(1, len(chosen) // arguments.sample)][: arguments.sample]
        with arguments.rows.open("a", encoding="utf-8") if arguments.rows else contextlib.nullcontext() as kept:
            for number, test in enumerate(chosen):
                if arguments.seconds and time.monotonic() - begun > arguments.seconds:
                    break
                before = rows.get(test)
                rows[test] = row = suite.with_own(before or suite.row(test), failing)
                if row == before:
                    continue
                print(f"{number + 1}/{len(chosen)} {test}", file=sys.stderr)
                if kept is not None:
                    kept.write(json.dumps(asdict(row)) + "\n")
                    kept.flush()
    finally:
        suite.pool.close()
    told = [rows[test] for test in chosen if test in rows]
    print("\n".join(report(told, lists, len(tests))))
    return 3 if any(row.internal or any(each.answer == INTERNAL for each in row.answers.values()) for row in told) else 0


if __name__ == "__main__":
    raise SystemExit(main())
