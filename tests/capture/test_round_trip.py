"""Program -> module -> Program: what was drawn comes back from a trace of its own module and computes the same."""

from __future__ import annotations

import pytest
import torch

from generators.draw import draw_case
from generators.profile import profile
from harness.capture import HOW, capture
from harness.errors import CaptureError
from harness.model.case import Case
from harness.model.opnames import canonical
from harness.torch_bridge.module import build
from harness.torch_bridge.tensors import from_torch
from tests.capture.modules import bits, case_result

COUNT = {"symbolic_trace": 60, "dynamo": 6, "export": 12}
SEED = 11


def drawn(index: int) -> Case:
    return draw_case(profile("default"), SEED, index)[0]


def outcome(case: Case) -> list[object] | None:
    """What eager gives, or None where it refuses the case."""
    built = build(case)
    try:
        with torch.no_grad():
            return bits(from_torch(built.module(*built.inputs(0))))
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
        return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", HOW)
def test_drawn_programs_survive_capture(how: str) -> None:
    torch.set_num_threads(1)
    same, refused = 0, []
    for index in range(COUNT[how]):
        case = drawn(index)
        wanted = outcome(case)
        if wanted is None:
            continue
        built = build(case)
        try:
            cases = capture(built.module, built.inputs(0), how=how)  # type: ignore[arg-type]
        except CaptureError as error:
            refused.append((index, str(error)))
            continue
        assert len(cases) == 1, index
        again = cases[0]
        assert case_result(again) == wanted, index
        same += 1
        if how == "symbolic_trace":
            before, after = ([canonical(node, one.program) for node in one.program.operators] for one in (case, again))
            assert [name for name in after if name in before] == [name for name in before if name in after], index
    assert len(refused) <= COUNT[how] // 10, refused
    assert same >= COUNT[how] // 2
