"""Every adapter in the real OneFlow, on ordinary input, against eager PyTorch; and everything it names, in OneFlow itself."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

import numpy as np
import pytest

from harness.backends.oneflow.errors import OneFlowUnsupported
from harness.backends.oneflow.operands import arguments, state_operands
from harness.backends.oneflow.repro import call_tensors, render_call, render_tensor
from harness.backends.oneflow.translate import supported, translate
from harness.backends.oneflow.translate.absent import ABSENT
from harness.backends.oneflow.translate.modules import ABSENT_LAYERS, layers
from harness.environments.oneflow_env import oneflow_python
from harness.model.case import Case
from harness.model.dtypes import is_float, widen
from harness.model.opnames import canonical_target
from harness.model.outcome import NodeResult, NodeTrace, Outcome, Status
from harness.model.program import Node
from harness.model.values import Tensor, Value, leaves
from tests.backends.oneflow.running import case_of, job, needs_oneflow, reference, workers
from tests.backends.oneflow.table import ROWS, Row

pytestmark = needs_oneflow

# What OneFlow 0.9.0 does otherwise, each looked into by hand: by target, and by the part of the description that says it.
REVIEWED = {
    ("copy_", "structure"): "Tensor.copy_ returns None",
    ("torch.where", "dtype"): "a Python number makes the result float64",
    ("torch.sort", "dtype"): "indices are int32",
    ("torch.argsort", "dtype"): "indices are int32",
    ("torch.var", "error"): "IndexError over more than one dim, which std takes",
    ("torch.matmul", "crash"): "a batch of matrices times a vector fails a CHECK",
    ("torch.nn.functional.dropout1d", "error"): "every p is refused as outside 0 to 1",
    ("torch.nn.functional.dropout3d", "error"): "every p is refused as outside 0 to 1",
    ("torch.nn.functional.dropout2d", "error"): "every p is refused as outside 0 to 1",
    ("torch.nn.Dropout1d", "error"): "every p is refused as outside 0 to 1",
    ("torch.nn.Dropout2d", "error"): "every p is refused as outside 0 to 1",
    ("torch.nn.Dropout3d", "error"): "every p is refused as outside 0 to 1",
    ("torch.nn.RMSNorm", "no-cpu-kernel"): "no kernel on CPU",
    ("torch.nn.Conv2d", "signature"): "only zeros are padded",
    ("torch.quantile", "signature"): "no quantile over all elements",
    ("torch.quantile", "refused"): "only linear interpolation",
}
CHUNK = 40


@dataclass(frozen=True)
class Observed:
    """One row as eager and OneFlow did it, and the case and node that say it."""

    case: Case
    node: Node
    trace: NodeTrace
    result: NodeResult | None


@pytest.fixture(scope="module")
def observed() -> list[Observed]:
    found: list[Observed | None] = [None] * len(ROWS)
    with workers() as pool:
        worker = pool.worker("oneflow:lockstep")
        deadly = {name for name, said in REVIEWED if said == "crash"}
        rest = [index for index, row in enumerate(ROWS) if name_of(row) not in deadly]
        pending = [[index] for index, row in enumerate(ROWS) if name_of(row) in deadly]
        pending += [rest[start : start + CHUNK] for start in range(0, len(rest), CHUNK)]
        while pending:
            part = pending.pop()
            case = case_of([ROWS[index] for index in part])
            eager = reference(case)
            outcome = worker.run(job(case, "oneflow:lockstep", eager))
            if not outcome.nodes and len(part) > 1:  # a death takes the others with it
                pending += [part[: len(part) // 2], part[len(part) // 2 :]]
                continue
            assert outcome.nodes or outcome.status is Status.CRASH, outcome.message
            results = {result.name: result for result in outcome.nodes}
            for trace in eager.witness[0].trace:
                index = part[int(trace.name[1:])]
                found[index] = Observed(case, case.program.node(trace.name), trace, results.get(trace.name))
    return [each for each in found if each is not None]


def name_of(row: Row) -> str:
    return row.recipe.cls if row.recipe is not None else row.target


def disagreement(expected: Value, actual: Value) -> str:
    left, right = list(leaves(expected)), list(leaves(actual))
    if [(path, isinstance(leaf, Tensor)) for path, leaf in left] != [(path, isinstance(leaf, Tensor)) for path, leaf in right]:
        return "structure"
    for (_, a), (_, b) in zip(left, right, strict=True):
        if not isinstance(a, Tensor):
            if a != b:
                return "leaf"
        elif a.dtype != b.dtype:
            return "dtype"
        elif a.shape != b.shape:
            return "shape"
        elif is_float(a.dtype):
            if not np.allclose(widen(a.array(), a.dtype), widen(b.array(), b.dtype), rtol=1e-4, atol=1e-5):
                return "value"
        elif not np.array_equal(a.array(), b.array()):
            return "value"
    return ""


def verdict(seen: Observed) -> str:
    if seen.result is None:
        return "crash"
    if seen.result.status is Status.OK:
        return disagreement(seen.trace.output, seen.result.output)
    if seen.result.status is Status.UNSUPPORTED:
        return seen.result.message.partition(":")[0]
    return str(seen.result.status.value)


def test_ordinary_calls_give_what_pytorch_gives_or_are_reviewed(observed: list[Observed]) -> None:
    assert len(observed) == len(ROWS)
    surprises, seen = [], set()
    for row, each in zip(ROWS, observed, strict=True):
        said = verdict(each)
        if said and (name_of(row), said) not in REVIEWED:
            surprises.append(f"{name_of(row)} {row.args} {row.kwargs}: {said} {each.result.message if each.result else ''}")
        elif said:
            seen.add((name_of(row), said))
    assert not surprises
    assert seen == set(REVIEWED), "a reviewed discrepancy no longer shows"


def test_every_adapter_and_layer_is_called(observed: list[Observed]) -> None:
    called = {canonical_target("call_function" if "." in row.target else "call_method", row.target) for row in ROWS if row.recipe is None}
    unused = supported() - called - {"max_pool1d_with_indices", "max_pool3d_with_indices", "max_unpool3d"}
    assert not unused
    assert set(layers()) == {row.recipe.cls.rpartition(".")[2] for row in ROWS if row.recipe is not None}


ASK = """
import functools, json, sys
import oneflow
paths, operators, classes = json.load(sys.stdin)
def there(path):
    try:
        functools.reduce(getattr, path.split(".")[1:], oneflow)
    except AttributeError:
        return False
    return True
