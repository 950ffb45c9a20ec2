from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import FormatError, UnknownName
from harness.model import codec
from harness.model.case import Call, Case
from harness.model.codec_grammar import TAGGED
from harness.model.fill import Fill
from harness.model.outcome import Job, Outcome
from harness.model.program import Node, Program, TensorSpec
from harness.model.values import Ref, Tensor
from harness.model.verdict import Verdict
from tests.model import strategies

RECORDS = [Case, Outcome, Verdict, Job]
lenient = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


def small_case() -> Case:
    program = Program(
        (
            Node("x0", "placeholder", "x0", role="input", spec=TensorSpec("float32", (2, 3))),
            Node("relu_0", "call_function", "torch.relu", (Ref("x0"),)),
            Node("output", "output", "output", ((Ref("relu_0"), None),)),
        )
    )
    return Case(program, (Call(data={"x0": Fill("exact/1", 7)}),))


@lenient
@given(strategies.values)
def test_every_value_comes_back_from_json(value: Any) -> None:
    text = json.dumps(codec.value_to_data(value), allow_nan=False)
    assert strategies.same(codec.value_from_data(json.loads(text)), value)


@pytest.mark.parametrize("record", RECORDS, ids=lambda cls: cls.__name__)
def test_every_record_comes_back_from_json_and_from_the_wire(record: type[Any]) -> None:
    @lenient
    @given(strategies.records(record))
    def check(item: Any) -> None:
        text = codec.to_json(item)
        assert strategies.same(codec.from_json(record, text), item)
        assert codec.to_json(codec.from_json(record, codec.to_json(item, indent=1))) == text
        assert strategies.same(codec.from_wire(record, codec.to_wire(item)), item)
        assert codec.to_json(codec.from_wire(record, codec.to_wire(item))) == text

    check()


@pytest.mark.parametrize("bad", [object(), {1, 2}, b"bytes", {(1, 2): 3}, "\ud800", [{"a": "\udfff"}], Ref("\ud801"), [1 << 20_000]])
def test_what_the_grammar_does_not_hold_is_refused_when_written(bad: Any) -> None:
    with pytest.raises(FormatError):
        codec.value_to_data(bad)


@pytest.mark.parametrize("depth", range(90, 106))
def test_whatever_depth_is_written_can_be_read(depth: int) -> None:
    value: Any = 1
    for _ in range(depth):
        value = (value,)
    try:
        data = codec.value_to_data(value)
    except FormatError:
        assert depth >= 100
        return
    assert codec.value_from_data(data) == value


CANONICAL = json.loads(codec.to_json(small_case()))
JSONLIKE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from([10**400, "0x1p99999", "²", "--5", "nan:00", "nan:7ff8000000000000", "s0*", "\ud800", -1, "9" * 5000]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["int", "float", "tuple", "slice", "dict", "complex", "bytes", "ellipsis", *TAGGED]), inner, max_size=2
        )
    ),
    max_leaves=6,
)


