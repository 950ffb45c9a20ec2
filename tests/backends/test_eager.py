from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from harness.backends.eager import EagerBackend, Silent
from harness.backends.eager_copy import EagerCopyBackend, layout_is_free, relaid
from harness.backends.eager_trace import magnitude
from harness.errors import FxdiffError
from harness.model.case import Call, Case
from harness.model.codec import from_wire, to_wire
from harness.model.dtypes import Array
from harness.model.fill import Data, Fill, Literal
from harness.model.outcome import Declared, Job, NodeTrace, Outcome, Status
from harness.model.program import ModuleRecipe, Node, Program, TensorSpec
from harness.model.symbols import Sym, Symbol
from harness.model.values import DType, Ref, Tensor, Value
from harness.torch_bridge.interpret import NodeFailed

EVERYTHING = ("trace", "twin", "spread", "fake")
EXACT = Fill("exact/1")


@pytest.fixture(scope="module")
def eager() -> EagerBackend:
    backend = EagerBackend()
    backend.warm()
    return backend


def placeholder(name: str, shape: tuple[Any, ...], role: str = "input", *, dtype: str = "float32", **more: Any) -> Node:
    return Node(name, "placeholder", name, role=role, fqn=name, spec=TensorSpec(dtype, shape, **more))


def call(name: str, target: str, *args: Value, **kwargs: Value) -> Node:
    return Node(name, "call_function" if "." in target else "call_method", target, args, kwargs)


def case_of(
    *nodes: Node,
    output: Value,
    bindings: tuple[Mapping[str, int], ...] = ({},),
    data: Mapping[str, Data] | None = None,
    state: Mapping[str, Data] | None = None,
    modules: Mapping[str, ModuleRecipe] | None = None,
    mode: str = "fwd",
) -> Case:
    program = Program((*nodes, Node("output", "output", "output", (output,))), modules or {})
    specs = [(n, n.spec) for n in program.placeholders if isinstance(n.spec, TensorSpec)]
    fills = {spec.storage or n.name: EXACT for n, spec in specs if n.role == "input"}
    kept = {spec.storage or n.name: EXACT for n, spec in specs if n.role != "input"}
    calls = tuple(Call(binding, {**fills, **(data or {})}) for binding in bindings)
    case = Case(program, calls, tuple(Symbol(name) for name in sorted(program.symbols())), {**kept, **(state or {})}, mode=mode)
    case.validate()
    return case


def run(eager: EagerBackend, case: Case, *want: str) -> Outcome:
    outcome = eager.run(case, Job(b"", "eager", want), Silent())
    # What a worker sends must arrive as it was.
    assert from_wire(Outcome, to_wire(outcome)).status is outcome.status
    return outcome


def literal(*numbers: float, dtype: str = "float32") -> Literal:
    return Literal(np.array(numbers, dtype=dtype).tobytes())


class Recorder:
    def __init__(self) -> None:
        self.said: list[str] = []

    def stage(self, name: str) -> None:
        self.said.append(f"<{name}>")

    def node(self, name: str) -> None:
        self.said.append(name)


SINE = case_of(
    placeholder("x0", (Sym("s0"), 2)),
    call("sin_0", "torch.sin", Ref("x0")),
    call("mul_1", "operator.mul", Ref("sin_0"), 3),
    output={"y": [Ref("mul_1")], "n": Sym("s0")},
    bindings=({"s0": 2}, {"s0": 0}),
)


def test_every_call_gives_its_output_in_the_value_grammar(eager: EagerBackend) -> None:
    outcome = run(eager, SINE)
    assert outcome.status is Status.OK and outcome.witness == () and outcome.declared == ()
    first, second = (result.output for result in outcome.calls)
    x = SINE.arguments(0)["x0"].array()
    assert np.array_equal(first["y"][0].array(), (torch.from_numpy(x).sin() * 3).numpy())
    assert first["n"] == 2 and second["n"] == 0 and second["y"][0].shape == (0, 2)


def test_stages_and_nodes_are_announced_before_they_run(eager: EagerBackend) -> None:
    recorder = Recorder()
    eager.run(
        case_of(placeholder("x0", (2,)), call("sin_0", "torch.sin", Ref("x0")), output=Ref("sin_0")),
        Job(b"", "eager", EVERYTHING),
        recorder,
    )
    assert recorder.said == ["<build>", "<run>", "sin_0", "<fake>", "sin_0", "<twin>", "sin_0", "<spread>", "sin_0", "sin_0"]


