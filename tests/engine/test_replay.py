from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from harness.backends.protocol import target
from harness.cli.session import SlotRunner
from harness.corpus import Entry
from harness.corpus.entry import FIXED
from harness.engine.evaluate import Evaluator
from harness.engine.replay import Replay, State, replay_entry
from harness.model.case import Case
from harness.model.outcome import Outcome, Status
from harness.model.program import Node, Program
from harness.model.values import Ref
from harness.model.verdict import Kind
from harness.workers.pool import WorkerPool
from tests.doubles.entries import entry
from tests.engine.campaigning import case_of


def replayed(pool: WorkerPool, given: Entry, *, against_stored: bool = True) -> Replay:
    runner = SlotRunner(pool, 0)
    return replay_entry(given, target(given.target), Evaluator(runner, want=("trace",)), runner, against_stored=against_stored)


@pytest.mark.parametrize(
    ("given", "state", "as_expected", "conclusive"),
    [
        (entry("a", "wrong:value"), State.STILL_FAILS, True, True),
        (entry("a", "wrong:value", status=FIXED), State.STILL_FAILS, False, True),
        (entry("a", "wrong:nothing"), State.FIXED, False, True),
        (entry("a", "wrong:nothing", status=FIXED), State.FIXED, True, True),
        (entry("a", "wrong:dtype"), State.CHANGED, False, True),
        (entry("a", "wrong:abort"), State.CHANGED, False, True),
        (entry("a", "wrong:refuse"), State.REFUSES, False, False),
        (entry("a", "wrong:harness"), State.CANNOT_RUN, False, False),
        (entry("a", "wrong:value", stored=0.25), State.REFERENCE_CHANGED, False, False),
    ],
)
def test_what_became_of_a_bug(pool: WorkerPool, given: Entry, state: State, as_expected: bool, conclusive: bool) -> None:
    found = replayed(pool, given)
    assert (found.state, found.as_expected, found.conclusive) == (state, as_expected, conclusive), found.message
    assert found.message


def test_what_eager_gives_now_is_taken_when_asked(pool: WorkerPool) -> None:
    assert replayed(pool, entry("a", "wrong:value", stored=0.25), against_stored=False).state is State.STILL_FAILS


def test_a_flaky_bug_is_given_its_chances(pool: WorkerPool) -> None:
    """Every other run is wrong: asked once, it would be called fixed half of the time."""
    flaky = dataclasses.replace(entry("a", "wrong:flaky"), reproduced=(1, 2))
    assert [replayed(pool, flaky).state for _ in range(4)] == [State.STILL_FAILS] * 4


def test_a_death_of_a_later_case_is_replayed_with_both(pool: WorkerPool) -> None:
    base = entry("a", "wrong:heap")
    assert base.verdict is not None
    both = dataclasses.replace(base, victim=case_of("torch.exp"), verdict=dataclasses.replace(base.verdict, kind=Kind.CRASH))
    assert replayed(pool, both).state is State.STILL_FAILS
    assert replayed(pool, dataclasses.replace(both, target="wrong:heaplater")).state is State.STILL_FAILS
    assert replayed(pool, dataclasses.replace(both, target="wrong:nothing")).state is State.FIXED


def test_a_case_that_eager_refuses_now_says_nothing_of_the_target(pool: WorkerPool) -> None:
    base = entry("a", "wrong:value")
    nodes = (
        *base.case.program.nodes[:1],
        Node("sin_1", "call_function", "torch.bitwise_not", (Ref("x0"),)),
        *base.case.program.nodes[2:],
    )
    case: Case = dataclasses.replace(base.case, program=Program(nodes))
    found = replayed(pool, dataclasses.replace(base, case=case))
    assert found.state is State.REFERENCE_CHANGED and "no longer takes" in found.message


def test_a_broken_reference_is_no_changed_reference() -> None:
    class Broken:
        def run(self, job: object, *, fresh: bool = False, patience: float = 1.0) -> Outcome:
            return Outcome("eager", Status.HARNESS_ERROR, message="no worker on purpose")

    given = entry("a", "wrong:value")
    found = replay_entry(given, target(given.target), Evaluator(Broken()), Broken())  # type: ignore[arg-type]
    assert found.state is State.CANNOT_RUN and "no worker on purpose" in found.message


def test_the_stored_values_are_those_of_eager() -> None:
    stored = entry("a", "wrong:value").reference.calls[0].output
    assert np.array_equal(stored.array(), np.sin(np.zeros(1, np.float32)))
