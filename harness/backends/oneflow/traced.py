"""onefx: the module traced to a graph of calls and run from the code that is generated for it; also with conv and bn fused."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict
from typing import Any

from harness.backends.oneflow.errors import OneFlowUnsupported
from harness.backends.oneflow.translated import Translated
from harness.backends.oneflow.ways import Subject

# Python gives a proxy's `x += y` to `x + y`: like torch.fx, onefx cannot see that something was written.
_IN_PLACE = ("setitem", "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor", "imatmul")


def as_traced(subject: Subject) -> Any:
    """Trace the module symbolically and run what was recorded."""
    module = _traced(subject)
    subject.evidence.artifacts["traced.py"] = module.code.strip()
    subject.progress.stage("run")
    return module(*subject.inputs)


def as_fused(subject: Subject) -> Any:
    """Trace, fold batch norms into convolutions, and run; raises OneFlowUnsupported where there is nothing to fold."""
    from harness.oneflow_fx import fuse_conv_bn

    module = _traced(subject)
    subject.progress.stage("fuse")
    if not fuse_conv_bn(module):
        raise OneFlowUnsupported("untranslated", "no batch norm in eval mode is alone in reading a convolution: there is nothing to fuse")
    subject.evidence.artifacts["fused.py"] = module.code.strip()
    subject.progress.stage("run")
    return module(*subject.inputs)


def as_profiled(subject: Subject) -> Any:
    """Trace, and run node by node as often as the option `runs` says, with the time of each among the artifacts."""
    from harness.oneflow_fx import ProfilingInterpreter

    profiler = ProfilingInterpreter(_traced(subject))
    subject.progress.stage("run")
    result = None
    for _ in range(int(str(subject.options.get("runs", "20")))):
        result = profiler.run(*subject.inputs)
    told = {"seconds": statistics.fmean(profiler.total[1:] or profiler.total), "nodes": [asdict(each) for each in profiler.times()]}
    subject.evidence.artifacts["profile.json"] = json.dumps(told)
    return result


def _traced(subject: Subject) -> Any:
    from onefx.proxy import TraceError

    from harness.oneflow_fx import symbolic_trace

    subject.progress.stage("trace")
    written = _written(subject.source)
    if written:
        raise OneFlowUnsupported("refused", f"symbolic tracing cannot record that {written} writes by Python's own operator")
    try:
        return symbolic_trace(subject.module, proxy_buffers=True)
    except TraceError as error:
        raise OneFlowUnsupported("refused", f"symbolic tracing: {error}") from error


def _written(source: Translated) -> str:
    """The first node that writes by an operator of Python's."""
    paths = {f"operator.{name}" for name in _IN_PLACE}
    return next((name for name, plan in source.plans.items() if any(call.path in paths for call in plan.invocations())), "")