def test_what_an_operator_refuses_is_rejected_at_its_node(eager: EagerBackend) -> None:
    case = case_of(
        placeholder("x0", (2, 3)), call("a", "torch.sin", Ref("x0")), call("mm_1", "torch.mm", Ref("a"), Ref("a")), output=Ref("mm_1")
    )
    outcome = run(eager, case, *EVERYTHING)
    assert (outcome.status, outcome.node, outcome.call, outcome.stage) == (Status.REJECTED, "mm_1", 0, "run")
    assert "mat1 and mat2" in outcome.message


def test_a_result_outside_the_grammar_is_rejected(eager: EagerBackend) -> None:
    outcome = run(eager, case_of(placeholder("x0", (2,)), call("a", "to_sparse", Ref("x0")), output=Ref("a")))
    assert outcome.status is Status.REJECTED and "sparse" in outcome.message


def test_our_own_faults_are_not_rejections(eager: EagerBackend) -> None:
    unknown = case_of(placeholder("x0", (2,)), call("a", "torch.save", Ref("x0")), output=Ref("a"))
    with pytest.raises(FxdiffError, match=r"torch\.save"):
        run(eager, unknown)
    attribute = case_of(placeholder("x0", (2,)), call("a", "builtins.getattr", Ref("x0"), "__dict__"), output=Ref("a"))
    with pytest.raises(NodeFailed, match="__dict__"):
        run(eager, attribute)


def test_mutated_inputs_parameters_buffers_and_module_state_are_reported(eager: EagerBackend) -> None:
    case = case_of(
        placeholder("x0", (2, 2)),
        placeholder("x1", (2, 2)),
        placeholder("b0", (2, 2), "buffer"),
        call("row_0", "operator.getitem", Ref("x0"), 0),
        call("add__1", "add_", Ref("row_0"), 1),
        call("copy__2", "copy_", Ref("b0"), Ref("x1")),
        Node("bn_3", "call_module", "bn", (Ref("x1"),)),
        output=Ref("bn_3"),
        modules={"bn": ModuleRecipe("torch.nn.BatchNorm1d", (2,), {"affine": False}, training=True)},
        state={"b0": Fill("exact/1", 9)},
        data={"x1": Fill("exact/1", 5)},
    )
    (result,) = run(eager, case).calls
    assert set(result.mutated) == {"x0", "b0", "bn.running_mean", "bn.running_var", "bn.num_batches_tracked"}
    before = case.arguments(0)
    assert result.mutated["x0"].array().tolist() == np.add(before["x0"].array(), [[1], [0]]).tolist()
    assert result.mutated["b0"].array().tolist() == before["x1"].array().tolist()


def test_writing_what_is_there_already_is_no_mutation_and_nan_is_equal_to_itself(eager: EagerBackend) -> None:
    case = case_of(
        placeholder("x0", (2,)), call("mul__0", "mul_", Ref("x0"), 1), output=Ref("mul__0"), data={"x0": literal(math.nan, -0.0)}
    )
    assert run(eager, case).calls[0].mutated == {}


def test_a_change_of_shape_or_sign_of_zero_is_a_mutation(eager: EagerBackend) -> None:
    case = case_of(
        placeholder("x0", (2, 3)), placeholder("x1", (1,)), call("a", "t_", Ref("x0")), call("b", "abs_", Ref("x1")),
        output=None, data={"x1": literal(-0.0)},
    )  # fmt: skip
    mutated = run(eager, case).calls[0].mutated
    assert mutated["x0"].shape == (3, 2) and np.signbit(mutated["x1"].array()).tolist() == [False]


def traces(eager: EagerBackend, case: Case) -> dict[str, NodeTrace]:
    return {trace.name: trace for trace in run(eager, case, "trace").witness[0].trace}


ALIASED = case_of(
    placeholder("x0", (2, 2)),
    call("y", "operator.mul", Ref("x0"), 2),
    call("v", "operator.getitem", Ref("y"), 0),
    call("add__0", "add_", Ref("v"), 1),
    call("late", "operator.mul", Ref("y"), 2),
    call("other", "torch.sin", Ref("x0")),
    output=(Ref("late"), Ref("other")),
)


