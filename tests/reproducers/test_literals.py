from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from harness.errors import FormatError
from harness.model.dtypes import DTYPES
from harness.model.fill import Literal
from harness.model.symbols import Sym
from harness.model.values import Device, DType, Layout, MemoryFormat, Ref, Tensor, Value
from harness.reproducers.literals import array_source, identifier, index_source, storage_source, tensor_source, value_source
from harness.torch_bridge.tensors import tensor_bytes, to_torch

NAMES = {"torch": torch, "nan": math.nan, "inf": math.inf}


def run(text: str) -> torch.Tensor:
    result = eval(text, dict(NAMES))
    assert isinstance(result, torch.Tensor)
    return result


def same_bits(one: torch.Tensor, two: torch.Tensor) -> bool:
    return one.dtype == two.dtype and one.shape == two.shape and tensor_bytes(one) == tensor_bytes(two)


@given(st.data(), st.sampled_from(sorted(DTYPES)))
def test_a_literal_is_exact_to_the_bit(draw: st.DataObject, dtype: str) -> None:
    shape = draw.draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    count = math.prod(shape) * DTYPES[dtype].itemsize
    raw = draw.draw(st.binary(min_size=count, max_size=count))
    if dtype == "bool":
        raw = bytes(byte & 1 for byte in raw)
    tensor = Tensor(dtype, shape, Literal(raw))
    source = tensor_source(tensor)
    if DTYPES[dtype].kind == "complex" and np.isnan(np.frombuffer(raw, DTYPES[dtype].carrier)).any():
        return  # a payload in half a complex number is beyond source that people read
    assert same_bits(run(source), to_torch(tensor)), source


@given(st.data())
def test_layouts_are_kept(draw: st.DataObject) -> None:
    shape = draw.draw(st.lists(st.integers(0, 3), max_size=4).map(tuple))
    strides = tuple(draw.draw(st.integers(0, 6)) for _ in shape)
    offset = draw.draw(st.integers(0, 3))
    raw = np.arange(80, dtype="<f4").tobytes()
    size = offset if 0 in shape else offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    tensor = Tensor("float32", shape, Literal(raw[: 4 * size]), strides, offset)
    made = run(tensor_source(tensor))
    assert same_bits(made, to_torch(tensor))
    meant = [stride for size, stride in zip(shape, strides, strict=True) if size > 1]
    if 0 not in shape:
        assert [stride for size, stride in zip(made.shape, made.stride(), strict=True) if size > 1] == meant


@pytest.mark.parametrize(
    ("strides", "text"),
    [
        ((1, 2), "torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]).permute(1, 0)"),
        ((0, 1), "torch.tensor([[0.0, 1.0, 2.0]]).expand(2, 3)"),
        ((4, 1), "torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).as_strided((2, 3), (4, 1), 0)"),
    ],
)
def test_layouts_are_written_as_people_write_them(strides: tuple[int, int], text: str) -> None:
    size = 1 + strides[0] + 2 * strides[1]
    assert tensor_source(Tensor("float32", (2, 3), Literal(np.arange(size, dtype="<f4").tobytes()), strides)) == text


def test_views_of_one_storage() -> None:
    one, two = (Tensor("int64", (2,), Literal(np.arange(3).tobytes()), (1,), offset, "s") for offset in (0, 1))
    scope = dict(NAMES, base=run(storage_source(one, two)))
    first, second = eval(tensor_source(one, base="base"), scope), eval(tensor_source(two, base="base"), scope)
    first[1] = 7
    assert second.tolist() == [7, 2]


def test_short_forms_and_line_lengths() -> None:
    assert array_source(np.array([0.1, -0.0, 1e30], "<f4"), "float32") == "torch.tensor([0.1, -0.0, 1e+30])"
    assert array_source(np.array(True), "bool") == "torch.tensor(True)"
    assert array_source(np.zeros((0, 3), "|i1"), "int8") == "torch.zeros((0, 3), dtype=torch.int8)"
    assert array_source(np.full((5, 5), 2.0), "float64") == "torch.full((5, 5), 2.0, dtype=torch.float64)"
    assert array_source(np.arange(24, dtype="<f4").reshape(4, 6), "float32") == "torch.arange(24, dtype=torch.float32).reshape((4, 6))"
    text = array_source(np.linspace(0, 1, 600, dtype="<f4").reshape(4, 150), "float32", indent="    ")
    assert max(map(len, text.split("\n"))) <= 111
    assert torch.equal(run(text), torch.from_numpy(np.linspace(0, 1, 600, dtype="<f4").reshape(4, 150)))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((Ref("a"), (1,), [2.5, None]), "(relu_1, (1,), [2.5, None])"),
        ({"k": True, 3: "it's"}, '{"k": True, 3: "it\'s"}'),
        (DType("bfloat16"), "torch.bfloat16"),
        (Device("cpu"), 'torch.device("cpu")'),
        (Layout("strided"), "torch.strided"),
        (MemoryFormat("channels_last"), "torch.channels_last"),
        (float("-inf"), "-inf"),
        (complex(1, float("nan")), "complex(1.0, nan)"),
        (slice(None, 2), "slice(None, 2, None)"),
        (Sym("s0*2"), "(s0*2)"),
        ((), "()"),
        (2**80, str(2**80)),
    ],
)
def test_values(value: Value, text: str) -> None:
    assert value_source(value, {"a": "relu_1"}) == text


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (0, "0"),
        ((slice(1, None), Ellipsis, None), "1:, ..., None"),
        (slice(None, None, 2), "::2"),
        ((slice(None),), ":,"),
        ((Ref("a"), (0, 1)), "i, (0, 1)"),
    ],
)
def test_subscripts(index: Value, text: str) -> None:
    assert index_source(index, {"a": "i"}) == text


def test_a_reference_to_nothing() -> None:
    with pytest.raises(FormatError, match="'ghost'"):
        value_source(Ref("ghost"), {})


def test_identifiers() -> None:
    taken = {"x"}
    assert [identifier(name, taken) for name in ("x", "x", "lambda", "0a", "a.b", "")] == ["x_1", "x_2", "_lambda", "_0a", "a_b", "value"]
