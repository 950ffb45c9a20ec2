from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from harness.exporting.sides import ROWS, beside, compared_lines, did, lines_of, sides
from harness.model.outcome import Death, Outcome, Status
from harness.model.values import tensor_from_array
from tests.exporting import entries


def test_elements_that_differ_are_marked_on_both_sides() -> None:
    both = sides(entries.roll())
    assert both.expected == ("float32 [1, 4]", "[0.0, 1.0*, 0.0, 0.0*]")
    assert both.actual == ("float32 [1, 4]", "[0.0, 0.0*, 0.0, 1.0*]")
    assert both.worst == (0, 1)


def test_the_place_of_the_verdict_is_shown() -> None:
    both = sides(entries.sort())
    assert both.place == "[1]"
    assert both.expected == ("int64 [2]", "[1, 0]")
    assert both.actual == ("int32 [2]", "[1, 0]")


def test_what_gave_no_value_says_what_it_did() -> None:
    assert sides(entries.unfold()).actual == ("fails: RuntimeError: attibute size should be > 0, but got 0",)
    assert sides(entries.repeat()).actual == ("the process dies: SIGFPE",)
    assert did(Outcome("t", Status.CRASH, death=Death(exit_code=3))) == "the process dies: exit code 3"
    assert did(Outcome("t", Status.TIMEOUT, death=Death("SIGKILL"))) == "no answer before the deadline"
    assert did(Outcome("t", Status.OK)) == ""


def test_without_an_index_the_first_difference_is_the_worst() -> None:
    one, two = (tensor_from_array(np.array(values, "<i8"), "int64") for values in ([1, 2, 3], [1, 5, 6]))
    left, right = compared_lines(one, two, None)
    assert (left[1], right[1]) == ("[1, 2*, 3*]", "[1, 5*, 6*]")
    assert compared_lines(one, two, (9,)) == (left, right)


def test_large_tensors_are_cut_around_the_worst() -> None:
    array = np.zeros((100, 30), "<f4")
    array[70, 20] = 7
    zeros = np.zeros_like(array)
    left, right = compared_lines(tensor_from_array(zeros, "float32"), tensor_from_array(array, "float32"), (70, 20))
    assert len(left) == len(right) == ROWS + 3
    assert sum("7.0*" in line for line in right) == 1
    assert right[1] == "... 64 rows before"
    assert right[-1] == "... 24 rows more"
    assert max(map(len, right)) < 80


def test_only_other_numbers_are_marked_where_the_dtypes_differ() -> None:
    one = tensor_from_array(np.array([1, 2], "<i8"), "int64")
    two = tensor_from_array(np.array([1, 3], "<f4"), "float32")
    assert compared_lines(one, two, None) == (("int64 [2]", "[1, 2*]"), ("float32 [2]", "[1.0, 3.0*]"))


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1, 1, 1)])
def test_odd_shapes(shape: tuple[int, ...]) -> None:
    one, two = (tensor_from_array(np.full(shape, value, "<f2"), "float16") for value in (1, 2))
    left, right = compared_lines(one, two, None)
    assert len(left) == len(right)
    assert left[0] == f"float16 {list(shape)}"


def test_other_shapes_are_not_compared_elementwise() -> None:
    one, two = (tensor_from_array(np.ones(size, "<f4"), "float32") for size in (1, 2))
    left, right = compared_lines(one, two, (0,))
    assert (left, right) == (("float32 [1]", "[1.0]"), ("float32 [2]", "[1.0, 1.0]"))


def test_nothing_but_python_values() -> None:
    assert lines_of((1, "two")) == ("[0] 1", "[1] 'two'")
    entry = entries.sort()
    assert entry.verdict is not None
    elsewhere = dataclasses.replace(entry, verdict=dataclasses.replace(entry.verdict, path=""))
    assert sides(elsewhere).expected[0] == "[0] float32 [2]"


def test_columns() -> None:
    assert beside(["a", "bbbb"], ["c"], ("left", "right")) == ["left  |  right", "a     |  c", "bbbb  |"]
