from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import FormatError
from harness.model.case import Call, Case
from harness.model.dtypes import DTYPES, bfloat16_to_float32, float32_to_bfloat16, narrow, widen
from harness.model.fill import Fill, storage_elements
from harness.model.program import Node, Program, TensorSpec
from harness.model.symbols import Sym, Symbol
from harness.model.values import Ref, Tensor, contiguous_strides, leaves, map_leaves, refs, storage_size, structure, tensor_from_array

X = Node("x0", "placeholder", "x0", role="input", spec=TensorSpec("float32", (Sym("s0"), 2)))
S = Node("s", "placeholder", "s", role="symint", spec=Sym("s0*2"))
RELU = Node("relu_0", "call_function", "torch.relu", (Ref("x0"),), {"again": [Ref("s"), Ref("x0")]})
OUT = Node("output", "output", "output", ((Ref("relu_0"),),))
PROGRAM = Program((X, S, RELU, OUT))
CASE = Case(PROGRAM, (Call({"s0": 3}, {"x0": Fill("exact/1")}),), (Symbol("s0", 1, 8),))


def test_a_legal_case_says_what_is_in_it() -> None:
    CASE.validate()
    assert PROGRAM.symbols() == {"s0"}
    assert PROGRAM.users() == {"x0": ["relu_0"], "s": ["relu_0"], "relu_0": ["output"], "output": []}
    assert [node.name for node in PROGRAM.operators] == ["relu_0"]
    assert CASE.arguments(0)["s"] == 6
    assert CASE.arguments(0)["x0"].shape == (3, 2)


@pytest.mark.parametrize(
    ("nodes", "what"),
    [
        ((), "must end with one output"),
        ((X, S, RELU), "must end with one output"),
        ((X, S, RELU, replace(OUT, args=())), "must end with one output"),
        ((X, X, S, RELU, OUT), "node 'x0': the name is used twice"),
        ((X, RELU, S, OUT), "node 'relu_0': reads 's'"),
        ((X, S, replace(RELU, name="1x"), OUT), "node '1x': a node's name must be an identifier"),
        ((X, S, replace(RELU, op="call"), OUT), "node 'relu_0': opcode 'call'"),
        ((replace(X, role="guest"), S, RELU, OUT), "node 'x0': role 'guest'"),
        ((replace(X, spec=Sym("s0")), S, RELU, OUT), "node 'x0': a placeholder needs a dtype"),
        ((X, replace(S, spec=None), RELU, OUT), "node 's': a symint needs"),
        ((X, S, RELU, OUT, replace(OUT, name="output2")), "node 'output': an output that is not the last"),
        ((X, S, replace(RELU, op="call_module", target="act"), OUT), "node 'relu_0': calls module 'act'"),
    ],
)
def test_every_broken_promise_is_named_with_its_node(nodes: tuple[Node, ...], what: str) -> None:
    with pytest.raises(FormatError) as caught:
        Program(nodes).validate()
    assert what in str(caught.value)


@pytest.mark.parametrize(
    "case",
    [
        replace(CASE, mode="backwards"),
        replace(CASE, calls=()),
        replace(CASE, calls=(Call({"s0": 9}, {"x0": Fill("exact/1")}),)),
        replace(CASE, calls=(Call({}, {"x0": Fill("exact/1")}),)),
        replace(CASE, calls=(Call({"s0": 3}),)),
        replace(CASE, symbols=(), calls=(Call({}, {"x0": Fill("exact/1")}),)),
        replace(CASE, symbols=(), calls=(Call({"s0": -1}, {"x0": Fill("exact/1")}),)),
        replace(CASE, symbols=(), calls=(Call({"s0": 1 << 30}, {"x0": Fill("exact/1")}),)),
    ],
)
def test_a_call_that_cannot_be_made_is_refused(case: Case) -> None:
    with pytest.raises(FormatError):
        case.validate()


def test_views_of_one_storage_see_the_same_elements() -> None:
    whole = replace(X, spec=TensorSpec("float32", (4, 3), storage="m"))
    view = replace(X, name="x1", target="x1", spec=TensorSpec("float32", (3, 2), strides=(1, 6), offset=1, storage="m"))
    case = Case(Program((whole, view, replace(OUT, args=((Ref("x0"), Ref("x1")),)))), (Call(data={"m": Fill("permutation/1", 5)}),))
    arguments = case.arguments(0)
    flat = arguments["x0"].array().ravel()
    needed = max(arguments[name].storage_elements for name in ("x0", "x1"))
    assert needed == 12
    assert np.array_equal(arguments["x1"].array(), [[flat[1], flat[7]], [flat[2], flat[8]], [flat[3], flat[9]]])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 4), max_size=4).map(tuple), st.data())
