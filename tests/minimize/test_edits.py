from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from harness.minimize.edits import (
    checked,
    extract,
    is_mutation,
    keep_calls,
    literal_case,
    make_static,
    map_placeholder,
    neutralize,
    plain_names,
    prune,
)
from harness.model.case import Call, Case
from harness.model.dtypes import DTYPES
from harness.model.fill import Fill, Literal
from harness.model.program import Node, Program, TensorSpec
from harness.model.symbols import Sym, Symbol
from harness.model.values import Ref, Tensor, tensor_from_array
from tests.minimize.material import all_drawn, chain, drawn, made_up_traces, values_of


def inputs_of(case: Case) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for index in range(len(case.calls)):
        arguments = case.arguments(index)
        found.append(
            {name: (v.dtype, v.shape, v.array().tobytes()) if isinstance(v, Tensor) else v for name, v in sorted(arguments.items())}
        )
    return found


def test_a_literal_case_is_the_same_case_without_formulas() -> None:
    for case in all_drawn():
        literal = literal_case(case)
        literal.validate()
        assert inputs_of(literal) == inputs_of(case)
        everything = [*literal.state.values(), *(data for call in literal.calls for data in call.data.values())]
        assert all(isinstance(data, Literal) for data in everything)
        for attribute in case.program.modules:
            old, new = case.module_state(attribute), literal.module_state(attribute)
            assert {name: tensor.array().tobytes() for name, tensor in new.items()} == {
                name: tensor.array().tobytes() for name, tensor in old.items()
            }
        assert literal_case(literal) == literal


def test_pruning_a_whole_program_takes_away_only_what_nobody_reads() -> None:
    for case in all_drawn():
        pruned = prune(case, case.program.nodes)
        pruned.validate()
        assert prune(pruned, pruned.program.nodes) == pruned
        users = pruned.program.users()
        unread = [node for node in pruned.program.nodes[:-1] if not users[node.name]]
        assert all(is_mutation(node) for node in unread), unread
        assert set(pruned.state) <= set(case.state)


def test_pruning_keeps_a_write_to_what_is_read_and_drops_one_to_what_is_not() -> None:
    def program(output: str) -> Case:
        nodes = (
            Node("x0", "placeholder", "x0", role="input", spec=TensorSpec("float32", (2,))),
            Node("x1", "placeholder", "x1", role="input", spec=TensorSpec("float32", (2,))),
            Node("write", "call_method", "add_", (Ref("x0"), 1)),
            Node("output", "output", "output", (Ref(output),)),
        )
        return Case(Program(nodes), (Call(data={"x0": Fill("exact/1"), "x1": Fill("exact/1")}),))

    kept = program("x0")
    assert [node.name for node in prune(kept, kept.program.nodes).program.nodes] == ["x0", "write", "output"]
    dropped = program("x1")
    pruned = prune(dropped, dropped.program.nodes)
    assert [node.name for node in pruned.program.nodes] == ["x1", "output"]
    assert set(pruned.calls[0].data) == {"x1"}


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("add_", True),
        ("__add__", False),
        ("operator.iadd", True),
        ("operator.invert", False),
        ("operator.index", False),
        ("operator.setitem", True),
        ("operator.getitem", False),
        ("torch.relu_", True),
        ("aten.add_.Tensor", True),
        ("aten.add.Tensor", False),
        ("torch.isnan", False),
    ],
)
def test_a_mutation_is_told_by_its_spelling(target: str, expected: bool) -> None:
    assert is_mutation(Node("n", "call_function", target, (Ref("x"),))) is expected
    assert is_mutation(Node("n", "call_function", target, (Ref("x"),), {"out": Ref("y")}))


def test_an_extracted_node_stands_alone_on_what_it_was_given() -> None:
    for case in all_drawn():
        traces = made_up_traces(case)
        for node in case.program.operators:
            alone = extract(case, [node.name], traces)
            if alone is None:
                continue
            alone.validate()
            (only,) = alone.program.operators
            assert (only.name, only.target) == (node.name, node.target)
            for index, trace in enumerate(traces):
                given = alone.arguments(index)
                for position, value in enumerate(trace[node.name].args):
                    if isinstance(value, Tensor) and isinstance(node.args[position], Ref):
                        actual = given[node.args[position].node]
                        assert isinstance(actual, Tensor)
                        assert actual.array().tobytes() == value.array().tobytes()


def test_what_differs_between_calls_becomes_a_symbol() -> None:
    case = chain("torch.neg", "torch.sin", shape=(Sym("s0"), 2), sizes=(3, 5))
    traces = made_up_traces(case)
    outputs = [tensor_from_array(np.zeros((size + 1, 2), np.float32), "float32") for size in (3, 5)]
    varied = tuple({**trace, "n1": dataclasses.replace(trace["n1"], args=(output,))} for trace, output in zip(traces, outputs, strict=True))
    alone = extract(case, ["n1"], varied)
    assert alone is not None
    spec = alone.program.node("n0").spec
    assert isinstance(spec, TensorSpec)
    assert isinstance(spec.shape[0], Sym) and spec.shape[1] == 2
    assert [spec.concrete_shape(call.binding) for call in alone.calls] == [(4, 2), (6, 2)]
    assert alone.symbols == (Symbol(spec.shape[0].expr, 0, 64),)


