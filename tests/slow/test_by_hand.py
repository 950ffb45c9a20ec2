"""The findings written again by hand still show, each in its bare target; and what none of them names is not asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.environments.availability import missing

BY_HAND = Path(__file__).parents[1] / "external" / "by_hand"


def run(target: str, *ids: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(BY_HAND / f"{target}.py"), *ids], capture_output=True, text=True, timeout=3000, check=False)


@pytest.mark.parametrize(("target", "zygote"), [("torch_mlir", "torch-mlir"), ("oneflow", "oneflow"), ("oneflow_graph", "oneflow")])
def test_every_finding_shows(target: str, zygote: str) -> None:
    if why := missing(zygote):
        pytest.skip(why.what)
    ran = run(target)
    lines = ran.stdout.splitlines()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(lines) > (5 if target == "oneflow_graph" else 30)
    assert all("  confirmed  " in line for line in lines)


@pytest.mark.parametrize("target", ["torch_mlir", "oneflow", "oneflow_graph"])
def test_an_unknown_finding_is_named(target: str) -> None:
    ran = run(target, "00000000")
    assert ran.returncode == 2
    assert ran.stderr.strip() == "no such finding: 00000000"