def test_memory_order_moves_elements_as_numpy_does(shape: tuple[int, ...], data: st.DataObject) -> None:
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    strides = TensorSpec("int64", shape, order).concrete_strides({})
    inner = np.arange(max(1, int(np.prod(shape)))).astype(np.int64)[: int(np.prod(shape))].reshape([shape[dim] for dim in order])
    assert storage_size(shape, strides, 0) == inner.size
    literal = tensor_from_array(inner, "int64").data
    expected = inner.transpose(np.argsort(order)) if shape else inner
    assert np.array_equal(Tensor("int64", shape, literal, strides).array(), expected)
    assert contiguous_strides(shape) == TensorSpec("int64", shape).concrete_strides({})


def test_leaves_refs_and_structure_walk_the_same_places() -> None:
    tensor = tensor_from_array(np.zeros(2), "float32")
    value = (tensor, {"a": [1, None, slice(Ref("n"), 2)]}, "s")
    assert [path for path, _ in leaves(value)] == [
        "[0]",
        "[1]['a'][0]",
        "[1]['a'][1]",
        *["[1]['a'][2]" + f"[{i}]" for i in range(3)],
        "[2]",
    ]
    assert refs(value) == ["n"]
    assert structure(value) == ("*", {"a": ["int", "NoneType", slice("Ref", "int", "NoneType")]}, "str")
    assert map_leaves(value, lambda leaf: leaf) == value


@given(st.floats(width=32))
def test_bfloat16_rounds_to_nearest_even_and_widens_exactly(number: float) -> None:
    single = np.array([number], dtype=np.float32)
    bits = float32_to_bfloat16(single)
    wide = bfloat16_to_float32(bits)
    assert np.array_equal(float32_to_bfloat16(wide), bits)
    if np.isfinite(single).all() and np.isfinite(wide).all():
        neighbours = bfloat16_to_float32(np.array([bits[0] - 1, bits[0] + 1] if bits[0] & 0x7FFF else [1, 0x8001], dtype=np.uint16))
        near = neighbours[np.isfinite(neighbours)].astype(np.float64)
        gap = abs(float(wide[0]) - float(single[0]))
        assert (np.abs(near - float(single[0])) >= gap).all()
    assert np.isnan(wide[0]) == np.isnan(single[0])


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_every_fill_holds_what_its_recipe_says(dtype: str) -> None:
    info = DTYPES[dtype]
    exact = widen(storage_elements(Fill("exact/1", 3), dtype, 200), dtype)
    assert exact.shape == (200,)
    if info.kind in ("float", "complex"):
        assert set(np.unique(exact.real * 4)) == set(range(-8, 9))
    elif info.kind == "int":
        assert set(np.unique(exact)) == set(range(-8, 9))
    order = storage_elements(Fill("permutation/1", 3), "int64", 50)
    assert sorted(order.tolist()) == list(range(50))
    assert not np.array_equal(order, np.arange(50))
    assert np.array_equal(storage_elements(Fill("ordinary/1", 3), dtype, 9), storage_elements(Fill("ordinary/1", 3), dtype, 200)[:9])
    assert not np.array_equal(storage_elements(Fill("exact/1", 4), "float32", 50), storage_elements(Fill("exact/1", 3), "float32", 50))


def test_special_fills_hold_every_special_value() -> None:
    values = storage_elements(Fill("special/1", 1), "float32", 400)
    assert np.isnan(values).any() and (values == np.inf).any() and (values == -np.inf).any()
    assert ((values == 0) & np.signbit(values)).any() and ((values == 0) & ~np.signbit(values)).any()
    assert np.isfinite(values).sum() > 250


def test_narrowing_is_silent_and_to_nearest() -> None:
    assert widen(narrow(np.array([1e39, -1e39, np.nan, 1 + 2**-9]), "bfloat16"), "bfloat16")[[0, 1, 3]].tolist() == [np.inf, -np.inf, 1.0]
    assert narrow(np.array([70000.0, 1 / 3]), "float16").tolist() == [np.inf, float(np.float16(1 / 3))]
