from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from harness.backends.oneflow.graph import DEFAULT_PASSES, SWITCHES
from harness.backends.protocol import target
from harness.errors import FxdiffError
from harness.model.case import Call, Case
from harness.model.codec import to_wire
from harness.model.fill import Fill
from harness.model.outcome import Declared, Job, Outcome, Status, Witness
from harness.model.program import ModuleRecipe, Node, Program, TensorSpec
from harness.model.symbols import Sym, Symbol
from harness.model.values import Ref
from harness.workers.pool import WorkerPool
from oracles import judge
from tests.backends.oneflow.running import needs_oneflow, reference

pytestmark = needs_oneflow
F32 = TensorSpec("float32", (2, 3))
WAYS = ("oneflow:graph", "oneflow:graph-mlir", "oneflow:fx")


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool([target(name) for name in (*WAYS, "oneflow:fused")]) as pool:
        yield pool


def call(name: str, to: str, *args: object, **kwargs: object) -> Node:
    return Node(name, "call_function" if "." in to else "call_method", to, args, kwargs)


def case_of(*nodes: Node, output: object, specs: object = None, roles: object = None, modules: object = None, state: object = None) -> Case:
    """Calls over `x0`, or over the placeholders of `specs` with their `roles`, all filled with small fractions."""
    given = specs or {"x0": F32}
    placeholders = [Node(name, "placeholder", name, role=(roles or {}).get(name, "input"), spec=spec) for name, spec in given.items()]
    program = Program((*placeholders, *nodes, Node("output", "output", "output", (output,))), modules or {})
    filled = {name: Fill("exact/1", seed) for seed, name in enumerate(given)}
    inputs = {name: fill for name, fill in filled.items() if (roles or {}).get(name, "input") == "input"}
    held = {name: fill for name, fill in filled.items() if name not in inputs}
    return Case(program, (Call(data=inputs),), state={**held, **(state or {})})


def job_of(name: str, case: Case, eager: Outcome, /, **options: str) -> Job:
    wire = to_wire(Outcome("eager", Status.OK, witness=tuple(Witness(trace=each.trace) for each in eager.witness)))
    return Job(to_wire(case), name, reference=wire, options=options)


def both(pool: WorkerPool, way: str, case: Case, **options: str) -> tuple[Outcome, Outcome]:
    eager = reference(case)
    return eager, pool.worker(way).run(job_of(way, case, eager, **options))


CONV = ModuleRecipe(
    "torch.nn.Conv2d", (3, 4, 3), state={"weight": TensorSpec("float32", (4, 3, 3, 3)), "bias": TensorSpec("float32", (4,))}
)


@pytest.mark.parametrize("way", WAYS)
def test_a_program_with_state_and_layers_comes_out_as_it_is(pool: WorkerPool, way: str) -> None:
    case = case_of(
        call("y", "torch.add", Ref("x0"), Ref("p0")),
        Node("c", "call_module", "features.conv", (Ref("y"),)),
        call("r", "torch.nn.functional.relu", Ref("c")),
        call("s", "split", Ref("r"), 1, 1),
        call("q", "operator.getitem", Ref("s"), 2),
        call("n", "torch.cat", Ref("s"), 1),
        call("m", "torch.mul", Ref("n"), Ref("b0")),
        output={"q": [Ref("q"), None], "m": (Ref("m"),), "c0": Ref("c0")},
        specs={
            "x0": TensorSpec("float32", (2, 3, 5, 5)),
            "p0": TensorSpec("float32", (3, 1, 1)),
            "b0": TensorSpec("float32", (3,)),
            "c0": TensorSpec("float32", (2,)),
        },
        roles={"p0": "parameter", "b0": "buffer", "c0": "constant"},
        modules={"features.conv": CONV},
        state={"features.conv.weight": Fill("exact/1", 7), "features.conv.bias": Fill("exact/1", 8)},
    )
    eager, outcome = both(pool, way, case)
    assert outcome.status is Status.OK, outcome.message
    assert outcome.calls == eager.calls
    assert "features_conv = " not in outcome.artifacts["module.py"]
    assert "c = self.features_conv(y)" in outcome.artifacts["module.py"]


