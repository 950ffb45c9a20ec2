from __future__ import annotations

import pytest

from tests.backends.oneflow.running import needs_oneflow
from tests.oneflow_fx.inside import Inside

pytestmark = needs_oneflow
INSIDE = Inside("inside_tracing.py")


@pytest.mark.parametrize("check", INSIDE.checks)
def test_tracing(check: str) -> None:
    INSIDE.expect(check)
