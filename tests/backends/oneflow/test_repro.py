from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest

from harness.backends.eager import EagerBackend, Silent
from harness.backends.oneflow.errors import OneFlowUnsupported
from harness.backends.oneflow.repro import render_call, render_tensor, render_unit
from harness.environments.oneflow_env import oneflow_python
from harness.model.case import Call, Case
from harness.model.fill import Fill, Literal
from harness.model.outcome import Job, NodeTrace
from harness.model.program import Node, Program, TensorSpec
from harness.model.values import Ref, Tensor
from tests.backends.oneflow.running import needs_oneflow


def run(source: str) -> object:
    environment = oneflow_python()
    command = [str(environment.python), "-c", f"import oneflow, json\n{source}\nprint(json.dumps(answer))"]
    done = subprocess.run(command, env=environment.child_environment(), capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@needs_oneflow
def test_a_unit_is_printed_as_one_program_and_means_the_same() -> None:
    nodes = (
        Node("y", "call_function", "operator.mul", (Ref("x0"), 1)),
        Node("s", "call_method", "split", (Ref("y"), 1)),
        Node("v", "call_function", "operator.getitem", (Ref("s"), 1)),
        Node("w", "call_function", "operator.iadd", (Ref("v"), 1)),
        Node("c", "call_function", "torch.cat", ([Ref("y"), Ref("w")],)),
    )
    placeholder = Node("x0", "placeholder", "x0", role="input", spec=TensorSpec("float32", (2, 2)))
    program = Program((placeholder, *nodes, Node("output", "output", "output", (Ref("c"),))))
    case = Case(program, (Call(data={"x0": Fill("exact/1")}),))
    trace = EagerBackend().run(case, Job(b"", "eager", ("trace",)), Silent()).witness[0].trace
    assert len({each.unit for each in trace}) == 1
    outside, source = render_unit(case, trace)
    assert list(outside) == ["x0"]
    assert source.splitlines() == [
        "y = (x0 * 1)",
        "s = oneflow.split(y, 1, 0)",
        "v = s[1]",
        "v += 1",
        "w = v",
        "c = oneflow.cat([y, w], 0)",
    ]
    made = render_tensor("x0", outside["x0"].tensor)
    assert run(f"{made}\n{source}\nanswer = c.numpy().tolist()") == trace[-1].output.array().tolist()


SPECIAL = np.array([[np.nan, np.inf], [-np.inf, -0.0]], "<f4")


@needs_oneflow
def test_tensors_are_made_of_numbers_with_their_strides_and_special_values() -> None:
    strided = Tensor("float32", (2, 2), Literal(SPECIAL.tobytes()), (1, 2))
    wide = Tensor("int64", (1,), Literal(np.array([2**62 + 1], "<i8").tobytes()))
    brain = Tensor("bfloat16", (2,), Literal(np.array([0x3FC0, 0xFF80], "<u2").tobytes()))
    empty = Tensor("float64", (2, 0), Literal(b""))
    lines = [render_tensor(name, tensor) for name, tensor in (("a", strided), ("b", wide), ("c", brain), ("d", empty))]
    answer = "answer = [str(a.numpy().tolist()), list(a.stride()), b.tolist(), str(c.dtype), str(c.numpy().tolist()), list(d.shape)]"
    assert run("\n".join([*lines, answer])) == [
        str(SPECIAL.T.tolist()),
        [1, 2],
        [2**62 + 1],
        "oneflow.bfloat16",
        "[1.5, -inf]",
        [2, 0],
    ]


def test_what_cannot_be_printed_is_refused() -> None:
    with pytest.raises(OneFlowUnsupported, match="int16"):
        render_tensor("x", Tensor("int16", (1,), Fill("exact/1")))
    with pytest.raises(ValueError, match="recipe"):
        render_call(Node("n", "call_module", "fc"), NodeTrace("n"))
