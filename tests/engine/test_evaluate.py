from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from harness.backends.protocol import target
from harness.cli.session import SlotRunner
from harness.engine.evaluate import Evaluator, as_honoured
from harness.errors import HarnessError
from harness.model.case import Call, Case
from harness.model.fill import Literal
from harness.model.outcome import NodeResult, Outcome, Status
from harness.model.program import Node, Program, TensorSpec
from harness.model.values import Ref, tensor_from_array
from harness.workers.pool import WorkerPool
from tests.engine.campaigning import case_of

LOCKSTEP = "oneflow:lockstep"


def inside_a_program(value: float) -> Case:
    """gelu of eight equal elements, with an operator before it and one after it."""
    names = {"abs_1": "torch.abs", "gelu_1": "torch.nn.functional.gelu", "neg_1": "torch.neg"}
    nodes = [Node("x0", "placeholder", "x0", role="input", spec=TensorSpec("float32", (8,)))]
    for name, called in names.items():
        nodes.append(Node(name, "call_function", called, (Ref(nodes[-1].name),)))
    nodes.append(Node("output", "output", "output", (Ref("neg_1"),)))
    data = Literal(np.full(8, value, dtype=np.float32).tobytes())
    return Case(Program(tuple(nodes)), (Call(data={"x0": data}),))


@pytest.mark.parametrize(("given", "wrong"), [(np.inf, False), (7.0, True), (0.0, True)])
def test_a_node_inside_a_program_is_judged_by_its_own_twin(pool: WorkerPool, given: float, wrong: bool) -> None:
    """Eager's own gelu of infinity is NaN for eight elements and infinity for one: the node in float64 tells who is right."""
    case = inside_a_program(np.inf)
    evaluator = Evaluator(SlotRunner(pool, 0))
    reference = evaluator.reference(case)
    results = [NodeResult(trace.name, 0, Status.OK, trace.output) for trace in reference.witness[0].trace]
    answer = tensor_from_array(np.full(8, given, dtype=np.float32), "float32")
    results[1] = dataclasses.replace(results[1], output=answer)
    verdicts = evaluator.judge(case, reference, Outcome(LOCKSTEP, Status.OK, "run", nodes=tuple(results)))
    assert [verdict.node for verdict in verdicts] == (["gelu_1"] if wrong else [])


def test_a_target_without_a_mode_is_given_the_forward_pass(pool: WorkerPool) -> None:
    """As `fxdiff check` has it; what is found is looked into in that pass, too."""
    evaluator = Evaluator(SlotRunner(pool, 0))
    case = dataclasses.replace(case_of("torch.sin"), mode="grad")
    spec = target("wrong:value")
    assert spec.modes == ("fwd",)
    evaluation = evaluator.evaluate(case, [spec])
    (verdict,) = evaluation.of(spec.name)
    assert len(evaluation.observed[spec.name].calls) == 1
    evidence = evaluator.evidence(case, spec, verdict)
    assert evidence is not None
    assert evidence.case.mode == "fwd"
    both = dataclasses.replace(spec, modes=("fwd", "grad"))
    assert as_honoured(case, both) is case


def test_an_answer_that_fits_no_case_names_the_target(pool: WorkerPool) -> None:
    evaluator = Evaluator(SlotRunner(pool, 0))
    spec = target("wrong:nothing")
    evaluator.observe = lambda *given, **more: Outcome(spec.name, Status.OK, "run", calls=())  # type: ignore[method-assign]
    evaluator.judge = lambda *given: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    with pytest.raises(HarnessError, match=rf"what wrong:nothing \({spec.entry}\) answers cannot be judged: ZeroDivisionError"):
        evaluator.evaluate(case_of("torch.sin"), [spec])
