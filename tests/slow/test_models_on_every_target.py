"""The written-out models through `fxdiff check` on every target that can run here: whatever it says, nothing of ours goes wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.backends.protocol import targets
from harness.environments.availability import missing

ROOT = Path(__file__).resolve().parents[2]
MODELS = ("vit", "gpt", "unet", "lstm_tagger", "resnet18", "detector")
# Eager is the reference; the copy's second answer and the layers below Inductor have tests of their own.
LEFT_OUT = ("eager", "eager:copy", "compile:aot_eager_decomp_partition", "backend:aot_eager_decomp_partition", "backend:eager")


@pytest.mark.parametrize("mode", ["fwd", "train"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_answered_for_by_every_target(name: str, mode: str, tmp_path: Path) -> None:
    source = (ROOT / "tests" / "models" / f"{name}.py").read_text(encoding="utf-8")
    (tmp_path / f"{name}.py").write_text(f"{source}\n\nMODE = {mode!r}\n", encoding="utf-8")
    # The doubles of other tests are registered in this process only.
    ours = [spec for spec in targets() if spec.entry.startswith("harness.") and spec.name not in LEFT_OUT]
    chosen = [spec.name for spec in ours if missing(spec.zygote) is None]
    command = [sys.executable, "-m", "harness.cli.main", "check", f"{name}.py", "--no-minimize", "--json", "-q", "--case-timeout", "120s"]
    for each in chosen:
        command += ["-t", each]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "FXDIFF_NO_PLUGINS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    answer = json.loads(done.stdout)
    (module,) = answer["modules"]
    assert {each["target"] for each in module["targets"]} >= set(chosen), answer["missing"]
    assert not [fault for each in module["targets"] for fault in each["faults"] if "fault of fxdiff" in fault]
