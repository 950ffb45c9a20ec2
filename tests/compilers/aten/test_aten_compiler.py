from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from harness.compilers.aten.backend import AtenBackend
from harness.compilers.aten.settings import AtenSettings
from harness.compilers.aten.twin import compile_module
from tests.compilers.aten.modules import MODULES, TRAINABLE, fresh, graph_of

SETTINGS = {
    "default": AtenSettings(),
    "blocks of three": AtenSettings(min_block_size=3),
    "some in torch": AtenSettings(kept_in_torch=frozenset({"aten.add", "aten.mul.Tensor", "aten.relu"})),
    "all in torch": AtenSettings(min_block_size=1000),
    "sequential": AtenSettings(partitioner="sequential"),
    "not lowered": AtenSettings(lowering=False),
    "unchecked": AtenSettings(check_results=False),
    "numpy": AtenSettings(engine="numpy-constants"),
}


@pytest.fixture(autouse=True)
def _forget() -> Any:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def assert_same(expected: Any, actual: Any, *, exactly: bool = True) -> None:
    assert pytree.tree_structure(expected) == pytree.tree_structure(actual)
    for want, have in zip(pytree.tree_leaves(expected), pytree.tree_leaves(actual), strict=True):
        if not isinstance(want, torch.Tensor):
            assert want == have
            continue
        assert (want.dtype, want.shape, want.requires_grad) == (have.dtype, have.shape, have.requires_grad)
        assert torch.equal(want, have) if exactly else torch.allclose(want, have, rtol=1e-5, atol=1e-5)


def twin(module: torch.nn.Module, inputs: Any, backend: AtenBackend, *, training: bool) -> Any:
    return compile_module(graph_of(module), inputs, backend, training=training)


def dynamo(module: torch.nn.Module, inputs: Any, backend: AtenBackend, *, training: bool) -> Any:
    return torch.compile(module, backend=backend, fullgraph=True)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=list(SETTINGS))
@pytest.mark.parametrize("name", MODULES)
def test_no_setting_but_precision_changes_a_forward_pass(name: str, settings: AtenSettings) -> None:
    (module, inputs), (copy, copies) = fresh(name), fresh(name)
    compiled = twin(copy, copies, AtenBackend(settings), training=False)
    with torch.no_grad():
        for _ in range(2):
            expected, actual = module(*inputs), compiled(*copies)
            assert_same(expected, actual)
            assert_same((inputs, dict(module.named_buffers())), (copies, dict(copy.named_buffers())))


@pytest.mark.parametrize("way", [twin, dynamo])
@pytest.mark.parametrize("settings", [SETTINGS["default"], SETTINGS["numpy"], SETTINGS["some in torch"]], ids=["default", "numpy", "some"])
@pytest.mark.parametrize("name", TRAINABLE)
def test_training_gives_the_gradients_of_eager(name: str, settings: AtenSettings, way: Any) -> None:
    (module, inputs), (copy, copies) = fresh(name, training=True), fresh(name, training=True)
    backend = AtenBackend(settings)
    compiled = way(copy, copies, backend, training=True)
    expected, actual = module(*inputs), compiled(*copies)
    assert_same(expected, actual)
    for output in (expected, actual):
        leaves = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        if leaves:
            sum(leaf.square().sum() for leaf in leaves).backward()  # type: ignore[union-attr]
    assert_same({n: p.grad for n, p in module.named_parameters()}, {n: p.grad for n, p in copy.named_parameters()}, exactly=False)
    assert_same(dict(module.named_buffers()), dict(copy.named_buffers()))
    stages = [report.stage for report in backend.reports]
    assert stages == (["forward", "backward"] if list(module.parameters()) else ["inference"])


@pytest.mark.parametrize("way", [twin, dynamo])
@pytest.mark.parametrize("name", MODULES)
def test_outputs_share_memory_as_in_eager(name: str, way: Any) -> None:
    (module, inputs), (copy, copies) = fresh(name), fresh(name)
    with torch.no_grad():
        expected = module(*inputs)
        actual = way(copy, copies, AtenBackend(), training=False)(*copies)
    assert shared(expected, inputs, module) == shared(actual, copies, copy)


def shared(output: Any, inputs: Any, module: torch.nn.Module) -> set[tuple[int, int]]:
    """Which tensors among outputs, inputs and state live in one storage."""
    tensors = [leaf for leaf in pytree.tree_leaves((output, inputs)) if isinstance(leaf, torch.Tensor)]
    tensors += [*module.parameters(), *module.buffers()]
    places = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    return {(i, j) for i, one in enumerate(places) for j, other in enumerate(places) if i < j and one == other}


def test_precision_may_change_results_and_only_within_itself() -> None:
    module, inputs = fresh("conv")
    with torch.no_grad():
        expected = module(*inputs)["scores"]
        for precision, error in (("float64", 1e-6), ("bfloat16", 0.1)):
            compiled = twin(module, inputs, AtenBackend(AtenSettings(precision=precision)), training=False)
            actual = compiled(*inputs)["scores"]
            assert actual.dtype is torch.float32
            assert 0 < (actual - expected).abs().max() < error


def test_the_second_shape_of_a_dynamic_module_runs_in_the_same_engines() -> None:
    module, _ = fresh("scalars")
    backend = AtenBackend(SETTINGS["numpy"])
    compiled = torch.compile(module, backend=backend, dynamic=True, fullgraph=True)
    for size in (4, 7, 5):
        x = torch.randn(size, 3)
        assert torch.equal(module(x), compiled(x))
    assert len(backend.reports) == 1


def test_the_report_counts_what_stayed_in_torch() -> None:
    module, inputs = fresh("scalars")
    backend = AtenBackend(AtenSettings(kept_in_torch=frozenset({"aten.clamp"})))
    twin(module, inputs, backend, training=False)
    (report,) = backend.reports
    assert report.kept == {"aten.clamp.default": 1}
    assert [list(block.nodes.values()) for block in report.blocks] == [["aten.mul.Tensor", "aten.add.Tensor"], ["aten.add.Tensor"]]
    assert report.counts()["nodes-kept-in-torch"] == 1
