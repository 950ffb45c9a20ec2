from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch._dynamo
import torch.fx

from harness.backends.eager import EagerBackend, Silent
from harness.backends.protocol import TargetSpec, load_backend, target
from harness.backends.torch_compile.lookup import backend_named
from harness.errors import TargetUnavailable, UnknownName, Unsupported
from harness.model.case import Call, Case
from harness.model.fill import Fill
from harness.model.outcome import Job, Outcome, Status
from harness.model.program import Node, Program, TensorSpec
from harness.model.symbols import Sym, Symbol
from harness.model.values import Ref
from harness.model.verdict import Kind
from harness.torch_bridge import global_state
from oracles import judge

HERE = "tests.backends.torch_compile.test_torch_compile_targets"


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    before = global_state.take()
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch._dynamo.reset()
    assert global_state.changes(before, global_state.take()) == ()


def program(*operators: tuple[str, tuple[Any, ...]], dims: Any = (3, 2), **spec: Any) -> Program:
    nodes = [Node("x0", "placeholder", "x0", role="input", spec=TensorSpec("float32", dims, **spec))]
    for number, (name, args) in enumerate(operators):
        nodes.append(Node(f"n{number}", "call_function", name, args))
    return Program((*nodes, Node("output", "output", "output", ({"y": Ref(nodes[-1].name), "k": 2},))))


def fixed(*operators: tuple[str, tuple[Any, ...]], mode: str = "fwd", calls: int = 1) -> Case:
    made = program(*operators, requires_grad=mode != "fwd")
    return Case(made, tuple(Call(data={"x0": Fill("exact/1", number)}) for number in range(calls)), mode=mode)


def symbolic(*operators: tuple[str, tuple[Any, ...]], sizes: Sequence[int] = (3, 5, 4)) -> Case:
    calls = tuple(Call({"s0": size}, {"x0": Fill("exact/1", number)}) for number, size in enumerate(sizes))
    return Case(program(*operators, dims=(Sym("s0"), 2)), calls, (Symbol("s0"),))


SIN = ("torch.sin", (Ref("x0"),))
DOUBLE = ("torch.mul", (Ref("x0"), 2.0))


def run(name: str, case: Case, **options: str) -> Outcome:
    spec = target(name)
    return load_backend(spec.entry).run(case, Job(b"", name, options={**spec.options, **options}), Silent())


def verdicts(name: str, case: Case, **options: str) -> set[Kind]:
    reference = EagerBackend().run(case, Job(b"", "eager", ("trace",)), Silent())
    return {verdict.kind for verdict in judge(case, reference, run(name, case, **options))}


RIGHT = ("compile:eager", "compile:aot_eager", "backend:eager", "backend:aot_eager", "jit:trace")


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_backend_is_right_in_every_mode(name: str) -> None:
    for mode in target(name).modes:
        case = fixed(SIN, ("torch.mul", (Ref("n0"), Ref("x0"))), mode=mode, calls=2)
        assert run(name, case).status is Status.OK
        assert verdicts(name, case) == set(), mode


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_backend_is_right_for_every_size(name: str) -> None:
    assert verdicts(name, symbolic(DOUBLE)) == set()


@pytest.mark.parametrize("name", RIGHT)
def test_statistics_that_a_call_wrote_are_put_back_before_the_next(name: str) -> None:
    """Batch norm writes its statistics without counting a version."""
    nodes = (
        Node("x0", "placeholder", "x0", role="input", spec=TensorSpec("float32", (4, 3))),
        Node("b0", "placeholder", "b0", role="buffer", spec=TensorSpec("float32", (3,))),
        Node("b1", "placeholder", "b1", role="buffer", spec=TensorSpec("float32", (3,))),
        Node("n0", "call_function", "torch.nn.functional.batch_norm", (Ref("x0"), Ref("b0"), Ref("b1")), {"training": True}),
        Node("output", "output", "output", (Ref("n0"),)),
    )
    calls = tuple(Call(data={"x0": Fill("exact/1", number)}) for number in range(2))
    case = Case(Program(nodes), calls, state={"b0": Fill("constant/1", low=0), "b1": Fill("constant/1", low=1)})
    assert verdicts(name, case) == set()


def test_sizes_are_counted_as_they_compile() -> None:
    counts = run("compile:eager", symbolic(DOUBLE)).counts
    assert [counts[f"graphs[{index}]"] for index in range(3)] == [1, 1, 0]  # static, then dynamic, then used again
    assert counts["differs-afresh[2]"] == 0
    assert run("compile:eager?dynamic=true", symbolic(DOUBLE)).counts["graphs[1]"] == 0
    assert run("compile:eager?dynamic=false", symbolic(DOUBLE)).counts["graphs[2]"] == 1


# Backends that are wrong on purpose, in one way each.