def test_inputs_are_snapshotted_just_before_each_node(eager: EagerBackend) -> None:
    found = traces(eager, ALIASED)
    y = SINE.arguments(0)["x0"].array() * 2
    assert found["add__0"].args[0].array().tolist() == y[0].tolist()
    assert found["late"].args[0].array().tolist() == np.add(y, [[1], [0]]).tolist()
    assert found["y"].output.array().tolist() == y.tolist()
    assert found["y"].args[1] == 2


def test_nodes_tied_by_a_write_share_a_unit_and_others_do_not(eager: EagerBackend) -> None:
    units = {name: trace.unit for name, trace in traces(eager, ALIASED).items()}
    assert units == {"y": "y", "v": "y", "add__0": "y", "late": "y", "other": None}


def test_what_reads_only_the_written_result_stays_alone(eager: EagerBackend) -> None:
    case = case_of(
        placeholder("x0", (2,)),
        call("a", "torch.sin", Ref("x0")),
        call("b", "torch.relu_", Ref("a")),
        call("c", "torch.sin", Ref("b")),
        call("d", "torch.relu_", Ref("c")),
        call("e", "operator.add", Ref("d"), Ref("b")),
        output=Ref("e"),
    )
    assert {n: t.unit for n, t in traces(eager, case).items()} == {"a": "a", "b": "a", "c": "c", "d": "c", "e": None}


def test_a_write_to_an_input_ties_its_views_and_stale_readers(eager: EagerBackend) -> None:
    case = case_of(
        placeholder("x0", (2, 2)),
        call("before", "torch.sin", Ref("x0")),
        call("v", "view", Ref("x0"), -1),
        call("set_1", "operator.setitem", Ref("x0"), 0, 0),
        call("after", "torch.sin", Ref("v")),
        call("out_2", "torch.sin", Ref("after"), out=Ref("before")),
        output=(Ref("before"), Ref("after")),
    )
    units = {n: t.unit for n, t in traces(eager, case).items()}
    assert units == {"before": "before", "v": "v", "set_1": "v", "after": "v", "out_2": "before"}


def test_views_without_a_write_are_no_unit(eager: EagerBackend) -> None:
    case = case_of(placeholder("x0", (2, 2)), call("a", "t", Ref("x0")), call("b", "torch.sin", Ref("a")), output=Ref("b"))
    found = traces(eager, case)
    assert found["a"].unit is None
    assert found["b"].args[0].strides == (1, 2) and found["a"].args[0].strides is None


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (torch.tensor([0.75, -3.0, 0.0]), (3.0, -2)),
        (torch.tensor([1.0, math.nan, math.inf]), (1.0, 0)),
        (torch.tensor([96.0], dtype=torch.bfloat16), (96.0, 5)),
        (torch.tensor([2.0**-149]), (2.0**-149, -149)),
        (torch.tensor([0.1], dtype=torch.float64), (0.1, -55)),
        (torch.tensor([5e-324], dtype=torch.float64), (5e-324, -1074)),
        (torch.zeros(2), (0.0, None)),
        (torch.tensor([math.nan]), (None, None)),
        (torch.zeros(0), (None, None)),
        (torch.tensor([7]), (None, None)),
    ],
)
def test_peak_and_grain_bound_the_bits_in_use(tensor: torch.Tensor, expected: tuple[float | None, int | None]) -> None:
    assert magnitude([tensor]) == expected


def test_the_twin_is_the_same_program_in_float64(eager: EagerBackend) -> None:
    case = case_of(
        placeholder("x0", (3,), dtype="bfloat16"),
        placeholder("x1", (3,), dtype="int32"),
        call("a", "torch.div", Ref("x0"), 3),
        call("b", "half", Ref("a")),
        call("c", "torch.div", Ref("x1"), 7),
        call("d", "to", Ref("c"), DType("float16")),
        call("e", "operator.add", Ref("d"), Tensor("float32", (3,), EXACT)),
        Node("f", "call_module", "scale", (Ref("e"),)),
        call("g", "torch.full", (3,), 0.1),
        call("h", "to", Ref("a"), DType("int64")),
        output=[Ref("b"), Ref("f"), Ref("g"), Ref("h")],
        modules={"scale": ModuleRecipe("torch.nn.PReLU", state={"weight": TensorSpec("float32", (1,))})},
        state={"scale.weight": Fill("constant/1", low=2)},
    )
    outcome = run(eager, case, "twin")
    twin = outcome.witness[0].twin
    assert [leaf.dtype for leaf in twin] == ["float64", "float64", "float64", "int64"]
    x1 = case.arguments(0)["x1"].array()
    expected = x1 / 7 + Tensor("float32", (3,), EXACT).array().astype(np.float64)
    assert twin[1].array().tolist() == np.where(expected < 0, 2 * expected, expected).tolist()
    assert twin[2].array().tolist() == [0.1] * 3
    assert torch.get_default_dtype() is torch.float32