def test_a_neutralized_node_is_an_input_of_what_it_gave() -> None:
    case = chain("torch.neg", "torch.sin", "torch.cos")
    traces = made_up_traces(case)
    rest = neutralize(case, ["n1"], traces)
    assert rest is not None
    rest.validate()
    assert [node.target for node in rest.program.operators] == ["torch.cos"]
    assert np.array_equal(values_of(rest, "n1").array(), np.ones((2, 3), np.float32))


def test_a_node_in_a_unit_with_a_mutation_is_not_neutralized() -> None:
    case = chain("torch.neg", "torch.sin")
    shared = tuple(
        {name: dataclasses.replace(step, unit="n0") if name == "n0" else step for name, step in trace.items()}
        for trace in made_up_traces(case)
    )
    assert neutralize(case, ["n0"], shared) is None
    assert neutralize(case, ["n1"], shared) is not None
    assert neutralize(case, ["n1"], ()) is None


def test_static_shapes_keep_every_value() -> None:
    seen = 0
    for index in range(60):
        case = drawn(index, "symbolic")
        for call in range(len(case.calls)):
            one = keep_calls(case, [call])
            static = make_static(one)
            if static is None:
                continue
            seen += 1
            static.validate()
            assert not static.program.symbols() and static.symbols == ()
            tensors = {name: value for name, value in inputs_of(one)[0].items() if not isinstance(value, int)}
            assert inputs_of(static)[0] == tensors
    assert seen > 30


def test_calls_of_one_binding_become_static_together_and_others_do_not() -> None:
    case = chain("torch.sin", shape=(Sym("s0"),), sizes=(3, 3))
    static = make_static(case)
    assert static is not None and len(static.calls) == 2 and static.symbols == ()
    assert make_static(chain("torch.sin", shape=(Sym("s0"),), sizes=(3, 4))) is None


def test_a_placeholder_takes_another_dtype_with_its_numbers() -> None:
    case = literal_case(chain("torch.sin", shape=(3,), fill=Fill("integers/1", low=0, high=1)))
    old = values_of(case).array()
    for dtype in DTYPES:
        changed = map_placeholder(case, "x0", TensorSpec(dtype, (3,)), lambda values, _: values)
        assert changed is not None
        new = values_of(changed)
        assert new.dtype == dtype
        if dtype != "bfloat16":
            assert np.array_equal(new.array().astype(np.complex128), old.astype(np.complex128)), dtype


def test_a_change_that_does_not_fit_is_refused() -> None:
    case = literal_case(chain("torch.sin", shape=(3,)))
    assert map_placeholder(case, "x0", TensorSpec("float32", (2,)), lambda values, _: np.zeros((2, 2))[5]) is None
    shared = TensorSpec("float32", (2,), storage="s")
    nodes = (
        Node("a", "placeholder", "a", role="input", spec=shared),
        Node("b", "placeholder", "b", role="input", spec=dataclasses.replace(shared, offset=1)),
        Node("output", "output", "output", ((Ref("a"), Ref("b")),)),
    )
    views = Case(Program(nodes), (Call(data={"s": Fill("exact/1")}),))
    views.validate()
    assert map_placeholder(views, "a", TensorSpec("float32", (2,)), lambda values, _: values) is None


def test_plain_names_change_names_and_nothing_else() -> None:
    for case in all_drawn():
        plain = plain_names(case)
        plain.validate()
        assert plain_names(plain) == plain
        assert [node.target for node in plain.program.operators] == [node.target for node in case.program.operators]
        for index in range(len(case.calls)):
            old = [v.array().tobytes() for v in case.arguments(index).values() if isinstance(v, Tensor)]
            new = [v.array().tobytes() for v in plain.arguments(index).values() if isinstance(v, Tensor)]
            assert new == old
    renamed = plain_names(chain("torch.neg", "torch.sin", "torch.neg"))
    assert [node.name for node in renamed.program.nodes] == ["x0", "neg_1", "sin_1", "neg_2", "output"]


def test_a_view_that_is_left_alone_on_a_larger_storage_can_still_be_changed() -> None:
    nodes = (
        Node("a", "placeholder", "a", role="input", spec=TensorSpec("float32", (2,), storage="s")),
        Node("output", "output", "output", (Ref("a"),)),
    )
    case = Case(Program(nodes), (Call(data={"s": Literal(np.arange(5, dtype=np.float32).tobytes())}),))
    case.validate()
    changed = map_placeholder(case, "a", TensorSpec("float32", (1,), storage="s"), lambda values, _: values[1:])
    assert changed is not None
    assert values_of(changed, "a").array().tolist() == [1.0]


@pytest.mark.parametrize(
    "spec",
    [
        TensorSpec("float32", (2, 3), order=(1, 0)),
        TensorSpec("float32", (2, 3), expanded=(0,)),
        TensorSpec("float32", (2, 3), strides=(4, 1), offset=2),
        TensorSpec("float32", (0, 3), order=(1, 0)),
    ],
)
def test_a_layout_is_kept_by_a_change_of_values(spec: TensorSpec) -> None:
    case = literal_case(chain("torch.sin", spec=spec))
    changed = map_placeholder(case, "x0", dataclasses.replace(spec, dtype="int64"), lambda values, _: np.full(values.shape, 7.0))
    assert changed is not None
    assert values_of(changed).array().tolist() == np.full(spec.concrete_shape({}), 7).tolist()
    assert map_placeholder(case, "x0", spec, lambda values, _: np.zeros((5, 5))) is None


def test_checked_takes_valid_cases_only() -> None:
    case = chain("torch.sin")
    assert checked(case) is case
    assert checked(None) is None
    assert checked(dataclasses.replace(case, calls=())) is None
