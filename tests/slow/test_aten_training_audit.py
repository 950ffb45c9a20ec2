"""The full audit of training, which compiles each module nine times through AOTAutograd."""

from __future__ import annotations

from typing import Any

import pytest

from harness.compilers.aten.audit import Subject, full
from harness.compilers.aten.engines.eager import EagerEngine
from harness.compilers.aten.settings import DEFAULTS
from tests.compilers.aten.modules import TRAINABLE, fresh, graph_of
from tests.doubles import aten as doubles


@pytest.mark.parametrize("engine", [EagerEngine, doubles.Opaque])
@pytest.mark.parametrize("name", TRAINABLE)
def test_nothing_is_held_against_training_that_is_right(name: str, engine: Any) -> None:
    subject = Subject(lambda: graph_of(fresh(name, training=True)[0]), lambda: fresh(name)[1], training=True)
    assert full(subject, DEFAULTS, engine=engine()) == []
