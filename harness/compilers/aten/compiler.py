"""The compiler: a graph of aten operators in, a callable out. What brings the graph does not matter here."""

from __future__ import annotations

import contextlib
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from harness.compilers.aten import engines, lowering, verify
from harness.compilers.aten.capability import Capability, operator_name, views_that_show
from harness.compilers.aten.engines.protocol import Declared, Engine, Partition, Runnable
from harness.compilers.aten.errors import AtenError, EngineBuildError, EngineResultError
from harness.compilers.aten.hygiene import is_fake, real_world, refuse_fakes
from harness.compilers.aten.partition import PREFIX, Partitioner, large_enough, partitioner
from harness.compilers.aten.precision import in_precision
from harness.compilers.aten.report import BlockReport, Report
from harness.compilers.aten.settings import AtenSettings
from harness.errors import FxdiffError

# What a failed build may raise; anything else is not a build that failed but a fault that nobody foresaw.
BUILD_FAILURES = (RuntimeError, TypeError, ValueError, LookupError, AssertionError, NotImplementedError, AttributeError)


def compile_graph(
    module: torch.fx.GraphModule,
    settings: AtenSettings,
    *,
    stage: str = "inference",
    engine: Engine | None = None,
    split: Partitioner | None = None,
) -> tuple[torch.fx.GraphModule, Report]:
    """`module`, a functional aten graph with `meta["val"]`, with its partitions run by an engine. `module` is used up.

    Raises PartitionError where partitioning changed the graph, EngineBuildError, HygieneError.
    """
    report = Report(stage)
    chosen = engine or engines.engine(settings.engine, settings)
    chosen_split = split or partitioner(settings.partitioner)
    if settings.lowering:
        report.lowered = lowering.lower(module)
    capability = Capability(settings, chosen, views_that_show(module.graph))
    blocks = large_enough(chosen_split.propose(module, capability), settings)
    verify.check_blocks(module, blocks, capability)
    supported = [node.name for node in module.graph.nodes if capability.is_node_supported({}, node)]
    in_blocks = {node.name for block in blocks for node in block}
    numbering = verify.Numbering()
    before = verify.shape_of(module, numbering)
    fused = chosen_split.fuse(module, blocks)
    verify.check_same(before, verify.shape_of(fused, numbering))
    if settings.min_block_size == 1:
        report.unused = tuple(name for name in supported if name not in in_blocks)
    names = [str(node.target) for node in fused.graph.nodes if node.op == "call_module" and str(node.target).startswith(PREFIX)]
    for name in names:
        partition = partition_of(fused, name)
        block, failure = _built(partition, chosen, settings, report)
        setattr(fused, name, block)
        operators = {node.name: operator_name(node.target) for node in partition.module.graph.nodes if node.op == "call_function"}
        report.blocks.append(BlockReport(name, operators, failure))
    report.kept = dict(
        Counter(operator_name(node.target) for node in fused.graph.nodes if node.op == "call_function" and not _takes_apart(node))
    )
    report.predicate_failures = tuple(capability.failures)
    fused.recompile()
    return fused, report


def _takes_apart(node: torch.fx.Node) -> bool:
    """Whether the node only takes an item out of a block's results."""
    source = node.args[0] if node.args else None
    return node.target is operator.getitem and isinstance(source, torch.fx.Node) and source.op == "call_module"


def partition_of(module: torch.fx.GraphModule, name: str) -> Partition:
    """The submodule `name` as engines are given it: types in plain numbers, and no trace of tracing."""
    inner = module.get_submodule(name)
    assert isinstance(inner, torch.fx.GraphModule)
    inputs = tuple(declared(node.meta.get("val")) for node in inner.graph.nodes if node.op == "placeholder")
    (results,) = inner.graph.output_node().args
    outputs = tuple(declared(node.meta.get("val")) for node in results)  # type: ignore[union-attr]
    for node in inner.graph.nodes:
        value = node.meta.get("val")
        node.meta = {"declared": tuple(map(declared, value)) if isinstance(value, tuple | list) else declared(value)}
    return Partition.of(name, inner, inputs, outputs)


def declared(value: Any) -> Declared | None:
    """The type of a traced value; None for what is no tensor."""
    if not isinstance(value, torch.Tensor):
        return None
    strides = tuple(map(_number, value.stride())) if value.layout is torch.strided else ()
    return Declared(value.dtype, tuple(map(_number, value.shape)), strides)


def _number(size: int | torch.SymInt) -> int | None:
    return size if isinstance(size, int) else None


def _built(partition: Partition, engine: Engine, settings: AtenSettings, report: Report) -> tuple[torch.nn.Module, str]:
    """The partition's engine; or the partition itself and why, where the build fails and that is to be passed through."""
    failure = ""
    runnable: Runnable = partition.module
    try:
        runnable = build(partition, engine, settings)
    except EngineBuildError as error:
        if not settings.pass_through_build_failures:
            raise
        failure = str(error)
    return BlockModule(partition, runnable, check=settings.check_results, report=report), failure


