from __future__ import annotations

from tests.backends.oneflow.running import needs_oneflow
from tests.docs.oneflow_support import PAGE, page, table


@needs_oneflow
def test_the_support_table_is_what_oneflow_does_today() -> None:
    assert page(table()).splitlines() == PAGE.read_text(encoding="utf-8").splitlines()
