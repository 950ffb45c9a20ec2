from __future__ import annotations

import dataclasses

import pytest

from generators.catalogue import selection
from generators.profile import PROFILES, Profile, derive, profile
from harness.errors import UnknownName, UsageError


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_a_named_profile_is_its_own_text(name: str) -> None:
    assert PROFILES[name].name == name
    assert PROFILES[name].text() == name
    assert profile(name) == PROFILES[name]


def test_text_and_profile_are_inverse() -> None:
    changed = dataclasses.replace(
        PROFILES["small"], ops=("add", "family:conv"), dtypes=("int8", "bool"), lanes=(1, 2, 3), symbolic=5, max_nodes=3, short=1
    )
    assert profile(changed.text()) == changed


def test_the_order_of_options_does_not_matter() -> None:
    left = derive(PROFILES["default"], ops=["b*", "a*"], dtypes=["bool", "float32"])
    right = derive(PROFILES["default"], ops=["a*", "b*"], dtypes=["float32", "bool"])
    assert left == right
    assert left.text() == right.text()


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("defualt", UnknownName, "default"),
        ("default,max_node=3", UnknownName, "max_nodes"),
        ("default,max_nodes=three", UsageError, "not a number"),
        ("default,dtypes=float23", UnknownName, "float32"),
        ("default,max_nodes=0", UsageError, "1..100"),
        ("default,lanes=0+0+0", UsageError, "three weights"),
        ("default,symbolic=101", UsageError, "percentage"),
        ("default,dtypes=", UsageError, "at least one dtype"),
    ],
)
def test_a_wrong_text_is_refused_by_name(text: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        profile(text)


def test_a_pattern_that_would_break_the_text_is_refused() -> None:
    with pytest.raises(UsageError, match="neither"):
        derive(PROFILES["default"], ops=["add,sub"])


def test_globs_speak_of_operators_families_and_layers() -> None:
    def names(**settings: tuple[str, ...]) -> set[str]:
        return {spec.name for _, spec in selection(dataclasses.replace(Profile(), **settings))}  # type: ignore[arg-type]

    assert names(ops=("conv?d",)) == {"conv1d", "conv2d", "conv3d"}
    assert names(ops=("nn.Linear",)) == {"linear"}
    assert "conv2d" in names(ops=("family:conv",))
    assert "conv2d" not in names(exclude=("family:conv",))
    assert "bitwise_and" not in names(dtypes=("float32",))
