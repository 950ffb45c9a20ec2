from __future__ import annotations

import platform
import socket

import pytest

from harness.exporting.scrub import HOST, host_names, scrub, scrub_diagnostics


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ('File "/home/ada/work/secret/run.py", line 3', 'File "run.py", line 3'),
        ('loc("/root/.cache/x/module.mlir":1:1)', 'loc("module.mlir":1:1)'),
        ("/usr/lib/python3.11/site-packages/torch_mlir/fx.py:86", "torch_mlir/fx.py:86"),
        ("see /Users/ada/ for more", "see ... for more"),
        ("in ~/work/model.py", "in model.py"),
        ("C:\\Users\\ada\\work\\model.py: bad", "model.py: bad"),
        ('File "/home/ci/_work/oneflow/oneflow/oneflow/user/ops/conv_op.cpp", line 27', 'File "oneflow/user/ops/conv_op.cpp", line 27'),
        ("/ci/oneflow/core/common/shape.cpp:29", "oneflow/core/common/shape.cpp:29"),
        ("F20261130 22:58:37.802744  1042 shape.cpp:30] Check failed: a < b", "shape.cpp:30] Check failed: a < b"),
        ("died: F1130\n22:58:37.802744\n30080 shape.cpp:30] no", "died: shape.cpp:30] no"),
        ("(/tmp/fxdiff-repro-x1/repro.py)", "(repro.py)"),
    ],
)
def test_paths_are_cut(text: str, clean: str) -> None:
    assert scrub(text, hosts=()) == clean


@pytest.mark.parametrize(
    "text",
    [
        "https://github.com/llvm/torch-mlir/issues/4242",
        "x = a / b / c  # 3 / 4",
        "builtin.module(func.func(convert-scf-to-cf), one-shot-bufferize{copy-before-write})",
        "actual = x // 2",
        "</details>",
        "at 22:58:37 it was late",
        "projects/pt1/tools/e2e_test.sh",
    ],
)
def test_what_is_no_path_stays(text: str) -> None:
    assert scrub(text, hosts=()) == text


def test_host_names_are_replaced_as_words() -> None:
    assert scrub("node17.lab.example: node17 and node170", hosts=["node17", "node17.lab.example"]) == f"{HOST}: {HOST} and node170"
    assert scrub("import torch", hosts=["torch"]) == "import torch"


def test_this_machine_is_known_by_all_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu-box.corp.example")
    monkeypatch.setattr(platform, "node", lambda: "gpu-box")
    assert host_names() == {"gpu-box", "gpu-box.corp.example"}
    assert scrub("W1130 gpu-box.corp.example] died") == f"W1130 {HOST}] died"


def test_addresses_go_from_diagnostics_only() -> None:
    assert scrub_diagnostics("@ 0x7fc98bcd5bd0 f()") == "@ 0x... f()"
    assert scrub("0x7fc98bcd5bd0", hosts=()) == "0x7fc98bcd5bd0"