@pytest.mark.parametrize("way", WAYS)
def test_sizes_are_those_of_each_call_and_types_are_declared_for_each(pool: WorkerPool, way: str) -> None:
    base = case_of(
        call("a", "reshape", Ref("x0"), Sym("s0*3")),
        call("b", "double", Ref("a")),
        output=(Ref("a"), [Ref("b")]),
        specs={"x0": TensorSpec("float32", (Sym("s0"), 3))},
    )
    calls = tuple(Call({"s0": size}, {"x0": Fill("exact/1", size)}) for size in (1, 4))
    case = Case(base.program, calls, (Symbol("s0", 1, 8),))
    eager, outcome = both(pool, way, case)
    assert outcome.calls == eager.calls
    assert (
        outcome.declared == ()
        if way == "oneflow:fx"
        else (
            Declared("nn.Graph", "[0]", "float32", (3,), 0, own=True),
            Declared("nn.Graph", "[1][0]", "float64", (3,), 0, own=True),
            Declared("nn.Graph", "[0]", "float32", (12,), 1, own=True),
            Declared("nn.Graph", "[1][0]", "float64", (12,), 1, own=True),
        )
    )
    assert judge(case, eager, outcome) == ()


@pytest.mark.parametrize(
    ("nodes", "output", "node", "message"),
    [
        ([call("a", "torch.frac", Ref("x0"))], Ref("a"), "a", "missing: OneFlow 0.9.0 has no frac"),
        (
            [call("a", "torch.abs", Ref("x0")), call("b", "torch.nonzero", Ref("a"))],
            Ref("b"),
            "b",
            "refused: RuntimeError: Only eager scalar",
        ),
        ([call("a", "size", Ref("x0"), 0)], Ref("a"), None, "refused: NotImplementedError: nn.Graph.build()'s input/output item only"),
    ],
)
def test_what_a_graph_does_not_take_is_refused_at_its_node(
    pool: WorkerPool, nodes: list[Node], output: object, node: str | None, message: str
) -> None:
    _, outcome = both(pool, "oneflow:graph", case_of(*nodes, output=output))
    assert (outcome.status, outcome.node) == (Status.UNSUPPORTED, node)
    assert outcome.message.startswith(message)


def test_after_a_graph_that_does_not_compile_the_process_is_replaced(pool: WorkerPool) -> None:
    half = case_of(call("a", "torch.relu", Ref("x0")), output=Ref("a"), specs={"x0": TensorSpec("float16", (2,))})
    _, refused = both(pool, "oneflow:graph", half)
    assert (refused.status, refused.stage, refused.spent) == (Status.UNSUPPORTED, "compile", True)
    assert refused.message.startswith("no-cpu-kernel: ")
    eager, outcome = both(pool, "oneflow:graph", case_of(call("a", "torch.relu", Ref("x0")), output=Ref("a")))
    assert outcome.calls == eager.calls
    assert len(pool.worker("oneflow:graph").recent_jobs()) == 1


def test_a_death_names_its_stage(pool: WorkerPool) -> None:
    empty = case_of(call("a", "torch.relu", Ref("x0")), output=Ref("a"), specs={"x0": TensorSpec("float32", (0, 3))})
    eager, outcome = both(pool, "oneflow:graph", empty)
    assert (outcome.status, outcome.stage) == (Status.CRASH, "build")
    assert "interface_op_util.cpp:76] Check failed" in judge(empty, eager, outcome)[0].message


def test_every_switch_shows_its_passes_and_what_they_did(pool: WorkerPool) -> None:
    nodes = [call("a", "torch.add", Ref("x0"), 1), call("b", "torch.add", Ref("x0"), 1)]
    case = case_of(*nodes, output=(Ref("a"), Ref("b")))
    eager, outcome = both(pool, "oneflow:graph-mlir", case)
    assert outcome.calls == eager.calls
    passes = outcome.artifacts["passes"].split("\n")
    assert {name for switch in DEFAULT_PASSES for name in SWITCHES[switch].passes} <= {line.partition(":")[0] for line in passes}
    assert "cse: changed" in passes
    assert outcome.artifacts["graph.mlir"].count('"oneflow.scalar_add"') == 1
    _, plain = both(pool, "oneflow:graph-mlir", case, passes="none")
    assert {line.partition(":")[0] for line in plain.artifacts["passes"].split("\n")} == {"canonicalize", "auto-nhwc"}
    assert plain.artifacts["graph.mlir"].count('"oneflow.scalar_add"') == 2
    _, launched = both(pool, "oneflow:graph-mlir", case, passes="launch")
    assert launched.calls == eager.calls, (launched.message, launched.death)
    assert "func.func @wrap0(" in launched.artifacts["graph.mlir"]


