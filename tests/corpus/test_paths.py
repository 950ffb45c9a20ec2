from __future__ import annotations

import pytest

from harness.corpus.entry import trim
from harness.corpus.paths import shorten_paths
from harness.model.outcome import Death, Diagnostic, NodeResult, Outcome, Status


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ('File "/home/me/work/harness/workers/worker.py", line 7', 'File "worker.py", line 7'),
        ("/home/me/venv/lib/python3.10/site-packages/oneflow/nn/pooling.py:3", "oneflow/nn/pooling.py:3"),
        ("/home/ci-user/manylinux/oneflow/user/ops/conv_op.cpp:27", "oneflow/user/ops/conv_op.cpp:27"),
        ("a/b of 3/4, https://example.org/a/b and <dense/x>", "a/b of 3/4, https://example.org/a/b and <dense/x>"),
    ],
)
def test_a_path_is_cut_to_what_others_can_use(text: str, short: str) -> None:
    assert shorten_paths(text) == short


def test_nothing_that_is_stored_names_a_folder_of_this_machine() -> None:
    path = "/secret/folder/file.py"
    outcome = Outcome(
        "t",
        Status.CRASH,
        message=path,
        diagnostics=(Diagnostic("error", path),),
        nodes=(NodeResult("n", 0, Status.ERROR, message=path),),
        death=Death("SIGSEGV", None, path),
        artifacts={"log": path},
    )
    assert "secret" not in repr(trim(outcome))
