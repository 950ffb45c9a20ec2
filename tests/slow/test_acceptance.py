"""Eager PyTorch accepts what is drawn, and agrees with every prediction; exact cases are exact."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from generators.draw import draw
from generators.profile import PROFILES
from tests.generators.eager_check import check

WANTED = 0.985


@pytest.mark.parametrize(("name", "count"), [("default", 2000), ("small", 1000), ("special", 500), ("large", 200)])
def test_eager_accepts_the_cases_and_agrees_with_every_prediction(name: str, count: int) -> None:
    rejected: Counter[str] = Counter()
    wrong: list[str] = []
    for index in range(count):
        drawn = draw(PROFILES[name], 1234, index)
        report = check(drawn, twin=drawn.case.lane == "exact")
        if report.rejected:
            rejected[report.rejected[:120]] += 1
        wrong += [f"{index}: {text}" for text in report.wrong + report.inexact]
    assert not wrong
    rate = 1 - rejected.total() / count
    assert rate >= WANTED, f"{rate:.1%} accepted; refused most often: {rejected.most_common(5)}"


def test_drawing_is_cheap() -> None:
    draw(PROFILES["default"], 0, 0)
    began = time.process_time()
    nodes = sum(len(draw(PROFILES["default"], 5, index).case.program.operators) for index in range(300))
    spent = 1000 * (time.process_time() - began)
    assert spent / nodes < 1.5, f"{spent / nodes:.2f} ms of CPU per node"
