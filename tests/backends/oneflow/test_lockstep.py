from __future__ import annotations

import pytest

from harness.backends.eager import EagerBackend, Silent
from harness.backends.oneflow.lockstep import plan_call
from harness.errors import HarnessError
from harness.model.case import Call, Case
from harness.model.codec import to_wire
from harness.model.fill import Fill
from harness.model.outcome import Job, NodeResult, NodeTrace, Outcome, Status
from harness.model.program import ModuleRecipe, Node, Program, TensorSpec
from harness.model.symbols import Sym, Symbol
from harness.model.values import Ref, Tensor
from harness.workers.supervisor import Worker
from tests.backends.oneflow.running import job, needs_oneflow, reference, workers

F32 = TensorSpec("float32", (2, 3))


@pytest.fixture(scope="module")
def worker() -> Worker:
    with workers() as pool:
        yield pool.worker("oneflow:lockstep")


def function(name: str, target: str, *args: object, **kwargs: object) -> Node:
    return Node(name, "call_function", target, args, kwargs)


def method(name: str, target: str, *args: object) -> Node:
    return Node(name, "call_method", target, args)


def program(*nodes: Node, output: object, spec: TensorSpec = F32, inputs: int = 1, **more: object) -> Case:
    placeholders = [Node(f"x{i}", "placeholder", f"x{i}", role="input", spec=spec) for i in range(inputs)]
    data = {f"x{i}": Fill("exact/1", i) for i in range(inputs)}
    return Case(Program((*placeholders, *nodes, Node("output", "output", "output", (output,)))), (Call(data=data),), **more)


def run(worker: Worker, case: Case) -> tuple[Outcome, dict[str, NodeResult], dict[str, NodeTrace]]:
    eager = reference(case)
    outcome = worker.run(job(case, "oneflow:lockstep", eager))
    return outcome, {result.name: result for result in outcome.nodes}, {trace.name: trace for trace in eager.witness[0].trace}


@needs_oneflow
def test_each_node_gets_the_references_inputs_so_no_bug_hides_the_next(worker: Worker) -> None:
    case = program(
        function("a", "operator.mod", Ref("x0"), 3),  # wrong in OneFlow for negative numbers
        function("b", "operator.mul", Ref("a"), 2),
        output=Ref("b"),
    )
    outcome, results, trace = run(worker, case)
    assert outcome.status is Status.OK
    assert not outcome.calls
    assert results["a"].output != trace["a"].output
    assert results["b"].output == trace["b"].output


@needs_oneflow
def test_nodes_that_share_storage_with_a_write_run_together(worker: Worker) -> None:
    case = program(
        function("y", "operator.mul", Ref("x0"), 1),
        function("v", "operator.getitem", Ref("y"), 0),
        method("w", "add_", Ref("v"), 1),
        function("z", "operator.mul", Ref("y"), 2),
        function("other", "torch.abs", Ref("x0")),
        output=(Ref("z"), Ref("other")),
    )
    outcome, results, trace = run(worker, case)
    assert trace["y"].unit is not None
    assert trace["y"].unit == trace["z"].unit
    assert outcome.status is Status.OK
    assert {name: result.output for name, result in results.items()} == {name: each.output for name, each in trace.items()}


@needs_oneflow
def test_a_write_to_an_input_is_seen_by_later_readers_of_it(worker: Worker) -> None:
    case = program(method("a", "mul_", Ref("x0"), 2), function("b", "torch.neg", Ref("x0")), output=Ref("b"))
    outcome, results, trace = run(worker, case)
    assert outcome.status is Status.OK
    assert results["b"].output == trace["b"].output


@needs_oneflow
def test_what_depends_on_an_unsupported_write_is_inconclusive(worker: Worker) -> None:
    case = program(method("a", "neg_", Ref("x0")), function("b", "torch.abs", Ref("x0")), output=(Ref("a"), Ref("b")))
    outcome, results, _ = run(worker, case)
    assert outcome.status is Status.UNSUPPORTED
    assert (outcome.node, outcome.call) == ("a", 0)
    assert results["a"].message == "missing: OneFlow 0.9.0 has no neg_"
    assert results["b"].status is Status.INCONCLUSIVE


@needs_oneflow
def test_a_node_that_returned_none_for_a_tensor_stops_only_its_readers(worker: Worker) -> None:
    case = program(
        function("y", "operator.mul", Ref("x0"), 1),
        method("a", "copy_", Ref("y"), Ref("x1")),  # OneFlow's returns None
        method("b", "mul_", Ref("a"), 2),
        output=Ref("b"),
        inputs=2,
    )
    _, results, _ = run(worker, case)
    assert results["a"].status is Status.OK
    assert results["a"].output is None
    assert results["b"].status is Status.INCONCLUSIVE
    assert "returned a NoneType for a tensor" in results["b"].message


