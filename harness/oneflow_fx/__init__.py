"""onefx 0.0.3 on OneFlow 0.9.0, with the repairs that it needs, and what is built on it: tracing, rewriting, profiling, fusing, QAT.

For OneFlow's interpreter (Python 3.10); needs neither torch nor anything else of fxdiff.
"""

from __future__ import annotations

from onefx import Graph, GraphModule, Interpreter, Node, Proxy, wrap

from harness.oneflow_fx.fusing import fuse_conv_bn
from harness.oneflow_fx.profiling import NodeTime, ProfilingInterpreter
from harness.oneflow_fx.qat import convert, prepare_qat
from harness.oneflow_fx.quantizing import FakeQuantize, MinMaxObserver, fake_quantize
from harness.oneflow_fx.rewriting import replace_operator, replace_pattern
from harness.oneflow_fx.table import print_tabular, tabular
from harness.oneflow_fx.tracing import Tracer, global_wrap, symbolic_trace

__all__ = [
    "FakeQuantize",
    "Graph",
    "GraphModule",
    "Interpreter",
    "MinMaxObserver",
    "Node",
    "NodeTime",
    "ProfilingInterpreter",
    "Proxy",
    "Tracer",
    "convert",
    "fake_quantize",
    "fuse_conv_bn",
    "global_wrap",
    "prepare_qat",
    "print_tabular",
    "replace_operator",
    "replace_pattern",
    "symbolic_trace",
    "tabular",
    "wrap",
]
