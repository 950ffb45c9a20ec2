from __future__ import annotations

import dataclasses

import pytest

from harness.model.case import Call, Case
from harness.model.codec import to_wire
from harness.model.fill import Fill
from harness.model.outcome import Job, Outcome, Status
from harness.model.program import ModuleRecipe, Node, Program, TensorSpec
from harness.model.symbols import Sym, Symbol
from harness.model.values import Ref
from harness.workers.supervisor import Worker
from tests.backends.oneflow.running import job, needs_oneflow, reference, workers

pytestmark = needs_oneflow
F32 = TensorSpec("float32", (2, 3))


@pytest.fixture(scope="module")
def worker() -> Worker:
    with workers() as pool:
        yield pool.worker("oneflow:eager")


def call(name: str, target: str, *args: object, **kwargs: object) -> Node:
    return Node(name, "call_function" if "." in target else "call_method", target, args, kwargs)


def case_of(*nodes: Node, output: object, spec: TensorSpec = F32, role: str = "input", modules: object = None) -> Case:
    placeholder = Node("x0", "placeholder", "x0", role=role, spec=spec)
    program = Program((placeholder, *nodes, Node("output", "output", "output", (output,))), modules or {})
    filled = {"x0": Fill("exact/1")}
    return Case(program, (Call(data=filled),)) if role == "input" else Case(program, (Call(), Call()), state=filled)


def both(worker: Worker, case: Case) -> tuple[Outcome, Outcome]:
    eager = reference(case)
    return eager, worker.run(job(case, "oneflow:eager", eager))


def test_a_program_flows_through_with_its_structure(worker: Worker) -> None:
    case = case_of(
        call("a", "torch.nn.functional.relu", Ref("x0")),
        call("s", "split", Ref("a"), 1, 1),
        call("p", "operator.getitem", Ref("s"), 1),
        call("n", "size", Ref("p"), 0),
        call("m", "operator.mul", Ref("n"), 3),
        call("f", "torch.full", (Ref("m"),), 2.5),
        output={"p": (Ref("p"), None), "f": [Ref("f")], "m": Ref("m")},
    )
    eager, outcome = both(worker, case)
    assert outcome.status is Status.OK
    assert outcome.calls == eager.calls


def test_mutated_inputs_are_reported(worker: Worker) -> None:
    case = case_of(call("a", "mul_", Ref("x0"), 2), output=Ref("a"))
    eager, outcome = both(worker, case)
    assert outcome.calls == eager.calls
    assert set(outcome.calls[0].mutated) == {"x0"}


def test_every_call_starts_from_fresh_buffers(worker: Worker) -> None:
    case = case_of(call("a", "add_", Ref("x0"), 1), call("b", "torch.abs", Ref("x0")), output=Ref("b"), role="buffer")
    eager, outcome = both(worker, case)
    assert outcome.calls[0] == outcome.calls[1]
    assert outcome.calls == eager.calls


def test_a_module_called_twice_is_one_module(worker: Worker) -> None:
    state = {name: TensorSpec("float32", (3,)) for name in ("weight", "bias", "running_mean", "running_var")}
    recipe = ModuleRecipe("torch.nn.BatchNorm1d", (3,), training=True, state=state)
    nodes = [Node(name, "call_module", "bn", (Ref("x0"),)) for name in ("a", "b")]
    base = case_of(*nodes, output=(Ref("a"), Ref("b")), modules={"bn": recipe})
    case = Case(base.program, base.calls, state={f"bn.{name}": Fill("constant/1", low=1) for name in state})
    _, outcome = both(worker, case)
    assert outcome.status is Status.OK
    assert outcome.calls[0].output[0] == outcome.calls[0].output[1]


def test_sizes_are_those_of_each_call(worker: Worker) -> None:
    base = case_of(call("a", "reshape", Ref("x0"), Sym("s0*3")), output=Ref("a"), spec=TensorSpec("float32", (Sym("s0"), 3)))
    calls = tuple(Call({"s0": size}, {"x0": Fill("exact/1", size)}) for size in (1, 4))
    eager, outcome = both(worker, Case(base.program, calls, (Symbol("s0", 1, 8),)))
    assert outcome.calls == eager.calls


@pytest.mark.parametrize(
    ("node", "status", "message"),
    [
        (call("a", "torch.frac", Ref("x0")), Status.UNSUPPORTED, "missing: OneFlow 0.9.0 has no frac"),
        (call("a", "torch.var", Ref("x0"), (0, 1)), Status.ERROR, "IndexError: Error: Dimension out of range"),
    ],
)
def test_the_first_node_that_stops_is_named(worker: Worker, node: Node, status: Status, message: str) -> None:
    case = case_of(call("ok", "torch.abs", Ref("x0")), node, call("b", "torch.neg", Ref("a")), output=Ref("b"))
    _, outcome = both(worker, case)
    assert (outcome.status, outcome.node, outcome.call, outcome.stage) == (status, "a", 0, "run")
    assert outcome.message.startswith(message)


def test_none_for_a_tensor_is_an_error_of_the_node_that_returned_it(worker: Worker) -> None:
    case = case_of(
        call("y", "torch.abs", Ref("x0")),
        call("a", "copy_", Ref("y"), Ref("x0")),  # OneFlow's returns None
        call("b", "torch.neg", Ref("a")),
        output=Ref("b"),
    )
    _, outcome = both(worker, case)
    assert (outcome.status, outcome.node) == (Status.ERROR, "a")


def test_gradients_are_refused(worker: Worker) -> None:
    case = dataclasses.replace(case_of(call("a", "torch.abs", Ref("x0")), output=Ref("a")), mode="grad")
    outcome = worker.run(Job(to_wire(case), "oneflow:eager"))
    assert outcome.status is Status.UNSUPPORTED
    assert outcome.message == "untranslated: mode 'grad'; only the forward pass is run in OneFlow"
