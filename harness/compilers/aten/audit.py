"""What must hold of the aten path whatever the graph: checked by running it beside itself. Guilty partition, then node, are named."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx
from torch.utils import _pytree as pytree

from harness.compilers.aten.backend import AtenBackend
from harness.compilers.aten.capability import operator_name
from harness.compilers.aten.compiler import BlockModule, build
from harness.compilers.aten.engines.protocol import Declared, Engine, Partition
from harness.compilers.aten.errors import AtenError
from harness.compilers.aten.partition import PREFIX
from harness.compilers.aten.settings import AtenSettings, may_change_results
from harness.compilers.aten.twin import compile_module
from harness.torch_bridge.gradients import loss_of

# Settings that must not change results, each beside the default that it replaces.
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "min_block_size=2": {"min_block_size": 2},
    "min_block_size=1000": {"min_block_size": 1000},
    "partitioner=sequential": {"partitioner": "sequential"},
    "lowering=False": {"lowering": False},
}
_ULPS = {torch.float16: 8, torch.bfloat16: 8, torch.float32: 256, torch.float64: 4096}


@dataclass(frozen=True, slots=True)
class Defect:
    """Something that does not hold: which check, what was seen, and the partition and node at fault where they are known."""

    check: str
    message: str
    partition: str = ""
    node: str = ""

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.partition, self.node) if part)
        return f"{self.check}: {f'{place}: ' if place else ''}{self.message}"


@dataclass(frozen=True, slots=True)
class Subject:
    """A module to compile, made anew each time, with inputs made anew: so that nothing done to one shows in another."""

    make: Callable[[], torch.fx.GraphModule]
    inputs: Callable[[], Sequence[Any]]
    training: bool = False


@dataclass(frozen=True, slots=True)
class Ran:
    """One run: outputs, inputs and state afterwards, and which of them share memory or ask for gradients."""

    output: Any
    inputs: Sequence[Any]
    state: Mapping[str, torch.Tensor]
    gradients: Mapping[str, torch.Tensor | None] = field(default_factory=dict)

    def tensors(self) -> list[torch.Tensor]:
        """Outputs, inputs, then state."""
        found = [leaf for leaf in pytree.tree_leaves((self.output, list(self.inputs))) if isinstance(leaf, torch.Tensor)]
        return [*found, *self.state.values()]

    def sharing(self) -> frozenset[tuple[int, int]]:
        """The pairs of tensors that live in one storage."""
        places = [tensor.untyped_storage().data_ptr() if tensor.numel() else 0 for tensor in self.tensors()]
        return frozenset((i, j) for i, one in enumerate(places) for j, other in enumerate(places) if i < j and one and one == other)


def light(subject: Subject, backend: AtenBackend, compiled: Callable[..., Any]) -> list[Defect]:
    """What is cheap to check of a module that was just compiled by `backend`: predicates, fallbacks, sharing, gradients, inputs."""
    found = list(of_reports(backend))
    module, inputs = subject.make(), subject.inputs()
    expected = _ran(module, module.forward, inputs, subject.training)
    own = subject.inputs()
    actual = Ran(_called(compiled, own, subject.training), own, {})
    bare = Ran(expected.output, expected.inputs, {})
    if bare.sharing() != actual.sharing():
        found.append(
            Defect("aliasing", f"eager shares memory between {sorted(bare.sharing())}, compiled between {sorted(actual.sharing())}")
        )
    wanted, given = ([leaf.requires_grad for leaf in each.tensors()] for each in (bare, actual))
    if wanted != given:
        found.append(Defect("requires_grad", f"eager gives {wanted}, compiled {given}"))
    return found


def full(subject: Subject, settings: AtenSettings, *, engine: Engine | None = None, split: Any = None) -> list[Defect]:
    """Every check: partitioned equals unpartitioned equals eager, no setting but precision matters, nothing is touched by compiling."""
    found: list[Defect] = []
    backend = AtenBackend(settings, engine=engine, split=split)
    module, inputs = subject.make(), subject.inputs()
    expected = _ran(module, module.forward, inputs, subject.training)
    base = _try(subject, backend, found)
    if base is None:
        return found
    found += of_reports(backend)
    if (difference := different(expected, base)) is not None:
        guilty = blame(subject, settings, engine=engine)
        return [*found, guilty or Defect("equal to eager", difference)]  # settings would only say it again
    if expected.sharing() != base.sharing():
        message = f"eager shares memory between {sorted(expected.sharing())}, compiled between {sorted(base.sharing())}"
        found.append(Defect("aliasing", message))
    wanted, given = ([tensor.requires_grad for tensor in each.tensors()] for each in (expected, base))
    if wanted != given:
        found.append(Defect("requires_grad", f"eager gives {wanted}, compiled {given}"))
    for name, changes in VARIANTS.items():
        if any(may_change_results(key) for key in changes) or settings.replace(**changes) == settings:
            continue
        varied = _try(
            subject, AtenBackend(settings.replace(**changes), engine=engine, split=None if "partitioner" in changes else split), found
        )
        if varied is not None and (difference := different(base, varied)) is not None:
            found.append(Defect("settings", f"{name} changes results: {difference}"))
    for name in _operators(backend):
        kept = settings.replace(kept_in_torch=settings.kept_in_torch | {name})
        varied = _try(subject, AtenBackend(kept, engine=engine, split=split), found)
        if varied is not None and (difference := different(base, varied)) is not None:
            found.append(Defect("settings", f"keeping {name} in torch changes results: {difference}", node=name))
    return list(dict.fromkeys(found))


def _operators(backend: AtenBackend) -> list[str]:
    found = {target: None for report in backend.reports for block in report.blocks for target in block.nodes.values()}
    return [name for name in found if name != "operator.getitem"][:4]


def _try(subject: Subject, backend: AtenBackend, found: list[Defect]) -> Ran | None:
    module, inputs = subject.make(), subject.inputs()
    before = [tensor.detach().clone() for tensor in _tensors_of(module, inputs)]
    try:
        compiled = compile_module(module, inputs, backend, training=subject.training)
        touched = [
            index for index, (old, new) in enumerate(zip(before, _tensors_of(module, inputs), strict=True)) if not _same_bits(old, new)
        ]
        if touched:
            found.append(Defect("untouched", f"compiling changed tensors {touched} of the module's state and inputs"))
        return _ran(module, compiled, inputs, subject.training)
    except AtenError as error:
        found.append(Defect(type(error).__name__, str(error), getattr(error, "partition", ""), getattr(error, "node", "")))
        return None


def _tensors_of(module: torch.nn.Module, inputs: Sequence[Any]) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers(), *(value for value in inputs if isinstance(value, torch.Tensor))]


def _same_bits(old: torch.Tensor, new: torch.Tensor) -> bool:
    return old.dtype is new.dtype and old.shape == new.shape and torch.equal(torch.nan_to_num(old.detach()), torch.nan_to_num(new.detach()))


def _ran(module: torch.nn.Module, call: Callable[..., Any], inputs: Sequence[Any], training: bool) -> Ran:
    output = _called(call, inputs, training)
    parameters = dict(module.named_parameters())
    state = {**parameters, **dict(module.named_buffers())}
    return Ran(output, inputs, state, _gradients(parameters, inputs, output) if training else {})


def _gradients(parameters: Mapping[str, torch.Tensor], inputs: Sequence[Any], output: Any) -> dict[str, torch.Tensor | None]:
    """Gradients of a fixed loss, by parameter and by position of the input; None where none arrives."""
    wanted = {name: value for name, value in parameters.items() if value.requires_grad}
    wanted |= {f"input {at}": value for at, value in enumerate(inputs) if isinstance(value, torch.Tensor) and value.requires_grad}
    loss = loss_of(output)
    if loss is None or not wanted:
        return {}
    return dict(zip(wanted, torch.autograd.grad(loss, list(wanted.values()), allow_unused=True), strict=True))


def _called(call: Callable[..., Any], inputs: Sequence[Any], training: bool) -> Any:
    torch.default_generator.manual_seed(0)
    with torch.set_grad_enabled(training):
        return call(*inputs)


def of_reports(backend: AtenBackend) -> Iterator[Defect]:
    """What the compilation reports themselves show: predicates that raised, partitions that torch runs, nodes left out."""
    for report in backend.reports:
        for failure in report.predicate_failures:
            yield Defect("predicate", f"the engine's predicate raised on {failure.operator}: {failure.error}", node=failure.node)
        for block in report.blocks:
            if block.failure and not backend.settings.pass_through_build_failures:
                yield Defect("fallback", f"torch runs it: {block.failure}", block.name)
        if report.unused:
            yield Defect("fallback", f"supported, and yet in no partition: {', '.join(report.unused)}", node=report.unused[0])


def different(expected: Ran, actual: Ran) -> str | None:
    """How two runs differ in structure, dtype, shape, values, or in what they left in inputs and state; None where they do not."""
    if pytree.tree_structure(expected.output) != pytree.tree_structure(actual.output):
        return "the outputs are nested otherwise"
    pairs = zip(pytree.tree_leaves(expected.output), pytree.tree_leaves(actual.output), strict=True)
    for index, (want, have) in enumerate(pairs):
        if (said := unequal(want, have)) is not None:
            return f"output {index}: {said}"
    for index, (want, have) in enumerate(zip(expected.inputs, actual.inputs, strict=True)):
        if (said := unequal(want, have)) is not None:
            return f"input {index} is left otherwise: {said}"
    for name, want in expected.state.items():
        if name in actual.state and (said := unequal(want, actual.state[name])) is not None:
            return f"{name} is left otherwise: {said}"
    if expected.gradients.keys() != actual.gradients.keys():
        return f"gradients arrive at {sorted(expected.gradients)} and at {sorted(actual.gradients)}"
    # A gradient that ought to be zero, as a bias's before a normalization, is what rounding left of the others.
    arrived = [each for each in expected.gradients.values() if each is not None and each.numel()]
    scale = max((float(torch.nan_to_num(each).abs().max()) for each in arrived), default=0.0)
    for name, gradient in expected.gradients.items():
        if (said := unequal(gradient, actual.gradients[name], scale=scale)) is not None:
            return f"the gradient of {name}: {said}"
    return None


def unequal(want: Any, have: Any, *, scale: float = 0.0) -> str | None:
    """How two results differ beyond rounding, which is of the size of the largest element, or of `scale`; None where they do not."""
    if not isinstance(want, torch.Tensor) or not isinstance(have, torch.Tensor):
        return None if type(want) is type(have) and (want == have or want != want) else f"{want!r} and {have!r}"
    if want.dtype is not have.dtype or want.shape != have.shape:
        return f"{want.dtype} {list(want.shape)} and {have.dtype} {list(have.shape)}"
    first, second = want.detach(), have.detach()
    if first.dtype in _ULPS:
        finite = first[torch.isfinite(first)]
        scale = max(scale, float(finite.abs().max()) if finite.numel() else 0.0)
        allowed = _ULPS[first.dtype] * torch.finfo(first.dtype).eps
        same = torch.allclose(first.double(), second.double(), rtol=allowed, atol=allowed * scale, equal_nan=True)
    else:
        same = torch.equal(first, second)
    if same:
        return None
    gap = (first.to(torch.complex128) - second.to(torch.complex128)).abs() if first.numel() else torch.zeros(1)
    return f"up to {float(torch.nan_to_num(gap).max()):.3g} apart"


def blame(subject: Subject, settings: AtenSettings, *, engine: Engine | None = None) -> Defect | None:
    """The first partition that computes something else than torch when both are given what torch computed before; and its node.

    None where every partition is right by itself.
    """
    watched = _Watching(settings.replace(check_results=False))
    backend = AtenBackend(watched.settings, engine=engine)
    backend.on_compiled = watched.take
    module, inputs = subject.make(), subject.inputs()
    compiled = compile_module(module, inputs, backend, training=subject.training)
    _ran(module, compiled, inputs, subject.training)
    used = backend.engine
    assert used is not None
    for block, given in watched.calls:
        (results, expected) = block.engine_results(*given), block.torch_results(*given)
        for place, (have, want) in enumerate(zip(results, expected, strict=False)):
            if (said := unequal(want, have)) is not None:
                node = guilty_node(block.partition, given, used, settings)
                message = f"the engine's result {place} is not torch's: {said}"
                if not node:
                    message += "; every operator by itself is right"
                return Defect("equal to eager", message, block.partition.name, node)
    return None


class _Watching:
    """Collects what each block was called with."""

    def __init__(self, settings: AtenSettings) -> None:
        self.settings = settings
        self.calls: list[tuple[BlockModule, tuple[Any, ...]]] = []

    def take(self, module: torch.fx.GraphModule) -> None:
        for block in module.children():
            if isinstance(block, BlockModule):
                block.before = self._note

    def _note(self, block: BlockModule, inputs: tuple[Any, ...]) -> None:
        self.calls.append((block, tuple(value.detach().clone() if isinstance(value, torch.Tensor) else value for value in inputs)))


def guilty_node(partition: Partition, inputs: Sequence[Any], engine: Engine, settings: AtenSettings) -> str:
    """The first operator of a partition that, alone in an engine and fed what torch computed, is wrong; empty where none is."""
    lockstep = _Lockstep(partition, engine, settings)
    with torch.no_grad():
        lockstep.run(*inputs)
    return lockstep.guilty


class _Lockstep(torch.fx.Interpreter):
    def __init__(self, partition: Partition, engine: Engine, settings: AtenSettings) -> None:
        super().__init__(partition.pristine())
        self.engine, self.settings, self.guilty = engine, settings, ""

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if n.op == "call_function" and not self.guilty and isinstance(n.target, torch._ops.OpOverload):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            results = (result,) if isinstance(result, torch.Tensor) else tuple(result)
            if not self._agrees(n, args, kwargs, results):
                self.guilty = n.name
        return result

    def _agrees(self, node: torch.fx.Node, args: Any, kwargs: Any, results: tuple[torch.Tensor, ...]) -> bool:
        alone, tensors = _alone(node, args, kwargs, results)
        given = build(alone, self.engine, self.settings)(*tensors)
        return all(unequal(want, have) is None for want, have in zip(results, given, strict=True))


def _alone(node: torch.fx.Node, args: Any, kwargs: Any, results: tuple[torch.Tensor, ...]) -> tuple[Partition, list[torch.Tensor]]:
    """One operator as a partition of its own, and its tensor arguments."""
    graph = torch.fx.Graph()
    tensors: list[torch.Tensor] = []

    def argument(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        tensors.append(value)
        made = graph.placeholder(f"a{len(tensors)}")
        made.meta["declared"] = _type(value)
        return made

    args, kwargs = torch.fx.node.map_aggregate((args, kwargs), argument)
    made = graph.call_function(node.target, args, kwargs)  # type: ignore[arg-type]
    several = len(node.target._schema.returns) > 1 or "[]" in str(node.target._schema.returns[0].type)  # type: ignore[union-attr]
    outputs = [graph.call_function(operator.getitem, (made, at)) for at in range(len(results))] if several else [made]
    for output, result in zip(outputs, results, strict=True):
        output.meta["declared"] = _type(result)
    graph.output(tuple(outputs))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    name = f"{PREFIX}{operator_name(node.target)}"
    return Partition.of(name, module, [_type(each) for each in tensors], [_type(each) for each in results]), tensors


def _type(value: torch.Tensor) -> Declared:
    return Declared(value.dtype, tuple(value.shape), tuple(value.stride()))