spaces = (oneflow, oneflow.nn.functional, oneflow.linalg, oneflow.Tensor)
plain = lambda name: name[7:] if name.startswith("linalg_") else name
print(json.dumps([
    [path for path in paths if not there(path)],
    [name for name in operators if any(hasattr(space, plain(name)) for space in spaces)],
    [name for name in classes if hasattr(oneflow.nn, name)],
]))
"""


def ask_oneflow(program: str, question: object) -> object:
    environment = oneflow_python()
    run = subprocess.run(
        [str(environment.python), "-c", program],
        input=json.dumps(question),
        env=environment.child_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return json.loads(run.stdout.splitlines()[-1])


def test_oneflow_has_what_adapters_name_and_lacks_what_is_listed_as_absent(observed: list[Observed]) -> None:
    paths: set[str] = set()
    for each in observed:
        bound = arguments(each.node, each.trace.args, each.trace.kwargs)
        recipe = each.case.program.modules.get(each.node.target) if each.node.op == "call_module" else None
        state = state_operands(each.case.module_state(each.node.target), each.node.target)[0] if recipe else {}
        try:
            plan = translate(each.node, bound.args, bound.kwargs, recipe=recipe, state=state)
        except OneFlowUnsupported:
            continue
        paths |= {call.path for call in plan.invocations() if call.path.startswith("oneflow.")}
    answer = ask_oneflow(ASK, [sorted(paths), sorted(ABSENT), sorted(ABSENT_LAYERS)])
    assert answer == [[], [], []]


RUN = """
import json, sys
import oneflow
answers = []
for source in json.load(sys.stdin):
    scope = {"oneflow": oneflow}
    try:
        exec(source, scope)
    except Exception as error:
        scope["answer"] = repr(error)
    answers.append(scope["answer"])
print(json.dumps(answers))
"""

ANSWER = """
def flat(value):
    if isinstance(value, oneflow.Tensor):
        return [value.detach().numpy().tolist()]
    if isinstance(value, (tuple, list)):
        return [part for item in value for part in flat(item)]
    return [value]
answer = flat(result)
"""


def plain(value: Value) -> list[object]:
    return [widen(leaf.array(), leaf.dtype).tolist() if isinstance(leaf, Tensor) else leaf for _, leaf in leaves(value)]


def test_the_printed_source_gives_what_the_worker_gave(observed: list[Observed]) -> None:
    sources, expected = [], []
    for each in observed:
        if each.result is None or each.result.status is not Status.OK:
            continue
        tensors = [render_tensor(name, source.tensor) for name, source in call_tensors(each.node, each.trace, case=each.case).items()]
        sources.append("\n".join([*tensors, render_call(each.node, each.trace, case=each.case), ANSWER]))
        expected.append(plain(each.result.output))
    assert len(sources) > 450
    answers = ask_oneflow(RUN, sources)
    assert isinstance(answers, list)
    for source, answer, wanted in zip(sources, answers, expected, strict=True):
        assert json.dumps(answer) == json.dumps(wanted), source


def test_a_death_carries_the_name_of_its_node() -> None:
    row = next(row for row in ROWS if name_of(row) == "torch.matmul" and len(row.args[0].shape) == 3)
    with workers() as pool:
        worker = pool.worker("oneflow:lockstep")
        case = case_of([ROWS[0], row, ROWS[1]])
        outcome: Outcome = worker.run(job(case, "oneflow:lockstep", reference(case)))
        assert (outcome.status, outcome.node, outcome.stage) == (Status.CRASH, "n1", "run")
        assert outcome.death is not None
        assert outcome.death.signal == "SIGABRT"
        assert "Check failed" in outcome.death.stderr
        again = case_of([ROWS[0]])
        assert worker.run(job(again, "oneflow:lockstep", reference(again))).status is Status.OK