def _paths(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = list(data.items()) if isinstance(data, dict) else list(enumerate(data)) if isinstance(data, list) else []
    return [at, *(path for key, item in inner for path in _paths(item, (*at, key)))]


PATHS = [path for path in _paths(CANONICAL) if path]


def _edited(path: tuple[Any, ...], junk: Any) -> Any:
    data = json.loads(json.dumps(CANONICAL))
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = junk
    return data


@settings(lenient, max_examples=200)
@given(st.sampled_from(PATHS), JSONLIKE)
def test_a_case_with_any_part_replaced_is_read_or_refused_with_its_place(path: tuple[Any, ...], junk: Any) -> None:
    data = _edited(path, junk)
    with contextlib.suppress(FormatError):
        _use(codec.from_data(Case, data, where="case.json"))
    try:
        wire = msgspec.msgpack.encode(data)
    except (OverflowError, UnicodeEncodeError):
        return  # msgpack itself cannot hold this
    with contextlib.suppress(FormatError):
        _use(codec.from_wire(Case, wire))


def _use(case: Case) -> None:
    """All that is done to a case from outside; raises nothing but FormatError, and UnknownName for a recipe."""
    assert len(codec.case_id(case)) == 16
    codec.to_wire(case)
    case.validate()
    for index in range(len(case.calls)):
        for value in case.arguments(index).values():
            if isinstance(value, Tensor) and value.storage_elements < 1 << 16:
                with contextlib.suppress(UnknownName):
                    assert value.array().shape == value.shape


@settings(lenient, max_examples=200)
@given(st.binary(max_size=60))
def test_any_bytes_are_no_message_or_a_record(junk: bytes) -> None:
    for read in (lambda: codec.from_wire(Case, junk), lambda: codec.from_json(Case, junk)):
        with pytest.raises(FormatError):
            read()


@settings(lenient, max_examples=200)
@given(st.integers(0, 10_000), st.binary(min_size=1, max_size=4))
def test_a_damaged_message_is_refused_or_read(at: int, patch: bytes) -> None:
    wire = bytearray(codec.to_wire(small_case()))
    at %= len(wire)
    wire[at : at + len(patch)] = patch
    for damaged in (bytes(wire), bytes(wire[:-1])):
        with contextlib.suppress(FormatError):
            assert isinstance(codec.from_wire(Case, damaged), Case)


@pytest.mark.parametrize("levels", [150, 5_000, 200_000])
@pytest.mark.parametrize("opening", [b"[", b'{"tuple":[', b'{"a":'])
def test_deep_nesting_is_refused(levels: int, opening: bytes) -> None:
    with pytest.raises(FormatError):
        codec.from_json(Case, opening * levels)
    closing = {b"[": b"]", b'{"tuple":[': b"]}", b'{"a":': b"}"}[opening]
    with pytest.raises(FormatError):
        codec.from_json(Case, b'{"program":' + opening * levels + b"1" + closing * levels + b"}")
    with pytest.raises(FormatError):
        codec.from_wire(Case, b"\x91" * levels + b"\x01")


def test_text_full_of_brackets_is_no_nesting() -> None:
    verdict = Verdict("status", "crash", "t", 7, "[" * 10_000)  # type: ignore[arg-type]
    plain = codec.from_data(Verdict, {**codec.to_data(verdict)})
    assert codec.from_json(Verdict, codec.to_json(plain)).message == "[" * 10_000


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ({**CANONICAL, "extra": 1}, "case.json"),
        (_edited(("program", "nodes", 1, "surprise"), 1), "case.json.program.nodes[1]"),
        (_edited(("program", "nodes", 0, "spec"), {"spec": {"dtype": "float31", "shape": [1]}}), "case.json.program.nodes[0].spec.spec"),
        (_edited(("calls", 0, "data", "x0"), {"fill": {"recipe": "exact/1", "seed": "7"}}), "case.json.calls[0].data['x0'].fill.seed"),
        (_edited(("program", "nodes", 1, "args"), [{"float": "one"}]), "case.json.program.nodes[1].args[0].float"),
        (_edited(("program", "nodes", 1, "args"), [{"int": "²"}]), "case.json.program.nodes[1].args[0].int"),
        (_edited(("program", "nodes", 1, "args"), [{"eval": "1"}]), "case.json.program.nodes[1].args[0].eval"),
        (_edited(("program", "nodes", 1, "name"), "\ud800"), "case.json.program.nodes[1].name"),
        (_edited(("calls", 0, "binding"), {"s0": True}), "case.json.calls[0].binding['s0']"),
    ],
)
def test_a_refusal_names_the_place(data: Any, place: str) -> None:
    with pytest.raises(FormatError) as caught:
        codec.from_data(Case, data, where="case.json")
    assert caught.value.where == place
    assert str(caught.value).startswith(f"{place}: ")
