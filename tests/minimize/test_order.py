from __future__ import annotations

import dataclasses
import itertools

import pytest

from harness.minimize.edits import literal_case
from harness.minimize.order import size_key
from harness.model.case import Case
from harness.model.codec import from_json, to_json
from harness.model.fill import Fill
from harness.model.program import TensorSpec
from harness.model.symbols import Sym
from tests.minimize.material import all_drawn, chain


def test_the_order_is_strict_and_total() -> None:
    keys = [size_key(case) for case in all_drawn(60)]
    assert len(set(keys)) == len({to_json(case) for case in all_drawn(60)})
    for first, second in itertools.combinations(keys, 2):
        assert (first < second) + (second < first) + (first == second) == 1
    ranked = sorted(keys)
    assert all(ranked[i] <= ranked[j] for i, j in itertools.combinations(range(len(ranked)), 2))


def test_the_rank_depends_on_nothing_but_the_case() -> None:
    for case in all_drawn(20):
        assert size_key(from_json(Case, to_json(case))) == size_key(case)


def with_arguments(case: Case, *more: object) -> Case:
    nodes = tuple(
        dataclasses.replace(node, args=(*node.args, *more)) if node.op == "call_function" else node for node in case.program.nodes
    )
    return dataclasses.replace(case, program=dataclasses.replace(case.program, nodes=nodes))


def filled(number: int, shape: tuple[int, ...] = (2,)) -> Case:
    return literal_case(chain("torch.sin", shape=shape, fill=Fill("constant/1", low=number)))


@pytest.mark.parametrize(
    ("simpler", "other"),
    [
        (chain("torch.sin", shape=(9, 9)), chain("torch.sin", "torch.sin", shape=(1,))),
        (chain("torch.sin", shape=(9, 9)), chain("torch.sin", shape=(Sym("s0"),), sizes=(1,))),
        (chain("torch.sin", shape=(Sym("s0"),), sizes=(9,)), chain("torch.sin", shape=(Sym("s0"),), sizes=(1, 1))),
        (chain("torch.sin", shape=(9, 9)), chain("torch.sin", dtype="float16", shape=(1,))),
        (
            chain("torch.sin", shape=(9, 9)),
            chain("torch.sin", spec=TensorSpec("float32", (2, 2), order=(1, 0))),
        ),
        (chain("torch.sin", shape=(1,)), chain("torch.sin", shape=())),
        (chain("torch.sin", shape=(1,)), chain("torch.sin", shape=(0,))),
        (chain("torch.sin", shape=(9,)), chain("torch.sin", shape=(3, 3))),
        (chain("torch.sin", shape=(2,)), chain("torch.sin", shape=(3,))),
        (filled(0), filled(1)),
        (filled(1), filled(7)),
        (filled(1), filled(-1)),
        (with_arguments(chain("torch.sum"), 0), with_arguments(chain("torch.sum"), 1)),
        (with_arguments(chain("torch.sum"), 1), with_arguments(chain("torch.sum"), -1)),
        (with_arguments(chain("torch.sum")), with_arguments(chain("torch.sum"), 0)),
        (with_arguments(chain("torch.sum"), False), with_arguments(chain("torch.sum"), True)),
        (with_arguments(chain("torch.sum"), 2.0), with_arguments(chain("torch.sum"), 0.3)),
        (with_arguments(chain("torch.sum"), 2.0), with_arguments(chain("torch.sum"), float("nan"))),
    ],
)
def test_what_a_reader_takes_for_granted_comes_first(simpler: Case, other: Case) -> None:
    assert size_key(simpler) < size_key(other)
