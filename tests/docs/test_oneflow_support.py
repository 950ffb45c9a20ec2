from __future__ import annotations

import re

from harness.backends.oneflow.translate import supported
from harness.backends.oneflow.translate.absent import ABSENT
from harness.environments.versions import pins
from tests.backends.oneflow.table import ROWS
from tests.docs.oneflow_support import COLUMNS, PAGE, SIGNS, in_dtype, page

TEXT = PAGE.read_text(encoding="utf-8")
LINES = [line.strip("|").split("|") for line in TEXT.splitlines() if line.startswith("|")][2:]
TABLE = {cells[0].strip(): dict(zip(COLUMNS, (cell.strip() for cell in cells[1:]), strict=True)) for cells in LINES}


def test_the_table_knows_every_operator_that_has_an_adapter() -> None:
    unused = {"max_pool1d_with_indices", "max_pool3d_with_indices", "max_unpool3d"}  # PyTorch's users cannot call them
    assert supported() - unused <= TABLE.keys()
    assert len(TABLE) >= 180


def test_at_least_180_operators_are_executed_and_equal() -> None:
    assert sum("=" in signs.values() for signs in TABLE.values()) >= 180


def test_the_page_is_of_the_pinned_versions() -> None:
    assert f"OneFlow {pins('oneflow')['oneflow']} " in TEXT and f"PyTorch {pins('main')['torch']}," in TEXT


def test_the_page_is_as_the_script_writes_it() -> None:
    found = {name: {dtype: sign for dtype, sign in signs.items() if sign} for name, signs in TABLE.items()}
    assert {sign for signs in found.values() for sign in signs.values()} <= set(SIGNS)
    assert page(found) == TEXT


def test_what_is_absent_is_listed() -> None:
    listed = re.split(r"\s+", TEXT.partition("under no name")[2].strip())
    assert set(listed) == ABSENT


def test_every_float32_call_is_made_in_every_dtype() -> None:
    row = next(row for row in ROWS if row.target == "torch.add")
    assert [cast.args[0].dtype for dtype in COLUMNS if (cast := in_dtype(row, dtype)) is not None] == list(COLUMNS)
