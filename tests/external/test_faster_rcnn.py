from __future__ import annotations

import torch

from harness.compilers.oneflow import Placed
from harness.compilers.oneflow.support import Refusal
from tests.external.faster_rcnn import differs, report


def detection(*scores: float) -> dict[str, torch.Tensor]:
    count = len(scores)
    return {
        "boxes": torch.arange(4.0 * count).view(count, 4),
        "labels": torch.ones(count, dtype=torch.int64),
        "scores": torch.tensor(scores),
    }


def test_equal_detections_agree_in_any_order() -> None:
    found = detection(0.9, 0.5)
    assert not differs(found, detection(0.9, 0.5))
    assert not differs({key: value.flip(0) for key, value in found.items()}, detection(0.9, 0.5))
    assert not differs(detection(), detection())


def test_other_scores_labels_boxes_and_counts_are_told() -> None:
    assert "0.5000" in differs(detection(0.9, 0.6), detection(0.9, 0.5))
    assert "label 1" in differs({**detection(0.9), "labels": torch.zeros(1, dtype=torch.int64)}, detection(0.9))
    assert "1 boxes instead of 2" in differs(detection(0.9), detection(0.9, 0.5))
    assert differs({**detection(0.9), "boxes": torch.ones(1, 4)}, detection(0.9))
    assert "types" in differs({"boxes": 1}, detection(0.9))


def test_the_report_says_the_share_and_the_reasons() -> None:
    placed = Placed(("a", "b", "c"), {"n": Refusal("untranslated", "torchvision.nms"), "s": Refusal("number", "a size")}, 1)
    text = report((placed,))
    assert "3 of 4 nodes on tensors ran in OneFlow (75.0%), in 1 graphs" in text
    assert "1 in torch, untranslated: torchvision.nms" in text
