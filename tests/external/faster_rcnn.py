"""torchvision's Faster R-CNN through torch.compile(backend="oneflow"): boxes, labels and scores against eager.

`tox run -e faster-rcnn` installs torchvision and the torch that it was built for (5.5 GB) beside fxdiff, and runs this with random
weights and small images of two sizes, sizes static and then symbolic; symbolic ones take Dynamo itself some ten minutes. `nms` and
`roi_align` have no CPU kernel in OneFlow and stay in torch; the last lines say which share of nodes ran in OneFlow.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

import torch
import torch._dynamo

from harness.compilers.oneflow import Placed, forget_placements, placements

SIZES = ((96, 128), (128, 112))
TOLERANCE = 1e-3


def model(name: str) -> torch.nn.Module:
    """A detector with random weights, in eval mode, that keeps whatever it finds."""
    from torchvision.models import detection

    torch.manual_seed(0)
    built: torch.nn.Module = getattr(detection, name)(
        weights=None,
        weights_backbone=None,
        num_classes=5,
        min_size=96,
        max_size=160,
        rpn_pre_nms_top_n_test=60,
        rpn_post_nms_top_n_test=20,
        box_score_thresh=0.0,
        box_detections_per_img=20,
    )
    # Random weights without batch statistics let activations grow by every block.
    for module in built.modules():
        if type(module).__name__ == "FrozenBatchNorm2d":
            module.weight.fill_(0.5)
    return built.eval()


def differs(actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> str:
    """How two detections differ, whatever the order of equals; empty where they do not."""
    if actual.keys() != expected.keys() or any(type(value) is not torch.Tensor for value in actual.values()):
        return f"keys and types: {[(key, type(value).__name__) for key, value in actual.items()]}"
    if actual["boxes"].shape != expected["boxes"].shape:
        return f"{len(actual['boxes'])} boxes instead of {len(expected['boxes'])}"
    free = list(range(len(actual["boxes"])))
    scale = float(expected["boxes"].abs().max()) if len(free) else 1.0
    for box, label, score in zip(expected["boxes"], expected["labels"], expected["scores"], strict=True):
        match = next(
            (
                index
                for index in free
                if actual["labels"][index] == label
                and abs(actual["scores"][index] - score) <= TOLERANCE
                and (actual["boxes"][index] - box).abs().max() <= TOLERANCE * scale
            ),
            None,
        )
        if match is None:
            return f"no box like {[round(value, 2) for value in box.tolist()]} with label {int(label)} and score {float(score):.4f}"
        free.remove(match)
    return ""


def report(found: tuple[Placed, ...]) -> str:
    """Which share of nodes ran in OneFlow, and why the others did not."""
    ours = sum(len(each.oneflow) for each in found)
    others = Counter(
        f"{reason.kind}: {reason.reason[:70]}" for each in found for reason in each.torch.values() if reason.kind not in ("number", "mode")
    )
    total = ours + sum(others.values())
    lines = [f"{ours} of {total} nodes on tensors ran in OneFlow ({ours / max(total, 1):.1%}), in {len(found)} graphs"]
    return "\n".join([*lines, *(f"  {count:4} in torch, {text}" for text, count in others.most_common(12))])


def main(arguments: list[str] | None = None) -> int:
    """Run every size with sizes static and symbolic; 0 where all agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="fasterrcnn_resnet50_fpn", help="a function of torchvision.models.detection")
    parser.add_argument("--dynamic", choices=("off", "on", "both"), default="both")
    options = parser.parse_args(arguments)
    detector = model(options.model)
    wrong = 0
    with torch.no_grad():
        images = [[torch.rand(3, *size)] for size in SIZES]
        expected = [detector(each) for each in images]
        for dynamic in {"off": (False,), "on": (True,), "both": (False, True)}[options.dynamic]:
            torch._dynamo.reset()
            forget_placements()
            compiled = torch.compile(detector, backend="oneflow", dynamic=dynamic)
            for size, each, wanted in zip(SIZES, images, expected, strict=True):
                started = time.monotonic()
                actual = compiled(each)
                said = differs(actual[0], wanted[0])
                wrong += bool(said)
                count = len(wanted[0]["boxes"])
                seconds = time.monotonic() - started
                print(f"dynamic {dynamic}, image {size}: {said or f'{count} boxes, labels and scores agree'} ({seconds:.1f} s)", flush=True)
            print(report(placements()), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