def build(partition: Partition, engine: Engine, settings: AtenSettings) -> Runnable:
    """The engine for one partition, built where no tracing is on. Raises EngineBuildError, HygieneError."""
    where = f"{partition.name}: engine {engine.name}"
    refuse_fakes(dict(partition.module.named_buffers()) | dict(partition.module.named_parameters()), where, "the constants it is given")
    with real_world(where), torch.no_grad():
        try:
            runnable = in_precision(engine, partition, settings.precision)
        except AtenError:
            raise
        except FxdiffError as error:
            raise EngineBuildError(partition.name, engine.name, error) from error
        except BUILD_FAILURES as error:
            raise EngineBuildError(partition.name, engine.name, error) from error
    refuse_fakes(runnable, where, "what it keeps")
    return runnable


class BlockModule(torch.nn.Module):
    """A partition in its graph: calls the engine, and holds it to what tracing declared."""

    def __init__(self, partition: Partition, runnable: Runnable, *, check: bool, report: Report) -> None:
        super().__init__()
        # Not registered: an engine that is a module must not become part of the user's.
        self._call: Any
        object.__setattr__(self, "_call", runnable)
        self.partition: Partition
        object.__setattr__(self, "partition", partition)
        self.before: Callable[[BlockModule, tuple[Any, ...]], None] | None = None
        self._partition = partition.name
        self._outputs = partition.outputs
        self._check = check
        self._report = report

    def forward(self, *inputs: Any) -> tuple[torch.Tensor, ...]:
        """The engine's results. Raises EngineResultError, HygieneError where they are not what the partition returns."""
        if self.before is not None:
            self.before(self, inputs)
        results = self._call(*inputs)
        if not self._check:
            return tuple(results)
        if not isinstance(results, tuple | list):
            raise EngineResultError(self._partition, f"returned a {type(results).__name__} where {len(self._outputs)} tensors are due")
        if len(results) != len(self._outputs):
            raise EngineResultError(self._partition, f"returned {len(results)} results where {len(self._outputs)} are due")
        return tuple(self._checked(place, result, due) for place, (result, due) in enumerate(zip(results, self._outputs, strict=True)))

    def engine_results(self, *inputs: Any) -> Sequence[Any]:
        """What the engine gives, as it gives it."""
        return self._call(*inputs)  # type: ignore[no-any-return]

    def torch_results(self, *inputs: Any) -> Sequence[torch.Tensor]:
        """What torch gives for the same partition."""
        return self.partition.pristine()(*inputs)  # type: ignore[no-any-return]

    def _checked(self, place: int, result: Any, due: Declared | None) -> torch.Tensor:
        if not isinstance(result, torch.Tensor):
            raise EngineResultError(self._partition, f"result {place} is a {type(result).__name__}")
        if is_fake(result):
            refuse_fakes(result, self._partition, f"its results, at {place}")
        if due is None:
            return result
        if result.dtype is not due.dtype:
            raise EngineResultError(self._partition, f"result {place} is {result.dtype}; tracing declared {due.dtype}")
        if not _admits(due.shape, result.shape):
            raise EngineResultError(self._partition, f"result {place} is of shape {list(result.shape)}; tracing declared {list(due.shape)}")
        expanded = any(step == 0 and size != 1 for size, step in zip(due.shape, due.strides, strict=False))
        if due.strides and None not in due.strides and not expanded and not _same_layout(result, due.strides):
            self._report.layouts_mended += 1
            return torch.empty_strided(result.shape, due.strides, dtype=result.dtype).copy_(result)  # type: ignore[arg-type]
        return result


def _admits(due: Sequence[int | None], given: Sequence[int]) -> bool:
    return len(due) == len(given) and all(want in (None, have) for want, have in zip(due, given, strict=True))


def _same_layout(result: torch.Tensor, due: Sequence[int | None]) -> bool:
    """Whether strides agree wherever they matter: a dim of one element has any stride, an empty tensor any at all."""
    if result.layout is not torch.strided or result.numel() == 0:
        return True
    return all(size <= 1 or have == want for size, have, want in zip(result.shape, result.stride(), due, strict=True))


@contextlib.contextmanager
def untouched(module: torch.nn.Module, where: str) -> Any:
    """Check that compiling leaves parameters and buffers as they were: the same objects, versions and values."""
    before = {name: (tensor, tensor._version) for name, tensor in _tensors(module).items()}
    yield
    after = _tensors(module)
    if after.keys() != before.keys() or any(after[name] is not old or old._version != version for name, (old, version) in before.items()):
        changed = [name for name, (old, version) in before.items() if after.get(name) is not old or old._version != version]
        raise AtenError(f"{where}: compiling changed {', '.join(changed) or 'which tensors the module holds'}")


def _tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
