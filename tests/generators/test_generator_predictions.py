"""What the generator predicts of every tensor, against eager PyTorch."""

from __future__ import annotations

import importlib

import pytest

from generators.catalogue import FAMILIES
from generators.draw import draw
from generators.profile import PROFILES, derive
from tests.generators.eager_check import check


@pytest.mark.parametrize("module", FAMILIES)
def test_each_family_keeps_its_predictions(module: str) -> None:
    ops = importlib.import_module(f"generators.ops.{module}").OPS
    profile = derive(PROFILES["small"], ops=[spec.key for spec in ops])
    for index in range(25):
        drawn = draw(profile, 21, index)
        report = check(drawn, twin=drawn.case.lane == "exact")
        assert report.rejected is None
        assert not report.wrong
        assert not report.inexact
