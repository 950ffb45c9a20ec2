from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings

from generators.cases import cases
from generators.catalogue import catalogue
from generators.draw import draw_case
from generators.profile import PROFILES, derive
from generators.spec import OpSpec
from harness.model.case import Case
from harness.model.codec import case_id, from_json, to_json
from harness.model.opnames import canonical, canonical_target, is_in_place
from harness.model.program import ROLES, TensorSpec

SMALL = PROFILES["small"]


def test_there_are_enough_operators_and_layers() -> None:
    assert len({spec.name for spec in catalogue()}) >= 250
    assert len({spelling for spec in catalogue() for spelling in spec.spellings if spelling.startswith("nn.")}) >= 60


def test_every_spelling_is_of_the_operator_that_it_is_declared_for() -> None:
    for spec, spelling in [(op, text) for op in catalogue() for text in op.spellings]:
        if spelling.startswith("nn."):
            name = canonical_target("call_module", "m", f"torch.{spelling}")
        elif spelling.startswith("."):
            name = canonical_target("call_method", spelling[1:])
        else:
            name = canonical_target("call_function", spelling)
        assert name == spec.name or (name == "relu" and spec.name == "relu_")


@pytest.mark.parametrize("spec", catalogue(), ids=lambda spec: spec.key)
def test_every_operator_can_be_drawn_alone(spec: OpSpec) -> None:
    profile = derive(SMALL, ops=[spec.key])
    for index in range(3):
        case, _ = draw_case(profile, 5, index)
        case.validate()
        assert spec.name in {canonical(node, case.program) for node in case.program.operators}


def test_a_profile_of_every_name_draws_nothing_else() -> None:
    profile = derive(SMALL, ops=["conv2d", "relu", "max_pool2d"])
    for index in range(30):
        case, _ = draw_case(profile, 1, index)
        assert {canonical(node, case.program) for node in case.program.operators} <= {"conv2d", "relu", "max_pool2d", "getitem"}


def test_the_default_profile_has_the_wanted_variety() -> None:
    drawn = [draw_case(PROFILES["default"], 1, index)[0] for index in range(400)]
    lanes = Counter(case.lane for case in drawn)
    assert 240 < lanes["exact"] < 320
    assert 50 < lanes["ordinary"] < 115
    assert 20 < lanes["special"] < 65
    counts = sorted(sum(node.target != "operator.getitem" for node in case.program.operators) for case in drawn)
    assert 3 <= sum(counts) / len(counts) <= 6
    assert 0.35 < sum(count <= 3 for count in counts) / len(counts) < 0.7
    symbolic = [case for case in drawn if case.symbols]
    assert 0.15 < len(symbolic) / len(drawn) < 0.4
    assert all(len({tuple(call.binding.items()) for call in case.calls}) >= 2 for case in symbolic)
    specs = [node.spec for case in drawn for node in case.program.placeholders if isinstance(node.spec, TensorSpec)]
    assert {spec.dtype for spec in specs} == set(PROFILES["default"].dtypes)
    assert {len(spec.shape) for spec in specs} == {0, 1, 2, 3, 4, 5}
    assert any(spec.expanded for spec in specs)
    assert any(spec.offset for spec in specs)
    assert any(spec.order == (0, 2, 3, 1) for spec in specs)
    assert any(spec.storage for spec in specs)
    roles = Counter(node.role for case in drawn for node in case.program.placeholders)
    assert set(roles) == set(ROLES)
    names = Counter(canonical(node, case.program) for case in drawn for node in case.program.operators)
    assert len(names) > 200
    assert any(is_in_place(name) for name in names)
    outputs = Counter(type(case.program.output).__name__ for case in drawn)
    assert {"Ref", "tuple", "list", "dict"} <= set(outputs)
    assert any(len(case.calls) > 1 and case.calls[0].binding == case.calls[-1].binding for case in drawn)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(cases())
def test_the_public_strategy_draws_valid_cases(case: Case) -> None:
    case.validate()
    assert case_id(from_json(Case, to_json(case))) == case_id(case)
