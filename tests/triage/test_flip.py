from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from harness.minimize.edits import literal_case
from harness.model.case import Case
from harness.model.fill import Literal
from harness.model.program import TensorSpec
from harness.model.values import Tensor, Value
from harness.triage.flip import MAX_FLIPS, needed_features
from tests.minimize.material import chain


def roll(*arguments: Value, shape: tuple[int, ...] = (2, 3), **keywords: Value) -> Case:
    case = literal_case(chain("torch.roll", shape=shape))
    node = case.program.node("n0")
    changed = dataclasses.replace(node, args=(*node.args, *arguments), kwargs=keywords)
    nodes = tuple(changed if old.name == "n0" else old for old in case.program.nodes)
    return dataclasses.replace(case, program=dataclasses.replace(case.program, nodes=nodes))


def shift(case: Case) -> Value:
    return case.program.node("n0").args[1]


@pytest.mark.parametrize(
    ("case", "features", "shows", "needed"),
    [
        (roll(0), ("arg1=zero",), lambda case: True, ()),
        (roll(0), ("arg1=zero",), lambda case: shift(case) == 0, ("arg1=zero",)),
        (roll(7), ("arg1=int",), lambda case: shift(case) >= 0, ()),
        (roll(7), ("arg1=int",), lambda case: shift(case) > 0, ("arg1=int",)),
        (roll(-1), ("arg1=negative",), lambda case: shift(case) < 0, ("arg1=negative",)),
        (roll(True), ("arg1=True",), lambda case: shift(case) is True, ("arg1=True",)),
        (roll(True), ("arg1=True",), lambda case: True, ()),
        (roll(-0.5), ("arg1=float-negative",), lambda case: shift(case) < 0, ("arg1=float-negative",)),
        (roll(-0.5), ("arg1=float-negative",), lambda case: shift(case) != 1.0, ()),
        (roll(0.5), ("arg1=float",), lambda case: shift(case) >= 0, ("arg1=float",)),
        (roll(1, dims=(1, 0)), ("dims=int", "dims=zero"), lambda case: True, ()),
        (roll(1, dims=(1, 0)), ("dims=zero",), lambda case: 0 in case.program.node("n0").kwargs["dims"], ("dims=zero",)),
    ],
)
def test_a_feature_is_kept_only_where_the_bug_needs_it(
    case: Case, features: tuple[str, ...], shows: Callable[[Case], bool], needed: tuple[str, ...]
) -> None:
    assert shows(case)
    assert needed_features(case, features, shows) == needed


def x0(case: Case) -> Tensor:
    value = case.arguments(0)["x0"]
    assert isinstance(value, Tensor)
    return value


def test_empty_tensors_and_ranks_are_changed() -> None:
    empty = roll(0, shape=(0, 3))
    assert needed_features(empty, ("empty",), lambda case: True) == ()
    assert needed_features(empty, ("empty",), lambda case: 0 in x0(case).shape) == ("empty",)
    for shape in ((), (1,), (2, 3), (2, 3, 1)):
        ranked = roll(0, shape=shape)
        feature = f"rank:{len(shape)}"
        assert needed_features(ranked, (feature,), lambda case: True) == ()
        assert needed_features(ranked, (feature,), lambda case, shape=shape: len(x0(case).shape) == len(shape)) == (feature,)  # type: ignore[misc]


def test_what_no_legal_case_can_change_is_no_part_of_the_trigger() -> None:
    """Eager refuses every other argument: every program that could be compared has this one."""
    assert needed_features(roll(7), ("arg1=int",), lambda case: None) == ()
    assert needed_features(roll(7), ("arg1=int",), lambda case: False if shift(case) == 0 else None) == ("arg1=int",)


def test_what_cannot_be_flipped_is_kept() -> None:
    assert needed_features(roll(0), ("dtype:int64", "value:nan", "dynamic"), lambda case: True) == ("dtype:int64", "value:nan", "dynamic")


def test_only_so_many_cases_are_run() -> None:
    asked: list[Case] = []

    def shows(case: Case) -> bool:
        asked.append(case)
        return False

    features = ("arg1=int", "arg1=zero", "arg1=negative") * 20
    assert needed_features(roll((1, 0, -1)), features, shows) == features
    assert len(asked) == MAX_FLIPS


def test_every_flipped_case_is_valid() -> None:
    def shows(case: Case) -> bool:
        case.validate()
        assert isinstance(x0(case).array(), np.ndarray)
        return False

    case = roll((1, 0, -1), True, 0.5, shape=(0, 2))
    spec = case.program.node("x0").spec
    assert isinstance(spec, TensorSpec) and case.calls[0].data["x0"] == Literal(b"")
    needed_features(case, ("arg1=int", "arg1=zero", "arg1=negative", "arg2=True", "arg3=float", "empty"), shows)
