"""The FX toolkit on flowvision's ResNet-18, and tracing over drawn programs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from generators.draw import draw_case
from generators.profile import profile
from harness.backends.eager import EagerBackend, Silent
from harness.backends.protocol import target
from harness.environments.oneflow_env import oneflow_python
from harness.model.codec import to_wire
from harness.model.outcome import Job, Outcome, Status, Witness
from harness.workers.pool import WorkerPool
from tests.backends.oneflow.running import needs_oneflow
from tests.oneflow_fx.inside import Inside

pytestmark = needs_oneflow
# flowvision imports the others; oneflow declares pillow, which it never imports itself.
FLOWVISION = ("flowvision==0.2.2", "six", "tabulate", "pillow")
INSIDE = Inside("../slow/inside_resnet.py")


@pytest.fixture(scope="module")
def flowvision(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("flowvision")
    command = [str(oneflow_python().python), "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *FLOWVISION]
    installed = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if installed.returncode != 0:
        pytest.skip(f"flowvision cannot be installed: {installed.stderr[-300:]}")
    return folder


@pytest.mark.parametrize("check", INSIDE.checks)
def test_resnet18(check: str, flowvision: Path) -> None:
    INSIDE.expect(check, path=(str(flowvision),))


def test_what_is_traced_computes_the_same_over_drawn_programs() -> None:
    compared = 0
    with WorkerPool([target("oneflow:fx")]) as pool:
        for index in range(150):
            case, _ = draw_case(profile("default"), 11, index)
            eager = EagerBackend().run(case, Job(b"", "eager", ("trace",)), Silent())
            if eager.status is not Status.OK:
                continue
            wire = to_wire(Outcome("eager", Status.OK, witness=tuple(Witness(trace=each.trace) for each in eager.witness)))
            job = Job(to_wire(case), "oneflow:fx", reference=wire)
            plain = pool.worker("oneflow:fx").run(Job(job.case_bytes, job.target, reference=wire, options={"way": "eager"}))
            traced = pool.worker("oneflow:fx").run(job)
            if plain.status is not Status.OK or traced.status is Status.UNSUPPORTED:
                continue
            assert traced.status is Status.OK, (index, traced.message)
            assert traced.calls == plain.calls, index
            compared += 1
    assert compared > 40


def test_profile_measures_a_users_module(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(
        "import torch\ndef build():\n    return torch.nn.Sequential(torch.nn.Linear(400, 400), torch.nn.ReLU())\n"
        "def inputs():\n    return (torch.ones(500, 400),)\n"
    )
    command = [sys.executable, "-m", "harness.cli.main", "profile", str(file), "--target", "oneflow", "--json"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    (graph,) = json.loads(run.stdout)["graphs"]
    assert [node["name"] for node in graph["nodes"]] == ["linear", "relu"]
    assert graph["nodes"][0]["share"] > 0.5
