from __future__ import annotations

import functools
import math
import sys
import types

import numpy as np
import oneflow
from onefx import Graph
from onefx.proxy import TraceError

from harness.oneflow_fx import global_wrap, print_tabular, symbolic_trace, tabular, wrap
from harness.oneflow_fx.repairs import UnnamedTarget
from tests.oneflow_fx.inside import error_of

X = oneflow.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

wrap("len")


def rows_times(x: oneflow.Tensor) -> oneflow.Tensor:
    return x * len(x)


class Net(oneflow.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = oneflow.nn.Linear(3, 3)
        self.scale = oneflow.nn.Parameter(oneflow.ones(3))
        self.register_buffer("shift", oneflow.ones(3))

    def forward(self, x: oneflow.Tensor) -> oneflow.Tensor:
        y = oneflow.relu(self.linear(x)) * self.scale + self.shift
        return oneflow.ones([2, 3]) + y


def same(first: oneflow.Tensor, second: oneflow.Tensor) -> bool:
    return bool(np.array_equal(first.numpy(), second.numpy(), equal_nan=True))


def check_a_module_is_traced_with_its_state_and_computes_the_same() -> None:
    net = Net()
    traced = symbolic_trace(net)
    assert "linear = self.linear(x)" in traced.code
    assert "scale = self.scale" in traced.code
    assert same(traced(X), net(X))
    assert [node.op for node in traced.graph.nodes].count("call_module") == 1


def check_a_tensor_made_in_forward_becomes_a_constant() -> None:
    traced = symbolic_trace(Net())
    assert "_tensor_constant0 = self._tensor_constant0" in traced.code
    assert same(traced._tensor_constant0, oneflow.ones(2, 3))


def check_buffers_are_values_unless_they_are_asked_for() -> None:
    assert "shift = self.shift" in symbolic_trace(Net(), proxy_buffers=True).code

    class Halves(Net):
        def forward(self, x: oneflow.Tensor) -> oneflow.Tensor:
            return x + self.shift / 2

    taken, asked = symbolic_trace(Halves()), symbolic_trace(Halves(), proxy_buffers=True)
    assert "self.shift" not in taken.code
    assert "self.shift" in asked.code
    assert same(taken(X), asked(X))


def check_functions_that_build_layers_are_recorded_where_they_see_a_proxy() -> None:
    traced = symbolic_trace(lambda x: oneflow.ones(2, x.size(1)) + oneflow.zeros_like(x) + x)
    assert same(traced(X), X + 1)
    assert same(traced(X[:, :2]), X[:, :2] + 1), "the size is read when the module runs"


def check_a_constant_may_stand_on_the_left_of_every_operator() -> None:
    left = oneflow.tensor([[2.0, 2.0, 2.0], [3.0, 3.0, 3.0]])
    for sign in ("+", "-", "*", "/", "//", "%", "**", "@", "==", "!=", "<", "<=", ">", ">="):
        other = X.T if sign == "@" else X
        function = eval(f"lambda x: left {sign} x", {"left": left})
        assert same(symbolic_trace(function)(other), function(other)), sign
    assert same(left + X, X + left), "nothing stays patched"


def check_a_function_wrapped_at_module_level_is_a_leaf() -> None:
    traced = symbolic_trace(rows_times)
    (node,) = [node for node in traced.graph.nodes if node.target is len]
    assert node.op == "call_function"
    assert node.meta["is_wrapped"]
    assert same(traced(X), X * 2)
    assert same(traced(X[:1]), X[:1])


def foreign_module() -> types.ModuleType:
    """Somebody else's package, which has taken a function from a third one."""
    third = types.ModuleType("third")
    exec("def twice(x):\n    return x + x\n", third.__dict__)
    foreign = types.ModuleType("foreign")
    foreign.__dict__["double"] = third.__dict__["twice"]
    exec("def forward(x):\n    return double(x) * len(x)\n", foreign.__dict__)
    sys.modules.update(third=third, foreign=foreign)
    return foreign


def check_global_wrap_reaches_into_other_packages_and_leaves_nothing_behind() -> None:
    foreign = foreign_module()
    try:
        with global_wrap(sys.modules["third"].twice, "len"):
            traced = symbolic_trace(foreign.forward)
        targets = [node.target for node in traced.graph.nodes if node.op == "call_function"]
        assert foreign.double in targets
        assert len in targets
        assert same(traced(X), foreign.forward(X))
        assert foreign.double not in [node.target for node in symbolic_trace(lambda x: foreign.double(x)).graph.nodes]
    finally:
        del sys.modules["third"], sys.modules["foreign"]


def check_global_wrap_refuses_what_is_no_function() -> None:
    for wrong, kind in ((3, TypeError), ("no_such_builtin", NameError), (lambda: 0, NameError)):
        assert error_of(kind, lambda wrong=wrong: global_wrap(wrong))


def check_the_table_has_a_line_for_every_node() -> None:
    graph = symbolic_trace(lambda x: oneflow.topk(x, 2)[0].add(x[:, :2])).graph
    print_tabular(graph)
    lines = tabular(graph).split("\n")
    assert lines[0].split() == ["opcode", "name", "target", "args", "kwargs"]
    assert len(lines) == 2 + len(list(graph.nodes))
    assert lines[-2].startswith("call_method    add")


def check_control_flow_is_refused() -> None:
    assert "control flow" in error_of(TraceError, lambda: symbolic_trace(lambda x: x if x.sum() > 0 else -x))


def check_a_target_that_cannot_be_named_is_named_in_the_error() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    for op, target, said in (
        ("call_function", functools.partial(oneflow.add, X), "functools.partial"),
        ("call_function", oneflow.nn.ReLU(), "ReLU()"),
        ("call_method", 3, "3 is a int"),
    ):
        assert said in error_of(UnnamedTarget, lambda op=op, target=target: graph.create_node(op, target, (x,)))


def check_a_closure_is_called_what_it_calls_itself() -> None:
    def boolean_dispatch() -> object:
        def fn(x: oneflow.Tensor) -> oneflow.Tensor:
            return x

        fn.__name__ = "max_pool2d"
        return fn

    graph = Graph()
    assert graph.call_function(boolean_dispatch(), (graph.placeholder("x"),)).name == "max_pool2d"


def check_one_trace_does_not_spoil_the_next() -> None:
    traced = symbolic_trace(lambda x: oneflow.einsum("ij,ij->i", x, x))
    assert same(traced(X), oneflow.einsum("ij,ij->i", X, X))
    assert same(symbolic_trace(lambda x: math.sqrt(4.0) * x)(X), 2 * X)
