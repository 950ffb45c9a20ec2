"""fxdiff's findings in OneFlow's graphs, each written again by hand: the same module called, and compiled as nn.Graph, without fxdiff.

    python tests/external/by_hand/oneflow_graph.py [ID...]

Prints a line per finding, `confirmed` or `not shown`; exits 0 when all that were asked for show. What OneFlow itself gives without
a graph is what is right, and is PyTorch's answer too. OneFlow's interpreter is that of ONEFLOW_PYTHON, else the one that fxdiff
built. Each run has a process of its own: many end theirs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass

DEADLINE = 300.0  # seconds, on a busy machine

# What the programs below are put into: `run(forward, *inputs, **buffers)` calls the module, or compiles and runs it.
_AROUND = """
import os, sys
import oneflow as flow
from oneflow import nn

class Module(nn.Module):
    def __init__(self, forward, **buffers):
        super().__init__()
        self.given = forward
        for name, tensor in buffers.items():
            self.register_buffer(name, tensor)
    def forward(self, *inputs):
        return self.given(self, *inputs)

class Graph(nn.Graph):
    def __init__(self, module):
        super().__init__()
        self.module = module
    def build(self, *inputs):
        return self.module(*inputs)

def run(forward, *inputs, **buffers):
    module = Module(forward, **buffers).eval()
    result = (Graph(module) if sys.argv[1] == "graph" else module)(*inputs)
    flow._oneflow_internal.eager.Sync()
    return result

def show(tensor):
    print(tensor.numpy().tolist())
"""


@dataclass(frozen=True)
class Finding:
    """A program that shows one value; `dies` is what stderr holds where the graph ends the process, `variables` are of the environment."""

    id: str
    title: str
    program: str
    dies: str = ""
    variables: tuple[str, ...] = ()


def _mlir(*names: str) -> tuple[str, ...]:
    return tuple(f"ONEFLOW_MLIR_{name}" for name in ("ENABLE_ROUND_TRIP", *names))


FINDINGS = (
    Finding(
        "6ffb6253",
        "calling a graph with x.T rearranges the memory of x: its inputs are made contiguous in place",
        "x = flow.arange(6, dtype=flow.float32).reshape(2, 3)\nrun(lambda self, t: -t, x.T)\nshow(x)",
    ),
    Finding(
        "906e9a8b",
        "calling a graph with an expanded tensor overwrites what lies behind its memory, here the module's buffer",
        "x = flow.arange(4, dtype=flow.float32).expand(200, 4)\nb = flow.full((4,), 7.0)\nshow(run(lambda self, x: x + self.b, x, b=b)[0])",
    ),
    Finding(
        "fcc3de2d",
        "writing through a view does not reach what it is a view of",
        "def forward(self, x):\n    y = flow.abs(x)\n    y[0].add_(1)\n    return y\nshow(run(forward, flow.ones(2, 2)))",
    ),
    Finding(
        "2fdbdb2c",
        "writing into an input does not reach the caller's tensor",
        "x = flow.ones(2)\nrun(lambda self, x: x.mul_(2), x)\nshow(x)",
    ),
    Finding(
        "38a26717",
        "writing into a buffer is lost",
        "b = flow.ones(2)\nrun(lambda self, x: self.b.add_(x), flow.ones(2), b=b)\nshow(b)",
    ),
    Finding(
        "5f8c899c",
        "an input whose first dim is empty ends the process",
        "show(run(lambda self, x: flow.relu(x), flow.ones(0, 3)))",
        "interface_op_util.cpp:76] Check failed",
    ),
    Finding(
        "01823cec",
        "ONEFLOW_MLIR_ENABLE_INFERENCE_OPTIMIZATION ends the process where a variable is of int64, bool or float64",
        "show(run(lambda self, x: x + self.b, flow.ones(3, dtype=flow.int64), b=flow.ones(3, dtype=flow.int64)))",
        "OneFlowSupport.cpp:147] UNIMPLEMENTED",
        _mlir("ENABLE_INFERENCE_OPTIMIZATION"),
    ),
)


def oneflow_python() -> tuple[str, dict[str, str]]:
    """OneFlow's interpreter and the variables that it needs."""
    if chosen := os.environ.get("ONEFLOW_PYTHON"):
        return chosen, dict(os.environ)
    from harness.environments import oneflow_env

    built = oneflow_env.oneflow_python()
    return str(built.python), built.child_environment()


def ask(finding: Finding, how: str) -> tuple[str, str]:
    """What a program shows, `called` or as a `graph`, and how the process ended: empty, or a signal and what stderr says."""
    python, environment = oneflow_python()
    environment = {**environment, **dict.fromkeys(finding.variables, "1")}
    command = [python, "-I", "-W", "ignore", "-c", _AROUND + finding.program, how]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False, env=environment)
    ended = signal.Signals(-ran.returncode).name if ran.returncode < 0 else f"exit code {ran.returncode}"
    return (ran.stdout.splitlines() or [""])[-1], f"{ended}: {ran.stderr}" if ran.returncode else ""


def main(arguments: list[str]) -> int:
    """Run the findings asked for, and say which show."""
    wanted = [finding for finding in FINDINGS if not arguments or finding.id in arguments]
    if missing := sorted(set(arguments) - {finding.id for finding in wanted}):
        print(f"no such finding: {', '.join(missing)}", file=sys.stderr)
        return 2
    shown = 0
    for finding in wanted:
        right, trouble = ask(finding, "called")
        found, ended = ask(finding, "graph")
        seen = finding.dies in ended if finding.dies else not ended and found != right
        seen = seen and not trouble
        shown += seen
        said = next((line for line in ended.splitlines() if finding.dies and finding.dies in line), ended[-200:]) or found
        print(f"{finding.id}  {'confirmed' if seen else 'NOT SHOWN'}  {finding.title}: graph {said}, called {right}", flush=True)
    return 0 if shown == len(wanted) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
