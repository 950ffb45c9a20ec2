"""A worker's environment that is deleted while a run uses it: a stand-in for the real one, which is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.backends.protocol import target
from harness.cli.exit_codes import ExitCode
from harness.cli.session import Session
from harness.engine.evaluate import Evaluator
from harness.environments.cache import cache_dir, environment_dir
from harness.environments.oneflow_env import oneflow_python
from harness.model.outcome import Status
from tests.cli.running import Ran, finished_cases, fxdiff, start, wait_until
from tests.doubles.cases import unary_case


def test_an_environment_that_is_deleted_in_the_middle_is_named_and_ends_nothing_else(tmp_path: Path) -> None:
    real = oneflow_python()
    cache = tmp_path / "cache"
    stand_in = cache / environment_dir("oneflow").relative_to(cache_dir())
    stand_in.parent.mkdir(parents=True)
    stand_in.symlink_to(real.root)
    env, folder = {"FXDIFF_CACHE": str(cache)}, tmp_path / "out"
    options = ("--seed", "5", "--max-cases", "12", "--jobs", "1", "--op", "sin", "--op", "cos", "--no-minimize", "--fail-on", "never")
    process = start("fuzz", "-t", "oneflow:lockstep", "-t", "eager:copy", "-o", str(folder), *options, cwd=tmp_path, env=env)
    wait_until(lambda: finished_cases(folder) >= 2, process)
    stand_in.unlink()
    out, err = process.communicate(timeout=300)
    ran = Ran(process.returncode, out, err, folder)
    assert ran.code == ExitCode.NOTHING_NEW, err
    assert ran.summary["cases"] == 12, "the run goes on"
    assert ran.summary["statuses"]["eager:copy"] == {"ok": ran.summary["valid"]}, "other targets are not touched"
    assert not ran.summary["findings"], "that it is gone is no bug of OneFlow's"
    assert "Traceback" not in err
    assert oneflow_python().root == real.root
    again = fxdiff("fuzz", "--require-target", "oneflow:lockstep", "--max-cases", "1", cwd=tmp_path, env=env)
    assert again.code == ExitCode.TARGET_UNAVAILABLE
    assert "OneFlow's environment is not built" in again.err
    assert "mend it with" in again.err


def test_a_worker_that_finds_its_environment_gone_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = oneflow_python()
    cache = tmp_path / "cache"
    stand_in = cache / environment_dir("oneflow").relative_to(cache_dir())
    stand_in.parent.mkdir(parents=True)
    stand_in.symlink_to(real.root)
    monkeypatch.setenv("FXDIFF_CACHE", str(cache))
    session = Session.open(["oneflow:lockstep"])
    spec = target("oneflow:lockstep")
    try:
        evaluator = Evaluator(session.runner(0), want=("trace",))
        case = unary_case("torch.cos")
        assert evaluator.evaluate(case, [spec], fresh=True).observed[spec.name].status is Status.OK
        stand_in.unlink()
        gone = evaluator.evaluate(case, [spec], fresh=True)
        outcome = gone.observed[spec.name]
        assert outcome.status is Status.HARNESS_ERROR, "it is neither a crash of OneFlow nor a refusal"
        assert gone.of(spec.name) == ()
        assert "its environment is gone" in outcome.message, outcome.message
    finally:
        session.close()
