"""Whole models through torch.compile(backend="oneflow") in scripts that import only torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.compilers.oneflow.helpers import needs_oneflow

pytestmark = needs_oneflow
SCRIPT = Path(__file__).parents[1] / "compilers/oneflow/only_torch.py"
MODELS = ("mlp", "conv_bn", "resnet18", "attention", "lstm_cell", "detector")


@pytest.mark.parametrize("flags", [(), ("--dynamic",)], ids=["static", "dynamic"])
def test_models_infer_and_train_as_in_eager(flags: tuple[str, ...], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, *MODELS, *flags], cwd=tmp_path, capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("agree") == len(MODELS)


def test_oneflow_does_every_one_of_them_whole(tmp_path: Path) -> None:
    command = [sys.executable, SCRIPT, *MODELS, "--fullgraph"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("agree") == len(MODELS)
