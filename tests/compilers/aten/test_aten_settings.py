from __future__ import annotations

import dataclasses

import pytest

from harness.compilers.aten.settings import DEFAULTS, FIELDS, AtenSettings, from_options, may_change_results
from harness.errors import UnknownName, UsageError


def test_settings_cannot_be_written_to() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        DEFAULTS.engine = "other"  # type: ignore[misc]


def test_replace_leaves_the_original_alone() -> None:
    changed = DEFAULTS.replace(min_block_size=3, kept_in_torch=["aten.add"])
    assert (changed.min_block_size, changed.kept_in_torch) == (3, frozenset({"aten.add"}))
    assert AtenSettings() == DEFAULTS


def test_options_are_the_settings_by_name() -> None:
    assert from_options({"engine": "numpy-constants"}) == AtenSettings(engine="numpy-constants")
    assert from_options(None) == DEFAULTS


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match=r"unknown setting 'min_blok_size': did you mean min_block_size"):
        from_options({"min_blok_size": 2})


@pytest.mark.parametrize(
    "options",
    [
        {"min_block_size": 0},
        {"min_block_size": True},
        {"min_block_size": "2"},
        {"partitioner": "capable"},
        {"precision": "float8"},
        {"lowering": 1},
        {"kept_in_torch": "aten.add"},
        {"kept_in_torch": [3]},
        {"engine": None},
    ],
)
def test_a_value_that_cannot_be_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        from_options(options)


def test_every_setting_says_what_it_does_and_whether_it_may_change_results() -> None:
    assert all(field.metadata["says"] for field in FIELDS.values())
    assert [name for name in FIELDS if may_change_results(name)] == ["precision"]
