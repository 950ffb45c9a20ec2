from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.fx

from harness.compilers.aten import engines
from harness.compilers.aten.audit import full
from harness.compilers.aten.backend import AtenBackend
from harness.compilers.aten.engines import tensorrt
from harness.compilers.aten.engines.protocol import Declared, Partition
from harness.compilers.aten.errors import EngineBuildError, EngineResultError
from harness.compilers.aten.settings import DEFAULTS, AtenSettings
from harness.compilers.aten.twin import compile_module
from harness.environments.availability import missing
from harness.errors import TargetUnavailable, Unsupported
from tests.compilers.aten.modules import fresh, graph_of
from tests.compilers.aten.test_aten_audit import of, subject

NEEDS = {"torch-mlir": "torch-mlir", "oneflow": "torch-compile-oneflow"}


def engine(name: str) -> Any:
    lack = missing(NEEDS[name])
    if lack is not None:
        pytest.skip(lack.what)
    return engines.engine(name)


@pytest.mark.parametrize("name", NEEDS)
@pytest.mark.parametrize("module", ["conv", "scalars", "views"])
def test_a_real_engine_computes_what_eager_computes(name: str, module: str) -> None:
    used = engine(name)
    made = subject(module)
    backend = AtenBackend(engine=used)
    compiled = compile_module(made.make(), made.inputs(), backend)
    with torch.no_grad():
        expected, actual = made.make()(*made.inputs()), compiled(*made.inputs())
    for want, have in zip(torch.utils._pytree.tree_leaves(expected), torch.utils._pytree.tree_leaves(actual), strict=True):
        assert torch.allclose(want, have, rtol=1e-5) if isinstance(want, torch.Tensor) else want == have
    assert backend.reports[0].counts()["nodes-in-partitions"] > 0
    assert backend.reports[0].passed_through == 0


def test_torch_mlir_leaves_to_torch_what_it_cannot_compile_alone() -> None:
    used = engine("torch-mlir")
    backend = AtenBackend(engine=used)
    made = of(lambda x: torch.cos(torch.linalg.eigvalsh(x @ x.t())))
    compiled = compile_module(made.make(), made.inputs(), backend)
    assert torch.allclose(compiled(*made.inputs()), made.make()(*made.inputs()), rtol=1e-5)
    assert any("eig" in name for name in backend.reports[0].kept)
    assert full(of(lambda x: torch.cos(x) * 2), DEFAULTS, engine=used) == []


def test_torch_mlir_takes_several_results_and_bfloat16() -> None:
    used = engine("torch-mlir")
    made = of(lambda x: torch.max(x.bfloat16() * 2, 1))
    backend = AtenBackend(engine=used)
    compiled = compile_module(made.make(), made.inputs(), backend)
    values, index = compiled(*made.inputs())
    expected = torch.max(made.inputs()[0].bfloat16() * 2, 1)
    assert torch.equal(values, expected.values)
    assert torch.equal(index, expected.indices)


# TensorRT, of which only what is ours can be tested here: its libraries need a GPU.


class TorchTensorRTModule(torch.nn.Module):
    """Stands in for the module that holds an engine."""

    def __init__(self, inner: torch.fx.GraphModule, change: Callable[[Any], Any]) -> None:
        super().__init__()
        self.inner, self.change = inner, change

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.change(self.inner(*inputs))


class Backend:
    """Stands in for torch_tensorrt's dynamo backend, and notes what it was given."""

    def __init__(self, change: Callable[[Any], Any] = lambda results: results) -> None:
        self.change, self.given = change, [{}]

    def __call__(self, module: torch.fx.GraphModule, inputs: Any, *, options: dict[str, Any]) -> Any:
        self.given.append({"inputs": inputs, **options})
        return TorchTensorRTModule(module, self.change)


def trt(backend: Any, **settings: Any) -> tensorrt.TensorRTEngine:
    library = tensorrt.Library(backend, lambda node: "sort" not in str(node.target), device="cpu")
    return tensorrt.TensorRTEngine(library, AtenSettings(engine="tensorrt", **settings))


