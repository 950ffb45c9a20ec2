"""`oneflow:compile`: a Program through torch.compile with backend "oneflow", as users run it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
import torch._dynamo
from torch._dynamo.exc import BackendCompilerFailed

from harness.backends.protocol import Progress
from harness.backends.torch_compile import warming
from harness.backends.torch_compile.failures import is_failure, message_of
from harness.compilers.oneflow.backend import Placed, forget_placements, placements
from harness.compilers.oneflow.errors import NodeFailed, WorkerDied
from harness.compilers.oneflow.worker import WORKERS
from harness.environments.oneflow_env import oneflow_python
from harness.errors import Unsupported, UsageError
from harness.model.case import Case
from harness.model.outcome import CallResult, Death, Job, Outcome, Status
from harness.torch_bridge.calling import SavedState, call_result
from harness.torch_bridge.module import build

_DYNAMIC = {"true": True, "false": False, "auto": None, "": None}


class CompiledTarget:
    """Runs every call of a case in OneFlow as far as OneFlow goes, and in torch beyond.

    Option: `dynamic`, torch.compile's own. A program of which nothing runs in OneFlow is refused.
    """

    def warm(self) -> None:
        """Warm Dynamo; raises TargetUnavailable where OneFlow's environment is not built."""
        oneflow_python()
        warming.prepare()

    def start(self) -> None:
        """Start OneFlow's process, so that no case waits for it."""
        with WORKERS.lock:
            WORKERS.current()

    def versions(self) -> Mapping[str, str]:
        """The versions of torch and of what is installed beside OneFlow."""
        return {"torch": str(torch.__version__), **oneflow_python().versions}

    def run(self, case: Case, job: Job, progress: Progress) -> Outcome:
        """Compile at the first call and run every call, with gradients where the case's mode has them.

        Raises Unsupported where nothing runs in OneFlow; CannotPass, HarnessError and what the compiling itself raises are
        faults of ours.
        """
        dynamic = str(job.options.get("dynamic") or "auto")
        if dynamic not in _DYNAMIC:
            raise UsageError(f"dynamic must be true, false or auto, not {dynamic!r}")
        torch._dynamo.reset()
        forget_placements()
        calls: list[CallResult] = []
        with warnings.catch_warnings(), torch.set_grad_enabled(case.mode != "fwd"):
            warnings.simplefilter("ignore")
            try:
                self._calls(case, _DYNAMIC[dynamic], progress, calls)
            except (NodeFailed, WorkerDied) as error:
                return self._failure(case, job, error, len(calls))
            except BackendCompilerFailed as error:
                raise error.inner_exception from error
            except Exception as error:
                if not is_failure(error):
                    raise
                return Outcome(job.target, Status.ERROR, message=message_of(error), call=len(calls), versions=self.versions())
            finally:
                found = placements()
                torch._dynamo.reset()
        if not any(each.oneflow for each in found):
            raise Unsupported(f"nothing of it runs in OneFlow: {_reasons(found)}")
        return Outcome(job.target, Status.OK, calls=tuple(calls), versions=self.versions(), counts=_counts(found))

    def _calls(self, case: Case, dynamic: bool | None, progress: Progress, calls: list[CallResult]) -> None:
        built: Any = None
        for index in range(len(case.calls)):
            if built is None:
                progress.stage("build")
                built = build(case)
                saved = SavedState(built.module)
                function = torch.compile(built.module, backend="oneflow", dynamic=dynamic)
            progress.stage("run")
            torch.default_generator.manual_seed(0)
            calls.append(call_result(built, index, function))
            if not saved.put_back():
                built = None

    def _failure(self, case: Case, job: Job, error: NodeFailed | WorkerDied, call: int) -> Outcome:
        status, death = Status.ERROR, None
        if isinstance(error, WorkerDied):
            status = Status.TIMEOUT if error.hung else Status.CRASH
            death = Death(signal=error.signal, stderr=error.printed)
        # Dynamo keeps the names of a GraphModule's nodes, but for those that it makes itself.
        node = error.node if any(each.name == error.node for each in case.program.operators) else None
        return Outcome(
            job.target,
            status,
            stage="run",
            message=str(error),
            node=node,
            call=call,
            versions=self.versions(),
            death=death,
        )


def _counts(found: tuple[Placed, ...]) -> dict[str, int]:
    return {
        "graphs": len(found),
        "trips": sum(each.trips for each in found),
        "nodes-in-oneflow": sum(len(each.oneflow) for each in found),
        "nodes-in-torch": sum(len(each.torch) for each in found),
    }


def _reasons(found: tuple[Placed, ...]) -> str:
    reasons = dict.fromkeys(
        f"{reason.kind}: {reason.reason}" for each in found for reason in each.torch.values() if reason.kind != "number"
    )
    return "; ".join(reasons) or "it computes nothing"
