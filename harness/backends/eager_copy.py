"""A faithful second target: eager again, as an fx.GraphModule, with inputs in other memory layouts and more threads.

It must never be reported: what it finds is a false alarm of the oracles.
"""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import torch

from harness.backends.eager import REFUSALS, EagerBackend
from harness.backends.protocol import Progress
from harness.errors import FxdiffError
from harness.model.case import Case
from harness.model.outcome import CallResult, Job, Outcome, Status
from harness.model.program import ModuleRecipe, Node, Program, TensorSpec
from harness.model.values import leaves
from harness.torch_bridge import resolve
from harness.torch_bridge.calling import changed, snapshot
from harness.torch_bridge.gradients import require_grad, train_step, with_gradients
from harness.torch_bridge.interpret import NodeFailed
from harness.torch_bridge.module import BuiltModule, build
from harness.torch_bridge.tensors import from_torch

THREADS = 2

_OBSERVES_LAYOUT = frozenset({"data", "dim_order", "is_contiguous", "is_set_to", "resize", "resize_as", "storage_offset"})


class _Refused(FxdiffError):
    """Torch refused to run the module."""


class EagerCopyBackend(EagerBackend):
    """Runs a case's module whole, in other layouts where the program cannot tell."""

    def start(self) -> None:
        """Take more threads than the reference has, and no oneDNN.

        More threads are safe, since the zygote computed on one only. oneDNN is off because in torch 2.13 its float32 conv3d of a
        one-channel channels_last input, stride (1, 1, 3) and padding (2, 1, 1), returns memory that nothing wrote.
        """
        torch.set_num_threads(THREADS)
        torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        """Run every call; what torch refuses in any layout is an error of this target."""
        calls: list[CallResult] = []
        built: BuiltModule | None = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for index in range(len(case.calls)):
                try:
                    progress.stage("build")
                    built = built or build(case)
                    progress.stage("run")
                    result = run_built(built, index)
                except (_Refused, NodeFailed) as refusal:
                    return Outcome(job.target, Status.ERROR, "run", message=str(refusal), call=index, versions=self.versions())
                calls.append(result)
                if result.mutated:
                    built = None
        return Outcome(job.target, Status.OK, "run", calls=tuple(calls), versions=self.versions())


def run_built(built: BuiltModule, index: int) -> CallResult:
    """One call of the module: in other layouts first, and as given where that is refused, draws random numbers or is not legal."""
    case = built.case
    inputs = built.inputs(index)
    if case.mode == "fwd" and layout_is_free(case.program):
        torch.default_generator.manual_seed(0)
        before = torch.default_generator.get_state()
        try:
            result = _call(built, tuple(relaid(item, position + index) for position, item in enumerate(inputs)))
        except _Refused:
            pass  # a layout that torch refuses here is not legal; the plain run below has the word
        else:
            if torch.equal(before, torch.default_generator.get_state()):
                return result
    return _call(built, inputs)


def _call(built: BuiltModule, inputs: tuple[Any, ...]) -> CallResult:
    case = built.case
    modules: dict[str, torch.nn.Module] = {name: built.module.get_submodule(name) for name in case.program.modules}
    arguments = built.arguments(inputs)
    before = snapshot(case, arguments, modules)
    torch.default_generator.manual_seed(0)
    with torch.set_grad_enabled(case.mode != "fwd"):
        if case.mode != "fwd":
            require_grad(case.program, arguments)
        try:
            output = built.module.forward(*inputs)  # called itself, GraphModule prints every refusal to stderr
            if case.mode != "fwd":
                output = (with_gradients if case.mode == "grad" else train_step)(case.program, arguments, modules, output)
        except REFUSALS as error:
            raise _Refused(f"{type(error).__name__}: {error}") from error
    return CallResult(from_torch(output), changed(before, case, arguments, modules))


def layout_is_free(program: Program) -> bool:
    """Whether no result of the program may depend on its inputs' strides.

    Not so where it asks for strides or takes views that need them, where inputs share memory, and where it writes in
    place, for then a reshape's being a view or a copy shows.
    """
    storages = [node.spec.storage for node in program.placeholders if isinstance(node.spec, TensorSpec)]
    return (
        not any(storages)
        and not any(_observes(node) or _may_write(node) for node in program.operators)
        and not any(map(_writing_module, program.modules.values()))
    )


def _base_name(node: Node) -> str:
    parts = node.target.split(".")
    return parts[1] if parts[0] in ("aten", "prims") else parts[-1]


def _observes(node: Node) -> bool:
    name = _base_name(node)
    attribute = node.args[1] if node.target == "builtins.getattr" else ""
    return name in _OBSERVES_LAYOUT or attribute in _OBSERVES_LAYOUT or "view" in name or "stride" in name


def _may_write(node: Node) -> bool:
    name = _base_name(node)
    if node.op == "call_function" and node.target.startswith(("aten.", "prims.")):
        return bool(resolve.function(node.target)._schema.is_mutable)  # type: ignore[attr-defined]
    if node.target.startswith("operator."):
        return name in resolve.WRITING_OPERATORS
    in_place = (name.endswith("_") and not name.endswith("__")) or "out" in node.kwargs or node.kwargs.get("inplace") is True
    # The position of `inplace` differs by function: any True given by position may be it.
    return in_place or (node.target.startswith("torch.nn.functional.") and any(leaf is True for _, leaf in leaves(node.args)))


def _writing_module(recipe: ModuleRecipe) -> bool:
    if recipe.kwargs.get("inplace") is True:
        return True
    return True in recipe.args and "inplace" in inspect.signature(resolve.module_class(recipe.cls)).parameters


def relaid(item: Any, variant: int) -> Any:
    """A copy of a tensor with equal elements in other strides; overlapping and non-tensor items come back as they are."""
    if not isinstance(item, torch.Tensor) or any(size > 1 and stride == 0 for size, stride in zip(item.shape, item.stride(), strict=True)):
        return item
    if variant % 3 == 0 and item.dim() >= 2:
        order = tuple(reversed(range(item.dim())))
        return item.permute(order).clone(memory_format=torch.contiguous_format).permute(order)
    if variant % 3 == 1 and item.dim() >= 3:
        return item.movedim(1, -1).clone(memory_format=torch.contiguous_format).movedim(-1, 1)
    # Every row a little apart from the next, and none at the start of memory.
    shape = tuple(item.shape)
    room = item.new_zeros((*shape[:-1], 2 * shape[-1] + 1) if shape else (2,))
    place = room[..., 1::2] if shape else room[1]
    return place.copy_(item)