def test_there_is_no_twin_of_reinterpreted_bits_nor_of_random_numbers(eager: EagerBackend) -> None:
    bits = case_of(placeholder("x0", (2,)), call("a", "view", Ref("x0"), DType("int32")), output=Ref("a"))
    noise = case_of(placeholder("x0", (2,)), call("a", "torch.rand_like", Ref("x0")), output=Ref("a"))
    for case in (bits, noise):
        outcome = run(eager, case, "twin")
        assert outcome.status is Status.OK and outcome.witness[0].twin is None
    assert run(eager, noise, "spread").witness[0].spread is None


def test_random_numbers_are_the_same_in_every_run(eager: EagerBackend) -> None:
    noise = case_of(placeholder("x0", (2,)), call("a", "torch.rand_like", Ref("x0")), output=Ref("a"), bindings=({}, {}))
    first, second = run(eager, noise, "trace").calls
    assert first == second == run(eager, noise, "twin").calls[0]


def spread_of(eager: EagerBackend, case: Case) -> Any:
    return run(eager, case, "spread").witness[0].spread


def test_spread_shows_cancellation_and_not_exact_results(eager: EagerBackend) -> None:
    case = case_of(
        placeholder("x0", (64,)),
        call("big", "operator.add", Ref("x0"), 1e6),
        call("small", "operator.sub", Ref("big"), 1e6),
        call("sign", "torch.sign", Ref("x0")),
        output={"small": Ref("small"), "same": Ref("x0"), "where": Ref("sign"), "n": 3},
        data={"x0": Fill("ordinary/1", 3, 1, 2)},
    )
    spread = spread_of(eager, case)
    ulp = float(np.spacing(np.float32(1e6)))
    assert spread["small"].dtype == "float64"
    assert 0.9 * ulp < np.median(spread["small"].array()) < 2.1 * ulp and spread["small"].array().max() < 4 * ulp
    assert set(spread["same"].array().tolist()) == {float(np.spacing(np.float32(1)))}
    assert spread["where"].array().max() < 1e-6
    assert spread["n"] == 3


def test_spread_is_deterministic_and_leaves_zeros_and_specials(eager: EagerBackend) -> None:
    case = case_of(placeholder("x0", (4,)), call("a", "torch.exp", Ref("x0")), output=(Ref("x0"), Ref("a")),
                   data={"x0": literal(0.0, math.nan, math.inf, -0.0)})  # fmt: skip
    first = spread_of(eager, case)
    assert first == spread_of(eager, case)
    assert first[0].array().tolist() == [0, 0, 0, 0]
    assert first[1].array()[1:3].tolist() == [0, 0]


def test_spread_keeps_aliases_and_works_in_every_float_dtype(eager: EagerBackend) -> None:
    for dtype in ("float16", "bfloat16", "float64"):
        case = case_of(
            placeholder("x0", (2, 3), dtype=dtype, storage="m"),
            placeholder("x1", (3,), dtype=dtype, storage="m", offset=3),
            call("a", "add_", Ref("x1"), 1),
            call("e", "expand", Ref("x1"), 2, 3),
            output=(Ref("x0"), Ref("e")),
        )
        spread = spread_of(eager, case)
        assert spread[0].array()[1].tolist() == spread[1].array()[0].tolist()
        assert spread[0].array().max() > 0


def test_spread_is_none_where_shapes_follow_values(eager: EagerBackend) -> None:
    case = case_of(
        placeholder("x0", (8,)),
        call("a", "operator.gt", Ref("x0"), 1.0),
        call("b", "operator.getitem", Ref("x0"), Ref("a")),
        output=Ref("b"),
        data={"x0": literal(*[1.0] * 8)},
    )
    assert spread_of(eager, case) is None


def test_fake_tensor_declares_every_output_of_every_call(eager: EagerBackend) -> None:
    outcome = run(eager, SINE, "fake")
    assert outcome.declared == (
        Declared("fake", "['y'][0]", "float32", (2, 2), 0),
        Declared("fake", "['y'][0]", "float32", (0, 2), 1),
    )
    assert outcome.diagnostics == ()
    assert _get_current_dispatch_mode_stack() == []


