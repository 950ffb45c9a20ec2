"""Scripts that replay through fxdiff are run too, for a target that is wrong and for one that is right."""

from __future__ import annotations

import sys

from harness.backends.protocol import TargetSpec, target
from harness.model.verdict import Kind, Severity, Verdict
from harness.reproducers.replay import repro_source
from harness.reproducers.run import ReproRun, run_source
from tests.reproducers.builders import roll_case


def run(spec: TargetSpec, kind: Kind) -> ReproRun:
    verdict = Verdict("any", kind, spec.name, Severity.WRONG_VALUE, "said")
    return run_source(repro_source(roll_case(1), verdict, spec), path=[entry for entry in sys.path if entry])


def test_a_faithful_target_shows_nothing() -> None:
    ran = run(target("eager:copy"), Kind.VALUE)
    assert ran.exit_code == 0, ran.output


def test_a_wrong_target_shows_its_bug() -> None:
    spec = TargetSpec("plain", "tests.doubles.plain:PlainBackend", "sums of inputs, in numpy", zygote="plain", family="plain")
    ran = run(spec, Kind.STRUCTURE)
    assert ran.shows_the_bug, ran.output
