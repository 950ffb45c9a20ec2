from __future__ import annotations

import collections
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import FormatError, HarnessError
from harness.model.codec import value_to_data
from harness.model.dtypes import DTYPES
from harness.model.fill import Fill, Literal
from harness.model.symbols import Sym
from harness.model.values import Device, DType, Layout, MemoryFormat, Ref, Tensor, Value, storage_size
from harness.torch_bridge.tensors import TORCH_DTYPES, Storages, Unrepresentable, from_torch, materialize, to_torch

torch.set_num_threads(1)

shapes = st.lists(st.integers(0, 3), max_size=4).map(tuple)


@st.composite
def contiguous_tensors(draw: st.DrawFn) -> Tensor:
    dtype = draw(st.sampled_from(sorted(DTYPES)))
    shape = draw(shapes)
    raw = draw(st.binary(min_size=(n := math.prod(shape) * DTYPES[dtype].itemsize), max_size=n))
    return Tensor(dtype, shape, Literal(bytes(byte & 1 for byte in raw) if dtype == "bool" else raw))


@st.composite
def strided_tensors(draw: st.DrawFn) -> Tensor:
    dtype = draw(st.sampled_from(sorted(DTYPES)))
    shape = draw(shapes)
    strides = tuple(draw(st.integers(0, 5)) for _ in shape)
    return Tensor(dtype, shape, Fill("ordinary/1", draw(st.integers(0, 99))), strides, draw(st.integers(0, 3)))


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=3),
    st.just(Ellipsis),
    st.sampled_from([DType(name) for name in DTYPES]),
    st.just(Device("cpu")),
    st.just(Layout("strided")),
    st.sampled_from([MemoryFormat("channels_last"), MemoryFormat("contiguous_format"), MemoryFormat("preserve_format")]),
    contiguous_tensors(),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2) | st.integers(), inner, max_size=2),
        st.builds(slice, st.none() | st.integers(), st.none() | st.integers(), st.none() | st.integers()),
    ),
    max_leaves=8,
)


@settings(max_examples=80, deadline=None)
@given(values)
def test_every_value_survives_the_way_through_torch(value: Value) -> None:
    assert value_to_data(from_torch(to_torch(value))) == value_to_data(value)


@settings(max_examples=150, deadline=None)
@given(strided_tensors())
def test_strides_and_offset_become_torchs_own(value: Tensor) -> None:
    tensor = to_torch(value)
    assert tuple(tensor.shape) == value.shape
    assert tensor.dtype == TORCH_DTYPES[value.dtype]
    if 0 not in value.shape:
        assert tuple(tensor.stride()) == value.strides
        assert tensor.storage_offset() == value.offset
    assert from_torch(tensor).array().tobytes() == value.array().tobytes()


@settings(max_examples=150, deadline=None)
@given(strided_tensors())
def test_a_literal_with_layout_keeps_strides_and_only_the_memory_that_is_reached(value: Tensor) -> None:
    tensor = to_torch(value)
    kept = from_torch(tensor, layout=True)
    again = to_torch(kept)
    assert again.is_contiguous() == tensor.is_contiguous()
    assert tensor.is_contiguous() or tuple(again.stride()) == tuple(tensor.stride())
    assert from_torch(again) == from_torch(tensor)
    assert len(kept.data.data) == DTYPES[value.dtype].itemsize * storage_size(kept.shape, tuple(again.stride()), 0)


def test_tensors_of_one_storage_share_it() -> None:
    whole = Tensor("float32", (6,), Fill("exact/1"), storage="memory")
    column = Tensor("float32", (2,), Fill("exact/1"), (3,), 1, "memory")
    alone = Tensor("float32", (6,), Fill("exact/1"))
    made = materialize({"a": column, "b": [whole, alone]})
    a, (b, c) = made["a"], made["b"]
    a.zero_()
    assert b.tolist()[1] == 0 and b.tolist()[4] == 0
    assert c.tolist() != b.tolist()
    assert a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() != c.untyped_storage().data_ptr()


def test_a_short_view_of_a_long_literal_storage_is_taken_in_any_order() -> None:
    data = Literal(np.arange(6, dtype=np.float32).tobytes())
    short, long = Tensor("float32", (2,), data, (2,), 1, "m"), Tensor("float32", (2, 3), data, storage="m")
    assert materialize({"short": short})["short"].tolist() == short.array().tolist() == [1, 3]
    made = materialize({"short": short, "long": long})
    assert made["long"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_storage_of_two_dtypes_is_refused() -> None:
    with pytest.raises(FormatError, match="'m' is both float32 and int32"):
        materialize({"a": Tensor("float32", (1,), Fill("exact/1"), storage="m"), "b": Tensor("int32", (1,), Fill("exact/1"), storage="m")})


def test_a_view_that_nobody_reserved_memory_for_is_refused() -> None:
    storages = Storages()
    storages.tensor(Tensor("float32", (2,), Fill("exact/1"), storage="m"))
    with pytest.raises(FormatError, match="2 elements where a view needs 3"):
        storages.tensor(Tensor("float32", (3,), Fill("exact/1"), storage="m"))


def test_memory_is_torchs_own_and_can_be_resized() -> None:
    tensor = to_torch(Tensor("float32", (2,), Fill("exact/1")))
    from_torch(tensor)
    assert tensor.resize_(100).numel() == 100


def test_refs_and_sizes_are_looked_up() -> None:
    assert to_torch([Ref("a"), (Sym("s0*2"), slice(Ref("a"), None))], {"a": 3}, binding={"s0": 4}) == [3, (8, slice(3, None))]
    with pytest.raises(HarnessError, match="no value for node 'b'"):
        to_torch(Ref("b"), {})
    with pytest.raises(FormatError, match="s1, which has no value"):
        to_torch(Sym("s1"), binding={"s0": 1})


@pytest.mark.parametrize("value", [DType("float7"), Device("toaster"), Layout("sparse"), MemoryFormat("diagonal"), object(), {1, 2}])
def test_what_is_outside_the_grammar_is_a_format_error(value: object) -> None:
    with pytest.raises(FormatError):
        to_torch(value)


def test_named_tuples_and_sizes_become_tuples() -> None:
    pair = torch.ones(2).max(0)
    assert type(from_torch(pair)) is tuple
    assert from_torch(torch.Size([2, 3])) == (2, 3) and type(from_torch(torch.Size([2]))) is tuple
    assert from_torch(collections.OrderedDict(a=1)) == {"a": 1}


@pytest.mark.parametrize(
    "value",
    [
        torch.ones(2).to_sparse(),
        torch.ones(2, device="meta"),
        torch.zeros(2, dtype=torch.uint16),
        torch.nn.ReLU(),
        object(),
        np.ones(2),
    ],
)
def test_what_the_grammar_cannot_hold_is_refused_by_name(value: object) -> None:
    with pytest.raises(Unrepresentable, match="outside the value grammar"):
        from_torch(value)


def test_lazy_conjugates_are_resolved() -> None:
    assert from_torch(torch.tensor([1 + 2j]).conj(), layout=True).array().tolist() == [1 - 2j]
