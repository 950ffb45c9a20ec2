from __future__ import annotations

import torch


def test_torch_lists_the_backend() -> None:
    assert "oneflow" in torch._dynamo.list_backends()