def plain(module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
    """A backend that returns a plain function."""
    return lambda *args: module.forward(*args)


def negated(module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
    return lambda *args: tuple(-out for out in module.forward(*args))


def frozen_sizes(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """Takes the sizes of the first call for constants, and tells no guard of it."""
    size = next(int(value.shape[0]) for value in inputs if isinstance(value, torch.Tensor))
    return lambda *args: tuple(out * size for out in module.forward(*args))


def leaves_a_default(module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        torch.set_default_dtype(torch.float64)  # Dynamo itself puts back what changes while it compiles
        return module.forward(*args)

    return call


def leaves_a_configuration(module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
    torch._dynamo.config.inline_inbuilt_nn_modules = False
    return module.forward


_CALLS: list[int] = []


def another_answer_each_time(module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
    _CALLS.clear()

    def call(*args: Any) -> Any:
        _CALLS.append(1)
        return tuple(out + 0.0 if len(_CALLS) == 1 else out + 1.0 for out in module.forward(*args))

    return call


def raises(module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
    raise RuntimeError("no kernel for this on purpose")


def detaches(module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
    """An opaque engine: right values, no gradient."""
    return lambda *args: tuple(out.detach() for out in module.forward(*args))


def half_gradient(module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
    return lambda *args: tuple((out + out.detach()) / 2 for out in module.forward(*args))


@pytest.mark.parametrize("route", ["compile", "backend"])
def test_a_plain_callable_works_like_any_other(route: str) -> None:
    assert verdicts(f"{route}:{HERE}:plain", fixed(SIN, mode="grad")) == set()


@pytest.mark.parametrize("route", ["compile", "backend"])
def test_a_wrong_value_is_found(route: str) -> None:
    assert verdicts(f"{route}:{HERE}:negated", fixed(DOUBLE)) == {Kind.VALUE}


@pytest.mark.parametrize("route", ["compile", "backend"])
def test_gradients_are_compared(route: str) -> None:
    assert Kind.VALUE in verdicts(f"{route}:{HERE}:half_gradient", fixed(DOUBLE, mode="grad"))
    assert Kind.STRUCTURE in verdicts(f"{route}:{HERE}:detaches", fixed(DOUBLE, mode="grad"))


@pytest.mark.parametrize("route", ["compile", "backend"])
def test_what_a_backend_raises_is_its_error(route: str) -> None:
    outcome = run(f"{route}:{HERE}:raises", fixed(DOUBLE))
    assert outcome.status is Status.ERROR
    assert outcome.message == "RuntimeError: no kernel for this on purpose"


def test_a_size_taken_for_a_constant_is_a_stale_guard() -> None:
    assert Kind.STALE_GUARD in verdicts(f"compile:{HERE}:frozen_sizes?dynamic=true", symbolic(DOUBLE, sizes=(3, 5)))


@pytest.mark.parametrize("name", ["leaves_a_default", "leaves_a_configuration"])
def test_what_a_backend_leaves_changed_is_found_and_put_back(name: str) -> None:
    assert Kind.STATE in verdicts(f"compile:{HERE}:{name}", fixed(SIN))


def test_another_answer_to_the_same_call_is_found() -> None:
    case = fixed(DOUBLE)
    outcome = run(f"compile:{HERE}:another_answer_each_time", case)
    assert outcome.counts["differs-again"] == 1
    assert Kind.VALUE in verdicts(f"compile:{HERE}:another_answer_each_time", case)


def test_a_break_that_data_asks_for_is_none_of_the_backends() -> None:
    case = fixed(("torch.nonzero", (Ref("x0"),)), ("torch.add", (Ref("n0"), 1)))
    outcome = run("compile:eager", case)
    assert outcome.counts["graph-breaks"] == outcome.counts["graph-breaks-by-data"] > 0
    assert verdicts("compile:eager", case) == set()
    with pytest.raises(Unsupported, match="depend on data"):
        run("backend:aot_eager", case)


def told(case: Case, **counts: int) -> set[Kind]:
    reference = EagerBackend().run(case, Job(b"", "eager", ("trace",)), Silent())
    observed = dataclasses.replace(reference, target="compile:x", witness=(), counts={k.replace("_", "-"): v for k, v in counts.items()})
    return {verdict.kind for verdict in judge(case, reference, observed)}


def test_what_was_counted_is_judged_without_running_anything() -> None:
    case = fixed(SIN, calls=2)
    assert told(case) == set()
    assert told(case, graph_breaks=1) == {Kind.GRAPH_BREAK}
    assert told(case, graph_breaks=1, graph_breaks_by_data=1) == set()
    assert told(case, graphs_again=1) == {Kind.RECOMPILE}
    assert told(case, **{"graphs[0]": 1, "graphs[1]": 1}) == {Kind.RECOMPILE}
    assert told(symbolic(SIN), **{"graphs[0]": 1, "graphs[1]": 1, "graphs[2]": 1}) == set()


def test_any_name_makes_a_target_and_the_worker_says_whether_it_exists() -> None:
    spec = target("compile:somewhere.else:backend")
    assert (spec.family, spec.zygote) == ("backend", "torch-compile")
    with pytest.raises(TargetUnavailable, match="did you mean aot_eager"):
        backend_named("aot_eagr")
    with pytest.raises(TargetUnavailable, match="has no function 'nothing'"):
        backend_named(f"{HERE}:nothing")
    with pytest.raises(TargetUnavailable, match="cannot be imported"):
        backend_named("no_such_module:f")
    with pytest.raises(UnknownName):
        target("compile:")


def test_a_name_that_is_registered_keeps_its_own_specification() -> None:
    assert isinstance(target("compile:inductor"), TargetSpec)
    assert target("compile:inductor").patience > target("compile:eager").patience
