"""TensorRT as an engine, through torch_tensorrt's dynamo backend: a partition becomes one TensorRT engine on a GPU.

It has never been run against the real library: there was neither a GPU nor a way to install it where this was written. What
is ours of it, the mapping of settings, the refusals and the conversion of results, is tested against a stand-in.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.fx

from harness.compilers.aten.engines.protocol import Partition, Runnable
from harness.compilers.aten.errors import EngineResultError
from harness.compilers.aten.settings import AtenSettings
from harness.errors import TargetUnavailable, Unsupported

_DTYPES = {torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.bool}
_PRECISIONS = {"given": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
# The modules in which torch_tensorrt hands back a built engine.
ENGINE_MODULES = frozenset({"TorchTensorRTModule", "PythonTorchTensorRTModule"})


@dataclass(frozen=True, slots=True)
class Library:
    """What is used of torch_tensorrt: its backend, the operators that it converts, and the device to run on."""

    backend: Callable[..., Any]
    converts: Callable[[torch.fx.Node], bool]
    device: str = "cuda:0"


def library() -> Library:
    """The real one; raises TargetUnavailable that names what is missing: the library, CUDA, or a GPU that it can use."""
    try:
        importlib.import_module("tensorrt")
        importlib.import_module("torch_tensorrt")
        registry = importlib.import_module("torch_tensorrt.dynamo.conversion").DYNAMO_CONVERTERS
        backend = importlib.import_module("torch_tensorrt.dynamo.backend").torch_tensorrt_backend
    except Exception as error:  # its import ends in whatever its native libraries raise
        raise TargetUnavailable(f"the engine tensorrt needs torch_tensorrt and tensorrt: {type(error).__name__}: {error}") from error
    if not torch.cuda.is_available():
        raise TargetUnavailable("the engine tensorrt needs a GPU, and a torch that was built for CUDA")
    return Library(backend, lambda node: node in registry)


def options_for(settings: AtenSettings) -> dict[str, Any]:
    """torch_tensorrt's options for our settings; raises Unsupported for a precision that TensorRT does not have.

    The partition was chosen here, so it must become one engine whole, and a failed build must be told: without
    `pass_through_build_failures`, torch_tensorrt returns the graph that it was given.
    """
    if settings.precision not in _PRECISIONS:
        raise Unsupported(f"TensorRT computes in no {settings.precision}")
    return {
        "min_block_size": 1,
        "require_full_compilation": True,
        "pass_through_build_failures": True,
        "enabled_precisions": {torch.float32, _PRECISIONS[settings.precision]},
        "truncate_double": False,
        "use_python_runtime": True,
        "cache_built_engines": False,
        "reuse_cached_engines": False,
    }


class TensorRTEngine:
    """Takes static partitions of the dtypes that TensorRT has, of operators that torch_tensorrt says it converts."""

    name = "tensorrt"

    def __init__(self, used: Library | None = None, settings: AtenSettings | None = None) -> None:
        """Raises TargetUnavailable where the library, CUDA or a GPU is missing, or a tiny engine cannot be built."""
        self.library = used or library()
        self.options = options_for(settings or AtenSettings(engine="tensorrt"))
        if used is None:
            self._try()

    @classmethod
    def for_settings(cls, settings: AtenSettings) -> TensorRTEngine:
        """The engine in the settings' precision."""
        return cls(settings=settings)

    def _try(self) -> None:
        """Build and run an engine for relu: that the library imports does not mean that it works."""
        graph = torch.fx.Graph()
        graph.output((graph.call_function(torch.ops.aten.relu.default, (graph.placeholder("x"),)),))
        module, x = torch.fx.GraphModule(torch.nn.Module(), graph), torch.ones(2, 2, device=self.library.device)
        try:
            result = self._compiled("a tiny engine", module, [x])(x)
        except Exception as error:  # whatever a native library may raise
            raise TargetUnavailable(f"TensorRT is installed and builds no engine: {type(error).__name__}: {error}") from error
        if not torch.equal(results_of("a tiny engine", result)[0], torch.ones(2, 2)):
            raise TargetUnavailable("TensorRT is installed, and relu of ones is not ones")

    def supports(self, node: torch.fx.Node) -> bool:
        """Whether torch_tensorrt has a converter for the operator, its dtypes are TensorRT's, and its sizes numbers."""
        around = [node, *node.all_input_nodes]
        return all(_is_plain(each.meta.get("val")) for each in around) and self.library.converts(node)

    def build(self, partition: Partition) -> Runnable:
        """One engine for the partition; raises RuntimeError where torch_tensorrt hands the graph back as it was."""
        if not partition.is_static:
            raise Unsupported(f"{partition.name}: TensorRT engines are built here for sizes that are numbers")
        inputs = [torch.ones(due.shape, dtype=due.dtype, device=self.library.device) for due in partition.inputs if due is not None]  # type: ignore[arg-type]
        return _OnDevice(partition.name, self._compiled(partition.name, partition.module, inputs), self.library.device)

    def _compiled(self, name: str, module: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
        compiled = self.library.backend(module, list(inputs), options=dict(self.options))
        refuse_fallback(name, module, compiled)
        return cast(Callable[..., Any], compiled)

    def versions(self) -> Mapping[str, str]:
        """The versions of both libraries, where they are installed as packages."""
        found = {}
        for package in ("torch_tensorrt", "tensorrt"):
            try:
                found[package] = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                continue
        return found


def refuse_fallback(name: str, given: torch.fx.GraphModule, compiled: Any) -> None:
    """Raise RuntimeError where what came back holds no TensorRT engine: then it would run in torch, and nobody would know."""
    if not callable(compiled):
        raise RuntimeError(f"{name}: torch_tensorrt returned a {type(compiled).__name__}")
    owner = getattr(compiled, "__self__", compiled)
    if owner is given or getattr(compiled, "__wrapped__", None) is given:
        raise RuntimeError(f"{name}: torch_tensorrt returned the graph as it was given")
    if not isinstance(owner, torch.nn.Module):
        raise RuntimeError(f"{name}: torch_tensorrt returned a {type(owner).__name__}, which cannot be looked into for an engine")
    if not any(type(each).__name__ in ENGINE_MODULES for each in owner.modules()):
        raise RuntimeError(f"{name}: torch_tensorrt returned a graph without an engine")


def results_of(name: str, results: Any) -> list[torch.Tensor]:
    """What an engine returned, as CPU tensors; raises EngineResultError for anything but tensors in a tuple or list, or one alone."""
    several = results if isinstance(results, tuple | list) else (results,)
    for place, value in enumerate(several):
        if not isinstance(value, torch.Tensor):
            raise EngineResultError(name, f"TensorRT's result {place} is a {type(value).__name__}")
    return [value.detach().cpu() for value in several]


class _OnDevice:
    def __init__(self, name: str, call: Callable[..., Any], device: str) -> None:
        self.name, self.call, self.device = name, call, device

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        return results_of(self.name, self.call(*(value.to(self.device).contiguous() for value in inputs)))


def _is_plain(value: Any) -> bool:
    several = value if isinstance(value, tuple | list) else (value,)
    return all(
        isinstance(each, torch.Tensor) and each.dtype in _DTYPES and all(isinstance(size, int) for size in each.shape) for each in several
    )