def test_a_switch_that_does_not_exist_is_named(pool: WorkerPool) -> None:
    _, outcome = both(pool, "oneflow:graph-mlir", case_of(call("a", "torch.abs", Ref("x0")), output=Ref("a")), passes="cse+magic")
    assert outcome.status is Status.HARNESS_ERROR
    assert "OneFlow has no MLIR passes magic" in outcome.message
    with pytest.raises(FxdiffError):
        target("oneflow:graph-mlir?pass=cse")


def test_what_was_traced_is_shown(pool: WorkerPool) -> None:
    case = case_of(call("a", "torch.relu", Ref("x0")), call("b", "operator.add", Ref("a"), 1), output=[Ref("b")])
    _, outcome = both(pool, "oneflow:fx", case)
    traced = outcome.artifacts["traced.py"]
    assert "relu = oneflow.relu(x0, False)" in traced
    assert "add = relu + 1" in traced


def test_writing_by_an_operator_cannot_be_traced(pool: WorkerPool) -> None:
    case = case_of(call("y", "torch.abs", Ref("x0")), call("a", "operator.iadd", Ref("y"), 1), output=Ref("a"))
    _, outcome = both(pool, "oneflow:fx", case)
    assert (outcome.status, outcome.stage) == (Status.UNSUPPORTED, "trace")
    assert "cannot record that a writes" in outcome.message


def conv_bn(*users: Node) -> Case:
    """A convolution and the batch norm behind it in eval mode, and who else reads the convolution."""
    state = {name: TensorSpec("float32", (4,)) for name in ("weight", "bias", "running_mean", "running_var")}
    norm = ModuleRecipe("torch.nn.BatchNorm2d", (4,), state=state)
    filled = {f"bn.{name}": Fill("integers/1", seed, 1, 4) for seed, name in enumerate(state)}
    return case_of(
        Node("c", "call_module", "conv", (Ref("x0"),)),
        Node("n", "call_module", "bn", (Ref("c"),)),
        *users,
        output=(Ref("n"), *(Ref(node.name) for node in users)),
        specs={"x0": TensorSpec("float32", (2, 3, 5, 5))},
        modules={"conv": CONV, "bn": norm},
        state={"conv.weight": Fill("exact/1", 7), "conv.bias": Fill("exact/1", 8), **filled},
    )


def test_a_batch_norm_is_folded_into_its_convolution(pool: WorkerPool) -> None:
    case = conv_bn()
    eager, outcome = both(pool, "oneflow:fused", case)
    assert outcome.status is Status.OK, outcome.message
    assert "self.bn" not in outcome.artifacts["fused.py"]
    assert judge(case, eager, outcome) == ()


def test_a_convolution_that_others_read_is_left_alone(pool: WorkerPool) -> None:
    _, outcome = both(pool, "oneflow:fused", conv_bn(call("r", "torch.relu", Ref("c"))))
    assert (outcome.status, outcome.stage) == (Status.UNSUPPORTED, "fuse")
    assert "there is nothing to fuse" in outcome.message


def test_every_way_can_be_taken_in_the_worker_of_another(pool: WorkerPool) -> None:
    case = case_of(call("a", "torch.relu", Ref("x0")), output=Ref("a"))
    spec = target("oneflow:graph")
    for voter, options in spec.voters.items():
        eager = reference(case)
        outcome = pool.worker(spec.name).run(job_of(spec.name, case, eager, **options))
        assert outcome.status is Status.OK, voter
        assert outcome.calls == eager.calls
    assert set(spec.voters) == {"eager", "graph", "graph-mlir", "fx"}
    assert spec.voter == "graph"
    assert target("oneflow:fused").voter in target("oneflow:fused").voters


def test_gradients_are_refused(pool: WorkerPool) -> None:
    case = dataclasses.replace(case_of(call("a", "torch.abs", Ref("x0")), output=Ref("a")), mode="grad")
    outcome = pool.worker("oneflow:graph").run(Job(to_wire(case), "oneflow:graph"))
    assert outcome.status is Status.UNSUPPORTED
