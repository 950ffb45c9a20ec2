"""nn.Graph: the module compiled as a whole, by OneFlow's own passes or through MLIR too."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from harness.backends.oneflow.values import convert, dtype_name
from harness.backends.oneflow.ways import Subject
from harness.errors import HarnessError, UsageError
from harness.model.fill import Literal
from harness.model.outcome import Declared
from harness.model.values import Tensor, Value, leaves


@dataclass(frozen=True, slots=True)
class Switch:
    """One of OneFlow's switches: the variable, the passes that it adds, by the name they print, and what they are for."""

    variable: str
    passes: tuple[str, ...]
    summary: str


# Every pass here was seen to run on CPU. ONEFLOW_MLIR_PREFER_NHWC is left out: its pass does nothing there.
SWITCHES = {
    "cse": Switch("ONEFLOW_MLIR_CSE", ("cse",), "equal operators become one"),
    "inference": Switch("ONEFLOW_MLIR_ENABLE_INFERENCE_OPTIMIZATION", ("convert-inference-op",), "constants are folded, conv takes in bn"),
    "forward": Switch("ONEFLOW_MLIR_FUSE_FORWARD_OPS", ("fuse-forward-only-ops", "fuse-into-existing-op"), "neighbours are fused"),
    "normalization": Switch("ONEFLOW_MLIR_FUSE_NORMALIZATION_OPS", ("fuse-normalization-ops",), "normalizations are fused"),
    "matmul": Switch("ONEFLOW_MLIR_GROUP_MATMUL", ("group-matmul",), "matrix products of one input become one"),
    "jit": Switch("ONEFLOW_MLIR_ENABLE_CODEGEN_FUSERS", ("outline-jit-function",), "code is generated for some chains"),
    "launch": Switch(
        "ONEFLOW_MLIR_FUSE_KERNEL_LAUNCH", ("wrap-ops-to-kernel-launch", "lower-to-okl"), "kernels are called from one function"
    ),
}
DEFAULT_PASSES = tuple(name for name in SWITCHES if name != "launch")
ROUND_TRIP = "ONEFLOW_MLIR_ENABLE_ROUND_TRIP"
_MLIR = (ROUND_TRIP, "ONEFLOW_MLIR_ENABLE_IR_PRINTING")
# Generated code finds OneFlow's own functions only where one of its switches was on at import.
AT_IMPORT = {SWITCHES["jit"].variable: "1"}
_DUMP = re.compile(r"^// -----// IR Dump (Before|After) [^(]*\(([\w-]+)\).*$", re.MULTILINE)

_MODULE = re.compile(r"^module\b.*?^}$", re.MULTILINE | re.DOTALL)


def as_graph(subject: Subject) -> Any:
    """Compile the module to an nn.Graph and run it once, as calling the graph does."""
    return _run(_graph(subject), subject)


def through_mlir(subject: Subject) -> Any:
    """Compile through MLIR with the switches of the option `passes`, and run it once.

    Raises UsageError for a switch that does not exist, HarnessError where the passes cannot be shown to have run.
    """
    passes = chosen(str(subject.options.get("passes", "")))
    printed = _Printed()
    with environment({variable: "1" for variable in (*_MLIR, *(SWITCHES[name].variable for name in passes))}):
        graph = _graph(subject, stage="build-mlir")  # MLIR's passes run while the graph is built
        try:
            output = _run(graph, subject)
        finally:
            graph.env_enable_mlir_inference_opt = None  # or its end would set the variable again
            text = printed.text()
            subject.evidence.artifacts.update(_proof(text))
    _demand(text, passes)
    return output


def chosen(text: str) -> tuple[str, ...]:
    """The switches that the option `passes` names, by default all but one; raises UsageError for one that does not exist."""
    names = tuple(name for name in re.split(r"[+,]", text) if name)
    unknown = [name for name in names if name not in (*SWITCHES, "none")]
    if unknown:
        raise UsageError(f"OneFlow has no MLIR passes {', '.join(unknown)}; there are {', '.join(SWITCHES)} and none")
    return tuple(name for name in names if name != "none") if names else DEFAULT_PASSES


