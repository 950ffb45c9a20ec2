from __future__ import annotations

import pytest

from harness.backends.torch_mlir.merge import merge
from harness.backends.torch_mlir.tracing import Specialized

BODY = """
  ^bb0(%arg0: !torch.vtensor<[{0},3],f32> loc("x0":1:0)):
    %0 = "torch.constant.int"() <{{value = {1} : i64}}> : () -> !torch.int loc("view_1":2:0)
    %1 = "torch.prim.ListConstruct"(%0) : (!torch.int) -> !torch.list<int> loc("view_1":2:0)
    %2 = "torch.aten.view"(%arg0, %1) : (!torch.vtensor<[{0},3],f32>, !torch.list<int>) -> !torch.vtensor<[{1}],f32> loc("view_1":2:0)
    "func.return"(%2) : (!torch.vtensor<[{1}],f32>) -> ()
"""


def text(rows: int, flat: int) -> str:
    return BODY.format(rows, flat)


def test_equal_modules_stay_as_they_are() -> None:
    assert merge([text(2, 6), text(2, 6)]) == text(2, 6)


def test_a_dim_that_differs_becomes_unknown() -> None:
    merged = merge([text(2, 6), text(4, 12)])
    assert "^bb0(%arg0: !torch.vtensor<[?,3],f32>" in merged
    assert '(!torch.vtensor<[?,3],f32>, !torch.list<int>) -> !torch.vtensor<[?],f32> loc("view_1":2:0)' in merged


def test_an_integer_that_differs_is_computed_from_an_arguments_dim() -> None:
    merged = merge([text(2, 7), text(4, 13)])  # 3 * rows + 1
    assert '"torch.aten.size.int"(%arg0, ' in merged
    assert "value = 3 : i64" in merged and "value = 1 : i64" in merged
    assert '%0 = "torch.aten.add.int"' in merged


def test_an_integer_may_be_a_product_of_dims() -> None:
    merged = merge([text(2, 4), text(3, 9), text(5, 25)])
    assert '%0 = "torch.aten.mul.int"' in merged


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (text(4, 12).replace("aten.view", "aten.reshape"), "differ in more than sizes"),
        (text(4, 12) + "\n", "different length"),
        (text(4, 12).replace("[4,3]", "[4,3,1]"), "different rank"),
    ],
)
def test_what_cannot_be_merged_says_why(other: str, reason: str) -> None:
    with pytest.raises(Specialized, match=reason):
        merge([text(2, 6), other])


def test_an_integer_may_be_a_fraction_of_a_dim() -> None:
    merged = merge([text(4, 2), text(6, 3)])
    assert '%0 = "torch.aten.floordiv.int"' in merged


def test_an_integer_that_follows_no_dim_cannot_be_merged() -> None:
    with pytest.raises(Specialized, match=r"takes the values \(1, 1, 3\) follows no argument's dim"):
        merge([text(2, 1), text(3, 1), text(6, 3)])
