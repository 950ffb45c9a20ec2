"""The interpreter's property: on the imported IR of drawn programs it gives what eager gives, and it knows every operation."""

from __future__ import annotations

import pytest

from generators.draw import draw_case
from generators.profile import PROFILES
from harness.backends.eager import EagerBackend
from harness.backends.torch_mlir.warmup import SILENT
from harness.errors import Unsupported
from harness.model.outcome import Job, Status
from tests.backends.torch_mlir.interpreted import disagreements, imported_meaning

CASES = 60


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("route", ["raw", "decomposed"])
@pytest.mark.parametrize("seed", [11, 12, 13])
def test_the_interpreter_agrees_with_eager(seed: int, route: str) -> None:
    eager, checked = EagerBackend(), 0
    for index in range(CASES):
        case, _ = draw_case(PROFILES["default"], seed, index)
        try:
            meaning, calls = imported_meaning(case, route)
        except Unsupported:
            continue
        reference = eager.run(case, Job(b"", "eager", want=("trace", "twin", "spread")), SILENT)
        if reference.status is not Status.OK:
            continue
        assert (meaning.unknown, meaning.refused) == ("", None), f"seed {seed}, case {index}"
        if meaning.undetermined:
            continue
        assert disagreements(case, meaning, calls, reference) == (), f"seed {seed}, case {index}"
        checked += 1
    assert checked > CASES * 3 // 4