def test_tensorrt_is_given_a_partition_whole_and_told_to_fail_loudly() -> None:
    backend = Backend()
    module, inputs = fresh("conv")
    compiled = compile_module(graph_of(module), inputs, AtenBackend(engine=trt(backend)))
    with torch.no_grad():
        assert torch.equal(compiled(*inputs)["scores"], module(*inputs)["scores"])
    given = backend.given[-1]
    assert given["require_full_compilation"] is True
    assert given["pass_through_build_failures"] is True
    assert given["min_block_size"] == 1
    assert given["enabled_precisions"] == {torch.float32}
    assert {value.dtype for value in given["inputs"]} == {torch.float32}


def test_tensorrt_takes_a_precision_by_its_own_option() -> None:
    assert tensorrt.options_for(AtenSettings(precision="float16"))["enabled_precisions"] == {torch.float32, torch.float16}
    with pytest.raises(Unsupported, match="TensorRT computes in no float64"):
        tensorrt.options_for(AtenSettings(precision="float64"))
    backend = Backend()
    made = of(torch.sin)
    settings = AtenSettings(engine="tensorrt", precision="float16")
    output = compile_module(made.make(), made.inputs(), AtenBackend(settings, engine=trt(backend, precision="float16")))(*made.inputs())
    assert torch.equal(output, torch.sin(*made.inputs())), "no cast of ours besides"


def test_tensorrt_refuses_what_it_has_no_converter_or_dtype_for() -> None:
    backend = AtenBackend(engine=trt(Backend()))
    made = of(lambda x: torch.sort(x * 2).values.double() * 2)
    compile_module(made.make(), made.inputs(), backend)
    kept = backend.reports[0].kept
    assert kept["aten.sort.default"] == 1
    assert kept["aten._to_copy.default"] == 1
    assert [list(block.nodes.values()) for block in backend.reports[0].blocks] == [["aten.mul.Tensor"]]


@pytest.mark.parametrize(
    ("backend", "says"),
    [
        (lambda module, inputs, options: module, "returned the graph as it was given"),
        (lambda module, inputs, options: module.forward, "returned the graph as it was given"),
        (lambda module, inputs, options: torch.fx.GraphModule(module, module.graph), "returned a graph without an engine"),
        (lambda module, inputs, options: lambda *args: module(*args), "which cannot be looked into for an engine"),
        (lambda module, inputs, options: None, "returned a NoneType"),
    ],
)
def test_a_silent_return_of_the_original_graph_is_a_failure(backend: Any, says: str) -> None:
    made = of(torch.sin)
    with pytest.raises(EngineBuildError, match=f"^block_0: engine tensorrt cannot be built: RuntimeError: .*{says}"):
        compile_module(made.make(), made.inputs(), AtenBackend(engine=trt(backend)))


def test_tensorrts_results_become_cpu_tensors_or_are_told() -> None:
    made = of(torch.sin)
    alone = compile_module(made.make(), made.inputs(), AtenBackend(engine=trt(Backend(lambda results: results[0]))))
    assert torch.equal(alone(*made.inputs()), torch.sin(*made.inputs()))
    listed = compile_module(made.make(), made.inputs(), AtenBackend(engine=trt(Backend(list))))
    assert torch.equal(listed(*made.inputs()), torch.sin(*made.inputs()))
    odd = compile_module(made.make(), made.inputs(), AtenBackend(engine=trt(Backend(lambda results: {"a": results[0]}))))
    with pytest.raises(EngineResultError, match=r"block_0: TensorRT's result 0 is a dict"):
        odd(*made.inputs())


def test_tensorrt_builds_for_numbers_alone() -> None:
    graph = torch.fx.Graph()
    graph.output((graph.call_function(torch.ops.aten.sin.default, (graph.placeholder("x"),)),))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    symbolic = Declared(torch.float32, (None, 2))
    with pytest.raises(Unsupported, match="sizes that are numbers"):
        trt(Backend()).build(Partition.of("block_0", module, [symbolic], [symbolic]))


def test_tensorrt_is_not_offered_here_and_says_why() -> None:
    lack = missing("torch-compile-tensorrt")
    if lack is None:
        pytest.skip("TensorRT's libraries are here")
    assert "CUDA driver" in lack.what or "is not installed" in lack.what
    with pytest.raises(TargetUnavailable, match=r"needs torch_tensorrt and tensorrt|needs a GPU|builds no engine"):
        engines.engine("tensorrt")
