from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from harness.engine.bindings import with_second_binding
from harness.model.case import Case
from harness.model.symbols import Symbol
from harness.model.values import Tensor
from tests.engine.campaigning import case_of


def elements(case: Case, call: int) -> np.ndarray:
    value = case.arguments(call)["x0"]
    assert isinstance(value, Tensor)
    return value.array()


@pytest.mark.parametrize(("low", "high", "other"), [(0, 64, 4), (0, 3, 2), (3, 3, None), (0, 2, None)])
def test_a_dynamic_case_is_called_with_another_size_too(low: int, high: int, other: int | None) -> None:
    size = min(3, high)
    case = dataclasses.replace(case_of("torch.sin", sizes=(size,)), symbols=(Symbol("s0", low, high),))
    twice = with_second_binding(case)
    if other is None:
        assert twice is None
        return
    assert twice is not None
    assert [call.binding["s0"] for call in twice.calls] == [3, other]
    first, second = elements(twice, 0), elements(twice, 1)
    assert np.array_equal(first, elements(case, 0))
    assert second.shape == (other, 2)
    assert np.array_equal(second.ravel(), np.resize(first.ravel(), 2 * other)), "values in range stay in range"


def test_what_is_static_or_has_several_sizes_is_left_alone() -> None:
    case = case_of("torch.sin", sizes=(3, 5))
    assert with_second_binding(case) is None
    assert with_second_binding(dataclasses.replace(case, symbols=())) is None