def test_fake_tensor_may_say_that_data_decides(eager: EagerBackend) -> None:
    case = case_of(placeholder("x0", (4,)), call("a", "torch.nonzero", Ref("x0")), output=Ref("a"))
    outcome = run(eager, case, "fake")
    assert outcome.status is Status.OK and outcome.declared == ()
    assert [(d.severity, d.stage) for d in outcome.diagnostics] == [("note", "fake")]
    item = case_of(placeholder("x0", (1,)), call("a", "item", Ref("x0")), output=Ref("a"))
    assert [d.severity for d in run(eager, item, "fake").diagnostics] == ["note"]


def test_fake_tensor_refusing_what_eager_does_is_a_warning(eager: EagerBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    import harness.backends.eager_fake as module

    def refuse(program: Program, *_: Any, **__: Any) -> Any:
        raise NodeFailed(program.operators[0], RuntimeError("meta kernel is wrong"))

    monkeypatch.setattr(module, "run_program", refuse)
    outcome = run(eager, SINE, "fake")
    assert outcome.status is Status.OK and outcome.declared == ()
    assert [d.severity for d in outcome.diagnostics] == ["warning", "warning"]
    assert "call 0, node sin_0" in outcome.diagnostics[0].message and "meta kernel is wrong" in outcome.diagnostics[0].message


def test_fake_tensor_sees_modules_and_literals_and_changes_no_state(eager: EagerBackend) -> None:
    case = case_of(
        placeholder("x0", (2, 3)),
        Node("a", "call_module", "bn", (Ref("x0"),)),
        call("b", "operator.add", Ref("a"), Tensor("float64", (3,), EXACT)),
        output=Ref("b"),
        modules={"bn": ModuleRecipe("torch.nn.BatchNorm1d", (3,), {"affine": False}, training=True)},
    )
    outcome = run(eager, case, "fake")
    assert outcome.diagnostics == ()
    assert outcome.declared == (Declared("fake", "", "float64", (2, 3), 0),)


def test_state_begins_afresh_in_every_call(eager: EagerBackend) -> None:
    case = case_of(placeholder("b0", (2,), "buffer"), call("a", "add_", Ref("b0"), 1), output=Ref("a"), bindings=({}, {}))
    first, second = run(eager, case).calls
    assert first == second


def gradient_case(mode: str) -> Case:
    return case_of(
        placeholder("x0", (3,), requires_grad=True),
        placeholder("x1", (3,)),
        placeholder("p0", (3,), "parameter", requires_grad=True),
        placeholder("p1", (3,), "parameter", requires_grad=True),
        call("a", "operator.mul", Ref("x0"), Ref("p0")),
        call("b", "operator.mul", Ref("a"), Ref("x1")),
        output=[Ref("b"), 1],
        mode=mode,
        data={"x1": Fill("exact/1", 4)},
        state={"p0": Fill("exact/1", 5)},
    )


def weights(count: int) -> Array:
    return Tensor("float32", (count,), Fill("exact/1", 0, -4, 4)).array()


def test_gradients_are_those_of_a_fixed_weighted_sum(eager: EagerBackend) -> None:
    case = gradient_case("grad")
    arguments = {name: value.array() for name, value in case.arguments(0).items()}
    (result,) = run(eager, case, *EVERYTHING).calls
    grads = result.output["grads"]
    assert set(grads) == {"x0", "p0", "p1"} and grads["p1"] is None
    assert grads["x0"].array().tolist() == (weights(3) * arguments["p0"] * arguments["x1"]).tolist()
    assert result.output["output"][1] == 1 and result.mutated == {}


def test_train_takes_one_step(eager: EagerBackend) -> None:
    case = gradient_case("train")
    (result,) = run(eager, case).calls
    p0 = case.arguments(0)["p0"].array()
    assert result.output["params_after"]["p0"].array().tolist() == (p0 - 0.25 * result.output["grads"]["p0"].array()).tolist()
    assert result.output["params_after"]["p1"].array().tolist() == case.arguments(0)["p1"].array().tolist()


def test_a_refused_backward_is_a_rejection(eager: EagerBackend) -> None:
    case = case_of(
        placeholder("x0", (2,), requires_grad=True),
        call("a", "torch.exp", Ref("x0")),
        call("b", "add_", Ref("a"), 1),
        output=Ref("b"),
        mode="grad",
    )
    outcome = run(eager, case)
    assert outcome.status is Status.REJECTED and "backward" in outcome.message


def test_warnings_of_torch_do_not_stop_a_run(eager: EagerBackend) -> None:
    case = case_of(placeholder("x0", (2, 3, 4)), call("a", "builtins.getattr", Ref("x0"), "T"), output=Ref("a"))
    assert run(eager, case).status is Status.OK


COPIED = [
    SINE,
    ALIASED,
    gradient_case("grad"),
    gradient_case("train"),
    case_of(
        placeholder("x0", (2, 3, 4, 5)),
        placeholder("x1", (5, 4), order=(1, 0)),
        placeholder("x2", (3,), expanded=(0,)),
        placeholder("x3", ()),
        call("a", "torch.matmul", Ref("x0"), Ref("x1")),
        call("b", "operator.mul", Ref("a"), Ref("x3")),
        call("c", "flatten", Ref("b")),
        output=(Ref("c"), Ref("x2"), Ref("x0")),
    ),
    case_of(placeholder("x0", (2, 3)), call("a", "view", Ref("x0"), 6), call("b", "stride", Ref("x0")), output=(Ref("a"), Ref("b"))),
    case_of(placeholder("x0", (4, 4)), call("a", "torch.rand_like", Ref("x0")), output=Ref("a")),
    case_of(
        placeholder("x0", (2, 2), storage="m"), placeholder("x1", (4,), storage="m"), call("a", "add_", Ref("x1"), 1),
        output=(Ref("x0"), Ref("a")), bindings=({}, {}),
    ),
    case_of(
        placeholder("x0", (4, 2), expanded=(0,)), Node("a", "call_module", "bn", (Ref("x0"),)), output=Ref("a"), bindings=({}, {}),
        modules={"bn": ModuleRecipe("torch.nn.BatchNorm1d", (2,), {"affine": False}, training=True)},
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", COPIED)
def test_the_copy_agrees_with_eager_to_the_bit(eager: EagerBackend, case: Case) -> None:
    outcome = EagerCopyBackend().run(case, Job(b"", "eager:copy"), Silent())
    assert outcome.status is Status.OK, outcome.message
    assert outcome.calls == run(eager, case).calls


def test_the_copy_says_so_where_torch_refuses() -> None:
    case = case_of(placeholder("x0", (2, 3)), call("a", "torch.mm", Ref("x0"), Ref("x0")), output=Ref("a"))
    outcome = EagerCopyBackend().run(case, Job(b"", "eager:copy"), Silent())
    assert outcome.status is Status.ERROR and "mat1 and mat2" in outcome.message


@pytest.mark.parametrize(
    ("node", "free"),
    [
        (call("a", "torch.sin", Ref("x0")), True),
        (call("a", "reshape", Ref("x0"), -1), True),
        (call("a", "operator.iadd", Ref("x0"), 1), False),
        (call("a", "operator.index", 1), True),
        (call("a", "aten.add_.Tensor", Ref("x0"), 1), False),
        (call("a", "aten.add.Tensor", Ref("x0"), 1), True),
        (call("a", "aten.view.default", Ref("x0"), [4]), False),
        (call("a", "view_as", Ref("x0"), Ref("x0")), False),
        (call("a", "torch.nn.functional.relu", Ref("x0"), True), False),
        (call("a", "torch.nn.functional.relu", Ref("x0"), inplace=True), False),
        (call("a", "torch.sin", Ref("x0"), out=Ref("x0")), False),
        (call("a", "__add__", Ref("x0"), 1), True),
    ],
)
def test_layouts_are_changed_only_where_the_program_cannot_tell(node: Node, free: bool) -> None:
    assert layout_is_free(case_of(placeholder("x0", (2, 2)), node, output=Ref("a")).program) is free


@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 3), (2, 3, 4), (2, 0, 4), (2, 3, 4, 5), (1, 1, 2, 1, 2)])
@pytest.mark.parametrize("variant", range(3))
def test_a_relaid_tensor_has_the_same_elements_elsewhere(shape: tuple[int, ...], variant: int) -> None:
    item = torch.arange(math.prod(shape)).reshape(shape)
    other = relaid(item, variant)
    assert torch.equal(item, other)
    assert other.data_ptr() != item.data_ptr() or item.numel() == 0
    if item.numel() > 4 and shape[-1] > 1:
        assert other.stride() != item.stride()
    assert relaid(3, variant) == 3
