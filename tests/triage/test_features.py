from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from harness.minimize.edits import plain_names
from harness.model.case import Call, Case
from harness.model.dtypes import Array
from harness.model.outcome import NodeTrace
from harness.model.program import ModuleRecipe, Node, Program
from harness.model.symbols import Sym, Symbol
from harness.model.values import DType, Ref, Tensor, Value, tensor_from_array
from harness.triage.features import dtype_class, node_features, trigger
from tests.minimize.material import chain, drawn, made_up_traces

PLAIN = np.ones((2, 3), np.float32)


def node(*args: Value, **kwargs: Value) -> Node:
    return Node("n", "call_function", "torch.roll", (Ref("x0"), *args), kwargs)


def features(value: Array | Tensor, *args: Value, **kwargs: Value) -> frozenset[str]:
    given = value if isinstance(value, Tensor) else tensor_from_array(value, str(value.dtype))
    case = chain("torch.roll")
    made = node(*args, **kwargs)
    found = node_features(case, made, {"n": NodeTrace("n", (given, *args), kwargs)})
    assert f"rank:{len(given.shape)}" in found
    return frozenset(feature for feature in found if not feature.startswith("rank:"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (PLAIN, set()),
        (PLAIN.astype(np.int64), {"dtype:int64"}),
        (np.zeros((0, 3), np.float32), {"empty"}),
        (np.float32(1).reshape(()), set()),
        (np.array([1, np.nan], np.float32), {"value:nan"}),
        (np.array([1, -np.inf], np.float32), {"value:inf"}),
        (np.array([1, -0.0], np.float32), {"value:negative-zero"}),
        (dataclasses.replace(tensor_from_array(PLAIN, "float32"), strides=(1, 2)), {"layout:strided"}),
        (Tensor("float32", (2, 3), tensor_from_array(np.ones(3, np.float32), "float32").data, (0, 1)), {"layout:expanded"}),
        (dataclasses.replace(tensor_from_array(PLAIN, "float32"), strides=(3, 1)), set()),
    ],
)
def test_what_is_odd_about_a_tensor_is_a_feature(value: Array | Tensor, expected: set[str]) -> None:
    assert features(value) == expected


@pytest.mark.parametrize(
    ("argument", "word"),
    [
        (0, "zero"),
        (7, "int"),
        (-7, "negative"),
        (True, "True"),
        (None, "None"),
        ("reflect", "reflect"),
        (0.5, "float"),
        (-0.5, "float-negative"),
        (float("nan"), "nan"),
        (float("-inf"), "inf"),
        (DType("int64"), "int64"),
        (Sym("s0*2"), "symbolic"),
        ((), "empty"),
    ],
)
def test_an_argument_is_a_word_never_a_size(argument: Value, word: str) -> None:
    assert f"arg1={word}" in features(PLAIN, argument)
    assert f"dims={word}" in features(PLAIN, dims=argument)


def test_a_list_is_the_words_of_its_items() -> None:
    assert features(PLAIN, (1, 2, -1)) == {"arg1=int", "arg1=negative"}
    assert features(PLAIN, slice(0, 1)) == {"arg1=zero", "arg1=int", "arg1=None"}


def test_sizes_names_and_the_number_of_calls_are_no_features() -> None:
    """Two sizes of one bug, and the same case under other names, are one bug."""
    for index in range(20):
        case = drawn(index)
        plain = plain_names(case)
        for old, new in zip(case.program.operators, plain.program.operators, strict=True):
            first, second = made_up_traces(case)[0], made_up_traces(plain)[0]
            assert node_features(case, old, first) == node_features(plain, new, second)
    assert features(PLAIN, 7) == features(np.ones((9, 9), np.float32), 1000)


def test_symbols_and_second_calls_are_features() -> None:
    case = chain("torch.sin", shape=(Sym("s0"), 2), sizes=(3, 4))
    assert node_features(case, case.program.node("n0"), {}) == {"dynamic"}
    twice = dataclasses.replace(chain("torch.sin"), calls=chain("torch.sin").calls * 2)
    assert node_features(twice, twice.program.node("n0"), {}) == {"second-call"}


def test_a_modules_arguments_and_mode_are_features() -> None:
    recipe = ModuleRecipe("torch.nn.BatchNorm1d", (3,), {"affine": False}, training=True)
    nodes = (Node("m", "call_module", "bn", (Ref("x0"),)),)
    case = dataclasses.replace(chain("torch.sin"), program=Program((*chain("torch.sin").program.nodes[:1], *nodes), {"bn": recipe}))
    assert node_features(case, nodes[0], {}) == {"affine=False", "training"}


def test_the_trigger_is_of_all_operators_and_sorted() -> None:
    case = chain("torch.neg", "torch.sin")
    traces = {
        "n0": NodeTrace("n0", (tensor_from_array(PLAIN.astype(np.int64), "int64"),)),
        "n1": NodeTrace("n1", (tensor_from_array(np.zeros(0, np.float32), "float32"),)),
    }
    assert trigger(case, traces) == ("dtype:int64", "empty", "rank:1", "rank:2")


def test_the_dtype_class_is_any_for_plain_float32() -> None:
    assert dtype_class(()) == "any"
    assert dtype_class(("empty", "dtype:int64", "dtype:bool")) == "bool+int64"


def test_symbols_of_a_case_without_traces() -> None:
    case = Case(chain("torch.sin").program, (Call({"s0": 2}, chain("torch.sin").calls[0].data),), (Symbol("s0"),))
    assert trigger(case, {}) == ("dynamic",)
