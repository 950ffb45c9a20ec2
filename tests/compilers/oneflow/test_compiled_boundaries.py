from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import torch.fx
import torch.nn.functional as F

from harness.backends.oneflow.service.arena import new_arena
from harness.backends.oneflow.service.messages import INLINE_BYTES, CannotPass, decode, encode, pack, unpack
from harness.compilers.oneflow import NodeFailed
from harness.compilers.oneflow.options import Options
from harness.compilers.oneflow.region import Region
from harness.compilers.oneflow.tensors import pack as pack_tensor
from harness.compilers.oneflow.tensors import unpack as unpack_tensor
from harness.environments.oneflow_env import oneflow_python
from harness.model.values import DType
from tests.compilers.oneflow.helpers import check, needs_oneflow, placed, tensors

ROOT = Path(__file__).parents[3]


def echo(**examples: Any) -> Region:
    """A region that gives back what it is given."""
    graph = torch.fx.Graph()
    nodes = []
    for name, example in examples.items():
        node = graph.placeholder(name)
        node.meta["example_value"] = example
        nodes.append(node)
    graph.output(tuple(nodes))
    return Region(torch.fx.GraphModule({}, graph), Options())


def same(actual: Any, expected: Any) -> None:
    assert type(actual) is type(expected)
    if isinstance(expected, torch.Tensor):
        assert actual.dtype == expected.dtype and actual.shape == expected.shape and torch.equal(actual, expected)
        assert not actual.numel() or actual.data_ptr() != expected.data_ptr()
    elif isinstance(expected, tuple | list):
        assert len(actual) == len(expected)
        for mine, its in zip(actual, expected, strict=True):
            same(mine, its)
    elif isinstance(expected, dict):
        assert list(actual) == list(expected)
        for key, value in expected.items():
            same(actual[key], value)
    else:
        assert actual == expected


def t(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


CONTAINERS = {
    "tensor": lambda: t(2, 3),
    "scalar tensor": lambda: t(),
    "empty tensor": lambda: t(0, 3),
    "large tensor": lambda: t(100, 200),
    "strided tensor": lambda: t(3, 4).t(),
    "tuple": lambda: (t(2), t(3)),
    "list": lambda: [t(2), t(3)],
    "dict": lambda: {"boxes": t(2), "scores": t(3)},
    "nested": lambda: {"a": [t(2), (t(1), {"b": None})], 3: ((), [], {})},
    "int": lambda: 7,
    "float": lambda: 0.5,
    "infinite": lambda: float("inf"),
    "bool": lambda: True,
    "str": lambda: "text",
    "None": lambda: None,
}


@needs_oneflow
@pytest.mark.parametrize("name", CONTAINERS)
def test_every_container_passes_to_oneflow_and_back(name: str) -> None:
    value = CONTAINERS[name]()
    (actual,) = echo(x=value)(value)
    same(actual, value)


@needs_oneflow
def test_a_size_passes_as_a_tuple() -> None:
    value = torch.Size([2, 3])
    assert echo(x=value)(value) == ((2, 3),)


@needs_oneflow
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"])
def test_every_dtype_that_both_have_passes_unchanged(dtype: str) -> None:
    for shape in ((), (3, 2), (200, 200)):
        value = torch.randn(shape).mul(3).to(getattr(torch, dtype))
        same(echo(x=value)(value)[0], value)


@needs_oneflow
@pytest.mark.parametrize(
    ("value", "says"),
    [
        (object(), r"input 'x': a builtins.object can pass"),
        ([1, {"k": (t(1), {1, 2})}], r"input 'x'\[1\]\['k'\]\[1\]: a builtins.set can pass"),
        (torch.Generator(), r"input 'x': a torch._C.Generator can pass"),
        (1j, r"input 'x': a builtins.complex can pass"),
        (1 << 70, r"input 'x': the integer 1180591620717411303424 is too large"),
        ((t(2).to_sparse(),), r"input 'x'\[0\]: a torch.sparse_coo tensor"),
    ],
)
def test_any_other_type_is_refused_by_type_node_and_position(value: Any, says: str) -> None:
    with pytest.raises(CannotPass, match=says):
        echo(x=None)(value)


@needs_oneflow
def test_a_tensor_of_a_class_of_its_own_is_refused() -> None:
    class Mine(torch.Tensor):
        pass

    with pytest.raises(CannotPass, match="Mine can pass neither"):
        echo(x=t(2))(t(2).as_subclass(Mine))


MULTI: dict[str, Callable[[torch.Tensor], Any]] = {
    "max": lambda x: torch.max(x, 1),
    "min": lambda x: x.min(dim=0),
    "median": lambda x: torch.median(x, 1),
    "topk": lambda x: torch.topk(x, 2),
    "sort": lambda x: torch.sort(x, dim=1),
    "split": lambda x: torch.split(x, 2),
    "split sizes": lambda x: x.split([1, 3], dim=1),
    "chunk": lambda x: x.chunk(2, dim=1),
    "unbind": lambda x: x.unbind(1),
    "tensor_split": lambda x: torch.tensor_split(x, 3),
    "hsplit": lambda x: torch.hsplit(x, 2),
    "meshgrid": lambda x: torch.meshgrid(x[0], x[1], indexing="ij"),
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x, x[:1]),
    "max_pool2d": lambda x: F.max_pool2d(x[None, None], 2, return_indices=True),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x[None, None], 2, return_indices=True),
    "where": lambda x: torch.where(x > 0),
    "atleast_2d": lambda x: torch.atleast_2d(x[0], x[1]),
    "var_mean": lambda x: torch.var_mean(x, 1),
    "aminmax": lambda x: torch.aminmax(x),
    "frexp": lambda x: torch.frexp(x),
}