@needs_oneflow
def test_inputs_that_share_a_storage_and_are_written_to_are_inconclusive(worker: Worker) -> None:
    spec = TensorSpec("float32", (2,), storage="s")
    case = Case(
        Program(
            (
                Node("x0", "placeholder", "x0", role="input", spec=spec),
                Node("x1", "placeholder", "x1", role="input", spec=spec),
                method("a", "mul_", Ref("x0"), 2),
                function("b", "torch.neg", Ref("x1")),
                Node("output", "output", "output", (Ref("b"),)),
            )
        ),
        (Call(data={"s": Fill("exact/1")}),),
    )
    _, results, _ = run(worker, case)
    assert results["b"].status is Status.INCONCLUSIVE
    assert "shares its storage" in results["b"].message


@needs_oneflow
def test_structural_nodes_are_not_reported_and_their_parts_are_fed_on(worker: Worker) -> None:
    case = program(
        method("s", "split", Ref("x0"), 1, 1),
        function("p", "operator.getitem", Ref("s"), 2),
        function("n", "operator.getitem", Ref("p"), 0),
        function("q", "torch.abs", Ref("p")),
        output=(Ref("q"), Ref("n")),
    )
    outcome, results, trace = run(worker, case)
    assert outcome.status is Status.OK
    assert set(results) == {"s", "n", "q"}
    assert results["q"].output == trace["q"].output


@needs_oneflow
def test_errors_and_refusals_are_told_apart_and_do_not_stop_the_rest(worker: Worker) -> None:
    case = program(
        function("a", "torch.frac", Ref("x0")),
        function("b", "torch.var", Ref("x0"), (0, 1)),
        function("c", "torch.abs", Ref("x0")),
        output=(Ref("a"), Ref("b"), Ref("c")),
    )
    outcome, results, _ = run(worker, case)
    assert [results[name].status for name in "abc"] == [Status.UNSUPPORTED, Status.ERROR, Status.OK]
    assert (outcome.status, outcome.node) == (Status.ERROR, "b")
    assert results["b"].message == "IndexError: Error: Dimension out of range (expected to be in range of [-2, 1], but got 2)"


@needs_oneflow
def test_every_call_runs_with_its_own_sizes(worker: Worker) -> None:
    spec = TensorSpec("float32", (Sym("s0"), 3))
    case = program(method("a", "reshape", Ref("x0"), Sym("s0*3")), output=Ref("a"), spec=spec)
    calls = tuple(Call({"s0": size}, {"x0": Fill("exact/1", size)}) for size in (2, 4))
    case = Case(case.program, calls, (Symbol("s0", 1, 8),))
    eager = reference(case)
    outcome = worker.run(job(case, "oneflow:lockstep", eager))
    assert [(result.call, result.output.shape) for result in outcome.nodes] == [(0, (6,)), (1, (12,))]


@needs_oneflow
def test_layers_and_their_state(worker: Worker) -> None:
    recipe = ModuleRecipe(
        "torch.nn.Linear", (3, 2), {}, state={"weight": TensorSpec("float32", (2, 3)), "bias": TensorSpec("float32", (2,))}
    )
    node = Node("a", "call_module", "fc", (Ref("x0"),))
    base = program(node, output=Ref("a"))
    case = Case(
        Program(base.program.nodes, {"fc": recipe}), base.calls, state={"fc.weight": Fill("exact/1", 5), "fc.bias": Fill("exact/1", 6)}
    )
    outcome, results, trace = run(worker, case)
    assert outcome.status is Status.OK
    assert results["a"].output == trace["a"].output


def test_strided_inputs_keep_their_strides_in_the_plan() -> None:
    case = program(method("t", "t", Ref("x0")), function("a", "torch.abs", Ref("t")), output=Ref("a"))
    outcome = EagerBackend().run(case, Job(b"", "eager", ("trace",)), Silent())
    units = plan_call(case, outcome.witness[0].trace)
    (tensor,) = (source.tensor for source in units[1][0].sources.values())
    assert isinstance(tensor, Tensor)
    assert tensor.strides == (1, 3)


@needs_oneflow
@pytest.mark.parametrize("wire", [b"", to_wire(Outcome("eager", Status.OK))])
def test_a_reference_without_traces_is_our_fault(worker: Worker, wire: bytes) -> None:
    case = program(function("a", "torch.abs", Ref("x0")), output=Ref("a"))
    outcome = worker.run(Job(to_wire(case), "oneflow:lockstep", reference=wire))
    assert outcome.status is Status.HARNESS_ERROR


def test_a_trace_that_does_not_fit_the_program_is_our_fault() -> None:
    case = program(function("a", "torch.add", Ref("x0"), 1), output=Ref("a"))
    with pytest.raises(HarnessError, match="'a' has 2 arguments and was traced with 1"):
        plan_call(case, (NodeTrace("a", (1,)),))
