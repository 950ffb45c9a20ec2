"""The rules that results follow: sizes, promotion, value ranges."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from generators import ranges, types
from generators.ranges import Vals
from generators.sizes import Size, broadcast, product, same
from harness.model.dtypes import DTYPES
from harness.model.symbols import Sym, evaluate

REAL = [name for name, info in DTYPES.items() if info.kind != "complex"]
SCALARS: list[bool | int | float] = [True, 3, 2.5]
OPERANDS: list[tuple[str, int] | bool | int | float] = [(name, rank) for name in REAL for rank in (0, 1)] + SCALARS  # type: ignore[assignment]


def as_torch(operand: tuple[str, int] | bool | int | float) -> torch.Tensor | bool | int | float:
    return torch.ones([2] * operand[1], dtype=getattr(torch, operand[0])) if isinstance(operand, tuple) else operand


def test_promotion_of_any_two_operands_is_pytorchs() -> None:
    for left, right in itertools.product(OPERANDS, OPERANDS):
        if isinstance(left, tuple) or isinstance(right, tuple):
            expected = torch.result_type(as_torch(left), as_torch(right))
            assert types.result_type([left, right]) == str(expected).removeprefix("torch."), (left, right)


@pytest.mark.parametrize("left", REAL)
@pytest.mark.parametrize("right", REAL)
def test_promotion_of_dtypes_and_casts_are_pytorchs(left: str, right: str) -> None:
    one, two = getattr(torch, left), getattr(torch, right)
    assert types.promote(left, right) == str(torch.promote_types(one, two)).removeprefix("torch.")
    assert types.can_cast(left, right) == torch.can_cast(one, two)


@given(st.tuples(*[st.integers(1, 9)] * 4), st.sampled_from("+-*/"), st.sampled_from("+-*/"))
def test_a_size_and_its_expression_agree_in_every_binding(values: tuple[int, int, int, int], first: str, second: str) -> None:
    bindings = [{"s0": values[0], "s1": values[1]}, {"s0": values[2], "s1": values[3]}]
    size = Size((values[0], values[2]), "s0")
    for sign, other in ((first, Size((values[1], values[3]), "s1")), (second, 3)):
        size = {"+": size + other, "-": size - other, "*": size * other, "/": size // other}[sign]
    assert isinstance(size.dim, Sym)
    assert tuple(evaluate(size.dim, binding) for binding in bindings) == size.values


def test_neutral_elements_leave_expressions_alone() -> None:
    s, one, zero = Size((2, 5), "s0"), Size((1, 1)), Size((0, 0))
    for result in (s * 1, s + 0, s - 0, s // 1, one * s, zero + s, product([s], one)):
        assert result == s
    assert (s + 2).expr == "s0+2"
    assert (s + -2).expr == "s0-2"
    assert ((s + 1) * 2).expr == "(s0+1)*2"


def test_broadcasting_never_takes_a_symbol_for_a_one() -> None:
    s, t, one, four = Size((1, 4), "s0"), Size((1, 4), "s1"), Size((1, 1)), Size((4, 4))
    assert broadcast((s, four), (four,)) == (s, four)
    assert broadcast((one,), (s,)) == (s,)
    assert broadcast((s,), (one, one)) == (one, s)
    assert broadcast((s,), (four,)) is None
    assert broadcast((s,), (t,)) is None
    assert not same(s, t)


def test_the_grid_of_products_and_sums() -> None:
    quarter = Vals(-2, 2, 2)
    assert ranges.mul(quarter, quarter) == Vals(-4, 4, 4)
    assert ranges.total(quarter, 3) == Vals(-6, 6, 2)
    assert ranges.mean(quarter, (4,)) == Vals(-2, 2, 4)
    assert ranges.mean(quarter, (3,)).grain is None
    assert ranges.add(quarter, ranges.constant(0.1)).grain is None


@pytest.mark.parametrize(("dtype", "bits"), [("float32", 24), ("float64", 53), ("float16", 11), ("bfloat16", 8)])
def test_exactness_ends_where_the_significand_does(dtype: str, bits: int) -> None:
    # float16 ends at 65504, so the edge is taken below 1.
    just = Vals(0, 2.0 ** (bits - 40), 40)
    over = Vals(0, 2.0 ** (bits - 40) * 1.5, 40)
    assert ranges.is_exact_in(dtype, just)
    assert not ranges.is_exact_in(dtype, over)
    assert not ranges.is_exact_in(dtype, just, peak=over.peak)


def test_unsigned_integers_wrap_and_signed_ones_must_not_overflow() -> None:
    assert ranges.settle("int8", Vals(0, 128)) is None
    assert ranges.settle("int8", Vals(-128, 127)) == Vals(-128, 127)
    assert ranges.settle("uint8", Vals(-1, 3)) == Vals(0, 255)
    assert ranges.settle("int32", Vals(0, 2**31)) is None
    assert ranges.settle("int32", Vals(0, 2**31 - 1)) == Vals(0, 2**31 - 1)
