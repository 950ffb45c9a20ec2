from __future__ import annotations

import warnings

import numpy as np
import pytest

from harness.errors import FormatError, UsageError
from harness.model.fill import Fill, Literal, storage_elements
from harness.model.symbols import Sym, evaluate, free_symbols
from harness.model.values import Tensor, storage_size

HUGE = 10**3990


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((HUGE, HUGE), (1, 1), 0),
        ((1 << 40,), (0,), 0),
        ((2,), (HUGE,), 0),
        ((2,), (1,), HUGE),
        ((1,) * 100, (1,) * 100, 0),
        ((1 << 27,) * 20_000, (1,) * 20_000, 0),
        ((-1,), (1,), 0),
        ((1,), (-1,), 0),
        ((1,), (1,), -1),
        ((2, 3), (1,), 0),
    ],
)
def test_a_view_that_cannot_be_meant_is_refused(shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> None:
    with pytest.raises(FormatError):
        storage_size(shape, strides, offset)
    with pytest.raises(FormatError):
        Tensor("float32", shape, Fill("exact/1"), strides, offset).array()


def test_a_stride_that_is_never_taken_may_be_anything() -> None:
    assert Tensor("int64", (1, 2), Fill("permutation/1"), (HUGE, 1)).array().shape == (1, 2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool", "complex64"])
@pytest.mark.parametrize("recipe", ["exact/1", "ordinary/1", "special/1", "integers/1", "constant/1", "permutation/1"])
@pytest.mark.parametrize("bounds", [(-HUGE, HUGE), (0, 1 << 64), (-(1 << 63), 0), (5, 4)])
def test_a_range_beyond_64_bits_or_empty_is_refused(recipe: str, dtype: str, bounds: tuple[int, int]) -> None:
    with pytest.raises(FormatError):
        storage_elements(Fill(recipe, HUGE, *bounds), dtype, 3)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "uint8", "bool"])
@pytest.mark.parametrize("recipe", ["exact/1", "ordinary/1", "special/1", "integers/1", "constant/1"])
def test_the_widest_range_fills_without_a_warning(recipe: str, dtype: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert storage_elements(Fill(recipe, -HUGE, -(1 << 62), 1 << 62), dtype, 9).shape == (9,)


def test_an_unknown_recipe_and_a_literal_of_another_length_are_refused() -> None:
    with pytest.raises(UsageError, match="exact/1"):
        storage_elements(Fill("exact/2"), "float32", 1)
    with pytest.raises(FormatError, match="7 bytes where 2 elements of float32 need 8"):
        storage_elements(Literal(b"1234567"), "float32", 2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s0 s1",
        "s0*",
        "(" * 200,
        "-" * 390 + ".",
        "s0**2",
        "f(s0)",
        "s0.real",
        "[s0]",
        "s0 if s0 else 1",
        "1.5",
        "True",
        "s0/2",
        "\0",
        "1" * 401,
    ],
)
def test_only_integer_expressions_are_read(text: str) -> None:
    with pytest.raises(FormatError):
        evaluate(Sym(text), {"s0": 1, "s1": 2})
    with pytest.raises(FormatError):
        free_symbols(Sym(text))


@pytest.mark.parametrize(("text", "value"), [("s0*2", 10), ("-s0+s1", -2), ("(s0 + s1)//2", 4), ("s0 % 3", 2), ("-" * 390 + "1", 1)])
def test_expressions_have_pythons_meaning(text: str, value: int) -> None:
    assert evaluate(Sym(text), {"s0": 5, "s1": 3}) == value


@pytest.mark.parametrize("text", ["s9", "s0//0", "s0%(s1-s1)"])
def test_expressions_without_a_value_are_refused(text: str) -> None:
    with pytest.raises(FormatError):
        evaluate(Sym(text), {"s0": 5, "s1": 3})


def test_arrays_are_fresh_and_writable() -> None:
    tensor = Tensor("float32", (2,), Literal(np.float32([1, 2]).tobytes()))
    tensor.array()[:] = 0
    assert tensor.array().tolist() == [1, 2]
