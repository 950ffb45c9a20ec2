"""`compile:NAME`: a module through torch.compile with any backend, call after call, with what Dynamo did along the way."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.callback
from torch._dynamo.utils import counters

from harness.backends.protocol import Progress
from harness.backends.torch_compile import warming
from harness.backends.torch_compile.failures import depends_on_data, is_failure, message_of
from harness.backends.torch_compile.lookup import backend_named
from harness.errors import UsageError
from harness.model.case import Case
from harness.model.outcome import CallResult, Diagnostic, Job, Outcome, Status
from harness.torch_bridge import global_state
from harness.torch_bridge.calling import SavedState, call_result
from harness.torch_bridge.module import BuiltModule, build

_DYNAMIC = {"true": True, "false": False, "auto": None, "": None}


class CompileBackend:
    """Runs a case through torch.compile.

    Options: `backend` compiles with another one, as when a disagreement is looked for layer by layer; `dynamic` and `mode` are
    torch.compile's; `reset` set to `each` forgets what was compiled before every call.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def warm(self) -> None:
        """Find the backend and see that it compiles something small."""
        warming.prove(self.name)

    def start(self) -> None:
        """Nothing to do in a fresh child."""

    def versions(self) -> Mapping[str, str]:
        """The version of torch, and of the backend's own package where it has one."""
        return {"torch": str(torch.__version__)}

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        """Compile at the first call, run every call, and the first one once more."""
        options = {key: str(value) for key, value in job.options.items()}
        dynamic = options.get("dynamic", "auto")
        if dynamic not in _DYNAMIC:
            raise UsageError(f"dynamic must be true, false or auto, not {dynamic!r}")
        name = options.get("backend") or self.name
        backend: Any = name if ":" not in name else backend_named(name)
        before = global_state.take()
        run = _Run(case, job, progress, before)
        torch._dynamo.reset()
        counters.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = run.outcome(
                lambda module: torch.compile(module, backend=backend, dynamic=_DYNAMIC[dynamic], mode=options.get("mode") or None),
                afresh=options.get("reset") == "each",
                versions=self.versions(),
            )
        torch._dynamo.reset()
        return outcome


def _forget(progress: Progress) -> None:
    """Forget all that was compiled, and name the stage `compile` from now on whenever Dynamo compiles."""
    torch._dynamo.reset()  # which forgets callbacks too
    torch._dynamo.callback.on_compile_start(lambda _: progress.stage("compile"))
    torch._dynamo.callback.on_compile_end(lambda _: progress.stage("run"))


@dataclass
class _Run:
    """One case under way."""

    case: Case
    job: Job
    progress: Progress
    before: global_state.GlobalState
    calls: list[CallResult] = field(default_factory=list)
    graphs: list[int] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    is_random: bool = False

    def outcome(self, compiler: Callable[[torch.nn.Module], Callable[..., Any]], *, afresh: bool, versions: Mapping[str, str]) -> Outcome:
        built: BuiltModule | None = None
        saved: SavedState | None = None
        compiled: Callable[..., Any] | None = None
        index = 0
        counts: dict[str, int] = {}
        try:
            for index in range(len(self.case.calls)):
                if built is None or afresh:
                    self.progress.stage("build")
                    _forget(self.progress)
                    built = build(self.case)
                    saved, compiled = SavedState(built.module), compiler(built.module)
                assert compiled is not None and saved is not None
                self.calls.append(self.call(built, index, compiled))
                if not saved.put_back():
                    built = None
            if built is not None and not afresh and compiled is not None:
                counts = self.again(built, compiled)
                counts |= self.afresh(compiler)
        except Exception as error:
            if not is_failure(error):
                raise
            return self.result(Status.ERROR, versions, message=message_of(error), call=index, counts=counts)
        return self.result(Status.OK, versions, counts=counts)

    def call(self, built: BuiltModule, index: int, compiled: Callable[..., Any]) -> CallResult:
        seen = _graphs()
        self.progress.stage("run")
        torch.default_generator.manual_seed(0)
        state = torch.default_generator.get_state()
        with torch.set_grad_enabled(self.case.mode != "fwd"):
            result = call_result(built, index, compiled)
        self.is_random |= not torch.equal(state, torch.default_generator.get_state())
        self.graphs.append(_graphs() - seen)
        return result

    def again(self, built: BuiltModule, compiled: Callable[..., Any]) -> dict[str, int]:
        """The first call once more: whether it compiles anew, or gives other bits where nothing is random."""
        second = self.call(built, 0, compiled)
        graphs = self.graphs.pop()
        return {"graphs-again": graphs, "differs-again": int(second != self.calls[0] and not self.is_random)}

    def afresh(self, compiler: Callable[[torch.nn.Module], Callable[..., Any]]) -> dict[str, int]:
        """Every call that ran code of a call of other sizes, compiled by itself: whether that gives other bits."""
        seen: set[tuple[tuple[str, int], ...]] = set()
        found: dict[str, int] = {}
        graphs = list(self.graphs)
        for index, call in enumerate(self.case.calls):
            binding = tuple(sorted(call.binding.items()))
            if seen and binding not in seen and not graphs[index]:
                _forget(self.progress)
                built = build(self.case)
                found[f"differs-afresh[{index}]"] = int(self.call(built, index, compiler(built.module)) != self.calls[index])
            seen.add(binding)
        self.graphs = graphs
        return found

    def result(
        self, status: Status, versions: Mapping[str, str], *, message: str = "", call: int | None = None, counts: Mapping[str, int]
    ) -> Outcome:
        after = global_state.take()
        left = global_state.changes(self.before, after)
        if left:
            global_state.restore(self.before)
        notes = [Diagnostic("note", text, "state-left") for text in left]
        reasons = {text: number for text, number in counters["graph_break"].items()}
        notes += [Diagnostic("note", text.strip().split("\n")[0], "graph-break") for text in reasons]
        by_data = sum(number for text, number in reasons.items() if depends_on_data(text))
        found = {f"graphs[{number}]": graphs for number, graphs in enumerate(self.graphs)}
        found |= {"graph-breaks": sum(reasons.values()), "graph-breaks-by-data": by_data, **counts}
        return Outcome(
            self.job.target,
            status,
            calls=tuple(self.calls) if status is Status.OK else (),
            diagnostics=tuple(notes),
            message=message,
            call=call,
            versions=versions,
            counts=found,
        )


def _graphs() -> int:
    """How many graphs Dynamo has handed to the backend since the counters were cleared."""
    return int(counters["stats"]["unique_graphs"])