def _graph(subject: Subject, *, stage: str = "build") -> Any:
    progress, evidence = subject.progress, subject.evidence

    class Translated(subject.oneflow.nn.Graph):  # type: ignore[misc, name-defined]
        """The module as a graph, telling where it is."""

        def __init__(self) -> None:
            super().__init__()
            self.program = subject.module

        def build(self, *inputs: Any) -> Any:
            """Call the module on lazy tensors."""
            output = self.program(*inputs)
            evidence.declared += _declared(subject, output)
            return output

        def finish_complie_and_init_runtime(self) -> None:
            """Compile, which OneFlow survives only if it succeeds: the next graph of the process aborts in a check."""
            progress.stage("compile")
            spent, evidence.spent = evidence.spent, True
            super().finish_complie_and_init_runtime()
            evidence.spent = spent
            progress.stage("run")

    progress.stage(stage)
    if any(0 in tensor.stride() for tensor in subject.inputs):
        evidence.spent = True  # contiguous_() writes past the memory of an expanded input: the next case must not pay for it
    return Translated()


def _run(graph: Any, subject: Subject) -> Any:
    output = graph(*subject.inputs)
    subject.oneflow._oneflow_internal.eager.Sync()
    return output


def _declared(subject: Subject, output: Any) -> list[Declared]:
    """The types that OneFlow infers before anything is compiled or run."""

    def claim(tensor: Any, where: str) -> Value:
        shape = tuple(int(size) for size in tensor.shape)
        return Tensor(dtype_name(tensor.dtype, where), shape, Literal(b""))

    try:
        claims = convert(subject.oneflow, output, "output", claim)
    except HarnessError:
        return []  # what has no place in the grammar is told when it comes out
    found = [(path, leaf) for path, leaf in leaves(claims) if isinstance(leaf, Tensor)]
    return [Declared("nn.Graph", path, leaf.dtype, leaf.shape, subject.call, own=True) for path, leaf in found]


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process, which OneFlow reads whenever it compiles, and put back what was there."""
    saved = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class _Printed:
    """What native code prints to this worker's stderr from now on; the file is the supervisor's, who reads it too."""

    def __init__(self) -> None:
        self._start = self._size()

    def _size(self) -> int:
        status = os.fstat(2)
        if not stat.S_ISREG(status.st_mode):
            raise HarnessError("stderr is no file, so that nobody could tell which passes ran")
        return status.st_size

    def text(self) -> str:
        size = self._size()
        start = self._start if size >= self._start else 0  # it is trimmed where it grows too long
        return os.pread(2, size - start, start).decode("utf-8", errors="replace")


def _proof(text: str) -> dict[str, str]:
    """The passes that ran, in order, those that changed the program marked, and the program after the last of them."""
    dumps = list(_DUMP.finditer(text))
    lines: list[str] = []
    for dump in dumps:
        if dump[1] == "Before":
            lines.append(dump[2])
        elif lines:
            lines[-1] = f"{dump[2]}: changed"
    if not dumps:
        return {}
    jobs = [module for module in _MODULE.findall(text) if "oneflow.job" in module]  # others hold code that jobs call
    return {"passes": "\n".join(lines), "graph.mlir": jobs[-1] if jobs else ""}


def _demand(text: str, passes: tuple[str, ...]) -> None:
    ran = {dump[2] for dump in _DUMP.finditer(text)}
    wanted = ["canonicalize", *(name for switch in passes for name in SWITCHES[switch].passes)]
    missing = [name for name in wanted if name not in ran]
    if missing:
        raise HarnessError(f"nothing shows that MLIR's {', '.join(missing)} ran: OneFlow printed no IR before or after it")