@needs_oneflow
@pytest.mark.parametrize("name", MULTI)
def test_no_oneflow_tensor_leaves_an_operator_of_several_results(name: str) -> None:
    actual = check(lambda x: [each * 2 for each in MULTI[name](torch.relu(x))], torch.randperm(16).view(4, 4).float(), grad=name != "where")
    assert tensors(actual)


@needs_oneflow
def test_a_container_that_torch_made_is_read_in_oneflow() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        values, _ = torch.cummax(torch.relu(x), 0)  # OneFlow has none
        return torch.cat([values, x]) * 2

    check(function, torch.randn(3, 2))
    assert placed().trips == 2


@needs_oneflow
def test_another_structure_than_torchs_names_the_node() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros_like(x)
        return y.copy_(x)  # returns None in OneFlow 0.9.0

    with pytest.raises(NodeFailed, match=r"node 'copy_': OneFlow returned a NoneType with 0 tensors where torch has 1"):
        torch.compile(function, backend="oneflow")(torch.randn(3))


@needs_oneflow
def test_oneflows_own_containers_become_pythons() -> None:
    code = """
from harness.backends.oneflow.service.loop import Service
from harness.backends.oneflow.service.arena import new_arena
from harness.backends.oneflow.service.messages import encode
from harness.workers.progress import PageProgress, map_page, new_page
import oneflow
service = Service(PageProgress(map_page(new_page())), new_arena(), new_arena())
pair = oneflow._oneflow_internal.TensorTuple([oneflow.ones(2), oneflow.zeros(1)])
plain = encode([pair, {"size": oneflow.ones(2, 3).shape}], "node 'n'", service._pack, service._normal)
assert plain[0]["tuple"][0]["tensor"].shape == (2,), plain
assert plain[1]["dict"] == [["size", {"tuple": [2, 3]}]], plain
try:
    encode((1, oneflow.float32), "node 'n'", service._pack, service._normal)
except Exception as error:
    print(error)
"""
    environment = oneflow_python()
    env = environment.child_environment() | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([environment.python, "-c", code], env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "node 'n'[1]: a oneflow._oneflow_internal.dtype can pass neither" in done.stdout


def test_values_survive_as_bytes() -> None:
    arena = new_arena()
    big = torch.arange(INLINE_BYTES, dtype=torch.float32)
    value = [1, (2.5, None), {"k": big, 0: big[:2]}, slice(None, 3), DType("float32"), [big, big.t()]]
    plain = encode(value, "x", lambda item, where: pack_tensor(item, where, arena))
    again = decode(unpack(pack({"v": plain}))["v"], lambda packed: unpack_tensor(packed, arena))
    assert again[0] == 1 and again[1] == (2.5, None) and again[3:5] == value[3:5]
    assert torch.equal(again[2]["k"], big) and torch.equal(again[2][0], big[:2]) and torch.equal(again[5][1], big)
    arena.close()


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        unpack(msgspec.msgpack.encode([1]))
    with pytest.raises(CannotPass, match="tagged nonsense"):
        decode({"nonsense": 1}, lambda packed: packed)
    arena = new_arena()
    with pytest.raises(ValueError, match="bytes of shared memory"):
        arena.map_to(1 << 30)
    arena.close()
