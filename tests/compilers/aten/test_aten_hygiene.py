"""Both failures of the report that the aten path began with: as they were, and as they are not here."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from harness.compilers.aten.backend import AtenBackend, fxdiff_aten
from harness.compilers.aten.compiler import partition_of
from harness.compilers.aten.engines.numpy_constants import NumpyConstantsEngine, constant
from harness.compilers.aten.errors import HygieneError
from harness.compilers.aten.hygiene import fakes_in, modes_on, real_world, refuse_fakes
from harness.compilers.aten.settings import AtenSettings
from tests.compilers.aten.modules import Embedding, Scalars, fresh

NUMPY = AtenSettings(engine="numpy-constants")


@pytest.fixture(autouse=True)
def _forget() -> Any:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
    assert modes_on() == ()


def naive(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """The backend in its old form: the engine is built where AOTAutograd calls the compiler."""

    def compiler(graph: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        for node in graph.graph.nodes:
            for argument in node.args:
                if isinstance(argument, float):
                    constant(argument)
        boxed: Callable[..., Any] = make_boxed_func(graph.forward)
        return boxed

    return aot_autograd(fw_compiler=compiler, decompositions={})(module, example_inputs)  # type: ignore[no-any-return]


def test_old_form_a_constant_cannot_become_numpy_while_a_fake_mode_is_on() -> None:
    with FakeTensorMode(), pytest.raises(RuntimeError, match=r"\.numpy\(\) is not supported for tensor subclasses"):
        constant(2.0)


def test_old_form_so_a_converter_fails_inside_torch_compile() -> None:
    with pytest.raises(Exception, match=r"\.numpy\(\) is not supported for tensor subclasses"), torch.no_grad():
        torch.compile(Scalars(), backend=naive)(torch.randn(4, 3))


def test_old_form_real_parameters_do_not_mix_with_fake_inputs() -> None:
    mode = FakeTensorMode()
    index = mode.from_tensor(torch.tensor([1, 2]))
    with pytest.raises(
        Exception, match=r"Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with 'allow_non_fake"
    ) as caught:
        make_fx(Embedding())(index)
    assert "aten.embedding.default" in str(caught.value)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("make", [Scalars, Embedding])
def test_our_form_takes_both_modules_through_torch_compile(make: Callable[[], torch.nn.Module], grad: bool) -> None:
    torch.manual_seed(0)
    module = make()
    x = torch.tensor([[1, 2]]) if make is Embedding else torch.randn(4, 3)
    with torch.set_grad_enabled(grad):
        assert torch.equal(module(x), torch.compile(module, backend=AtenBackend(NUMPY), fullgraph=True)(x))


def test_the_entry_point_takes_options_by_name() -> None:
    module, inputs = fresh("scalars")
    compiled = torch.compile(module, backend=fxdiff_aten, options={"engine": "numpy-constants"})
    assert torch.equal(module(*inputs), compiled(*inputs))


class Watching(NumpyConstantsEngine):
    """Notes what is on while it builds, and whatever fake it can see."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def build(self, partition: Any) -> Any:
        self.seen.append((modes_on(), torch._guards.detect_fake_mode(), fakes_in(partition)))
        self.seen += [node.meta for node in partition.module.graph.nodes if "val" in node.meta]
        return super().build(partition)


@pytest.mark.parametrize("training", [False, True])
def test_engines_are_built_where_nothing_is_fake(training: bool) -> None:
    engine = Watching()
    module, inputs = fresh("conv", training=training)
    with torch.set_grad_enabled(training):
        result = torch.compile(module, backend=AtenBackend(NUMPY, engine=engine))(*inputs)
        if training:
            result["scores"].sum().backward()
    assert engine.seen == [((), None, [])] * (2 if training else 1)


def test_a_mode_left_on_is_told_and_turned_off() -> None:
    with pytest.raises(HygieneError, match="here: left FakeTensorMode on"), real_world("here"):
        FakeTensorMode().__enter__()
    assert modes_on() == ()


def test_the_modes_that_were_on_come_back() -> None:
    with FakeTensorMode():
        with real_world("here"):
            assert modes_on() == ()
        assert modes_on() == ("FakeTensorMode",)


def test_fakes_are_found_in_attributes_items_closures_and_slots() -> None:
    fake = FakeTensorMode().from_tensor(torch.ones(2))

    class Slotted:
        __slots__ = ("held",)

    slotted, plain = Slotted(), torch.nn.Module()
    slotted.held = [fake]  # type: ignore[attr-defined]
    plain.constants = {"a": torch.ones(1), "b": (fake,)}
    assert fakes_in(slotted) == [".held[0]"]
    assert fakes_in(plain) == [".constants['b'][0]"]
    assert fakes_in(functools.partial(lambda x: x, fake)) == [".args[0]"]
    assert fakes_in(lambda: fake) == ["<fake>"]
    assert fakes_in(torch.ones(1, device="meta")) == ["itself"]
    assert fakes_in([torch.ones(1), {"x": 1}]) == []
    with pytest.raises(HygieneError, match=r"engine: a fake tensor among what it keeps: \.held\[0\]"):
        refuse_fakes(slotted, "engine", "what it keeps")


def test_a_partition_carries_types_and_no_trace_of_tracing() -> None:
    mode = FakeTensorMode()
    graph = make_fx(lambda x: (x + 1.0,), tracing_mode="fake")(torch.ones(2, 3))
    outer = torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph())
    outer.add_submodule("block_0", graph)
    partition = partition_of(outer, "block_0")
    assert partition.inputs[0] is not None
    assert (partition.inputs[0].dtype, partition.inputs[0].shape, partition.is_static) == (torch.float32, (2, 3), True)
    assert all("val" not in node.meta for node in partition.module.graph.nodes)
    assert mode not in torch.utils._python_dispatch._get_current_dispatch_mode_stack()
