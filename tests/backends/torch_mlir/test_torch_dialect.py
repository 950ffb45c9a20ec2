from __future__ import annotations

import struct

import pytest
import torch

from generators.draw import draw_case
from generators.profile import PROFILES
from harness.backends.torch_mlir.backend import toolchain
from harness.backends.torch_mlir.importing import import_case
from harness.backends.torch_mlir.torch_dialect.interpreter import Run, Unexecutable, Uninterpretable, interpret, type_violation
from harness.backends.torch_mlir.torch_dialect.meaning import Meanings
from harness.backends.torch_mlir.torch_dialect.operators import UnknownOperation, operator
from tests.backends.torch_mlir.interpreted import Eager, disagreements, imported_meaning
from tests.backends.torch_mlir.programs import one


def run(body: str, *arguments: torch.Tensor, signature: str, blob: str = "") -> Run:
    """Interpret a function of this body."""
    text = f"module {{ func.func @main{signature} {{\n{body}\n}} }}\n{blob}"
    return interpret(toolchain().parse(text), arguments)


def literal(element: str, text: str, *, shape: str = "[2]", blob: str = "") -> torch.Tensor:
    kind = f"!torch.vtensor<{shape},{element}>"
    dims = "x".join(shape[1:-1].split(",")) + "x" if shape != "[]" else ""
    body = f"%0 = torch.vtensor.literal({text} : tensor<{dims}{element}>) : {kind}\nreturn %0 : {kind}"
    ran = run(body, signature=f"() -> {kind}", blob=blob)
    assert ran.violations == []
    value: torch.Tensor = ran.results[0]
    return value


@pytest.mark.parametrize(
    ("element", "text", "expected"),
    [
        ("f32", "dense<[1.5, -2.0]>", torch.tensor([1.5, -2.0])),
        ("f32", "dense<3.0>", torch.tensor([3.0, 3.0])),
        ("f32", "dense<[0x7FC00000, 0xFF800000]>", torch.tensor([float("nan"), float("-inf")])),
        ("f16", "dense<[1.5, 0x7C00]>", torch.tensor([1.5, float("inf")], dtype=torch.float16)),
        ("bf16", "dense<[1.5, -2.0]>", torch.tensor([1.5, -2.0], dtype=torch.bfloat16)),
        ("bf16", "dense<[0x7F80, 0.0]>", torch.tensor([float("inf"), 0.0], dtype=torch.bfloat16)),
        ("f64", "dense<[1.5, -2.0]>", torch.tensor([1.5, -2.0], dtype=torch.float64)),
        ("si64", "dense<[-1, 9223372036854775807]>", torch.tensor([-1, 2**63 - 1])),
        ("si32", "dense<-7>", torch.tensor([-7, -7], dtype=torch.int32)),
        ("si16", "dense<[-1, 2]>", torch.tensor([-1, 2], dtype=torch.int16)),
        ("si8", "dense<[-128, 2]>", torch.tensor([-128, 2], dtype=torch.int8)),
        ("ui8", "dense<[255, 2]>", torch.tensor([255, 2], dtype=torch.uint8)),
        ("i1", "dense<[true, false]>", torch.tensor([True, False])),
        ("i1", "dense<true>", torch.tensor([True, True])),
        ("complex<f32>", "dense<[(1.0,2.0), (-3.0,0x7F800000)]>", torch.tensor([1 + 2j, complex(-3, float("inf"))])),
        ("complex<f64>", "dense<(1.0,2.0)>", torch.tensor([1 + 2j, 1 + 2j], dtype=torch.complex128)),
    ],
)
def test_literals_of_every_dtype(element: str, text: str, expected: torch.Tensor) -> None:
    torch.testing.assert_close(literal(element, text), expected, rtol=0, atol=0, equal_nan=True)


def test_literals_without_dims_and_without_elements() -> None:
    assert literal("f32", "dense<2.5>", shape="[]").tolist() == 2.5
    assert literal("f32", "dense<>", shape="[0]").shape == (0,)


@pytest.mark.parametrize(
    ("element", "data", "expected"),
    [
        ("f32", struct.pack("<2f", 1.0, 2.5), torch.tensor([1.0, 2.5])),
        ("bf16", b"\x80\x3f\x00\xc0", torch.tensor([1.0, -2.0], dtype=torch.bfloat16)),
        ("si64", struct.pack("<2q", -1, 7), torch.tensor([-1, 7])),
        ("i1", b"\x01\x00", torch.tensor([True, False])),
    ],
)
def test_literals_that_lie_beside_the_module(element: str, data: bytes, expected: torch.Tensor) -> None:
    blob = f'{{-# dialect_resources: {{ builtin: {{ torch_tensor_2: "0x04000000{data.hex()}" }} }} #-}}'
    assert torch.equal(literal(element, "dense_resource<torch_tensor_2>", blob=blob), expected)


def test_many_elements_are_written_in_hexadecimal() -> None:
    values = torch.arange(200, dtype=torch.bfloat16)
    text = f'dense<"0x{values.view(torch.int16).numpy().tobytes().hex()}">'
    assert torch.equal(literal("bf16", text, shape="[200]"), values)


def test_constants_lists_and_numbers() -> None:
    body = """
    %true = torch.constant.bool true
    %int3 = torch.constant.int 3
    %float = torch.constant.float 2.500000e+00
    %none = torch.constant.none
    %str = torch.constant.str "floor"
    %cpu = torch.constant.device "cpu"
    %0 = torch.prim.ListConstruct %int3, %int3 : (!torch.int, !torch.int) -> !torch.list<int>
    %1 = torch.aten.add.int %int3, %int3 : !torch.int, !torch.int -> !torch.int
    %2 = torch.aten.floordiv.int %1, %int3 : !torch.int, !torch.int -> !torch.int
    %3 = torch.aten.full %0, %float, %none, %none, %cpu, %none :
      !torch.list<int>, !torch.float, !torch.none, !torch.none, !torch.Device, !torch.none -> !torch.vtensor<[3,3],f32>
    %4 = torch.aten.div.Scalar_mode %3, %int3, %str : !torch.vtensor<[3,3],f32>, !torch.int, !torch.str -> !torch.vtensor<[3,3],f32>
    %5:2 = torch.prim.ListUnpack %0 : !torch.list<int> -> !torch.int, !torch.int
    %6 = torch.aten.gt.int %2, %5#1 : !torch.int, !torch.int -> !torch.bool
    return %4, %2, %6, %true : !torch.vtensor<[3,3],f32>, !torch.int, !torch.bool, !torch.bool
    """
    ran = run(body, signature="() -> (!torch.vtensor<[3,3],f32>, !torch.int, !torch.bool, !torch.bool)")
    assert torch.equal(ran.results[0], torch.zeros(3, 3))
    assert ran.results[1:] == (2, False, True)


def test_writes_to_tensors_without_value_semantics_leave_the_argument_alone() -> None:
    body = """
    %int1 = torch.constant.int 1
    %0 = torch.copy.to_tensor %arg0 : !torch.tensor<[2],f32>
    %1 = torch.aten.add_.Scalar %0, %int1, %int1 : !torch.tensor<[2],f32>, !torch.int, !torch.int -> !torch.tensor<[2],f32>
    torch.overwrite.tensor.contents %arg0 overwrites %0 : !torch.vtensor<[2],f32>, !torch.tensor<[2],f32>
    %2 = torch.copy.to_vtensor %0 : !torch.vtensor<[2],f32>
    %3 = torch.copy.to_vtensor %1 : !torch.vtensor<[2],f32>
    return %2, %3 : !torch.vtensor<[2],f32>, !torch.vtensor<[2],f32>
    """
    x = torch.tensor([1.0, 2.0])
    ran = run(body, x, signature="(%arg0: !torch.vtensor<[2],f32>) -> (!torch.vtensor<[2],f32>, !torch.vtensor<[2],f32>)")
    assert x.tolist() == [1.0, 2.0]
    assert [result.tolist() for result in ran.results] == [[1.0, 2.0], [1.0, 2.0]]


def test_control_flow_and_calls() -> None:
    text = """
module {
  func.func private @twice(%arg0: !torch.int) -> !torch.int {
    %int2 = torch.constant.int 2
    %0 = torch.aten.mul.int %arg0, %int2 : !torch.int, !torch.int -> !torch.int
    return %0 : !torch.int
  }
  func.func @main(%arg0: !torch.vtensor<[3],f32>) -> !torch.int {
    %true = torch.constant.bool true
    %int0 = torch.constant.int 0
    %int1 = torch.constant.int 1
    %0 = torch.aten.size.int %arg0, %int0 : !torch.vtensor<[3],f32>, !torch.int -> !torch.int
    %1 = torch.prim.Loop %0, %true, init(%int0) {
    ^bb0(%i: !torch.int, %sum: !torch.int):
      %odd = torch.aten.eq.int %i, %int1 : !torch.int, !torch.int -> !torch.bool
      %more = torch.prim.If %odd -> (!torch.int) {
        %big = func.call @twice(%i) : (!torch.int) -> !torch.int
        torch.prim.If.yield %big : !torch.int
      } else {
        torch.prim.If.yield %i : !torch.int
      }
      %next = torch.aten.add.int %sum, %more : !torch.int, !torch.int -> !torch.int
      torch.prim.Loop.condition %true, iter(%next : !torch.int)
    } : (!torch.int, !torch.bool, !torch.int) -> !torch.int
    return %1 : !torch.int
  }
}
"""
    assert interpret(toolchain().parse(text), [torch.zeros(3)]).results == (0 + 2 + 2,)


@pytest.mark.parametrize(
    ("declared", "actual"),
    [
        ("!torch.vtensor<[2,3],f32>", None),
        ("!torch.vtensor<[2,?],f32>", None),
        ("!torch.vtensor<*,f32>", None),
        ("!torch.vtensor", None),
        ("!torch.tensor<[2,3],unk>", None),
        ("!torch.int", None),
        ("!torch.vtensor<[3,2],f32>", "[2,3],float32"),
        ("!torch.vtensor<[2],f32>", "[2,3],float32"),
        ("!torch.vtensor<[],f32>", "[2,3],float32"),
        ("!torch.vtensor<[2,3],si64>", "[2,3],float32"),
        ("!torch.vtensor<*,i1>", "[2,3],float32"),
    ],
)
def test_declared_types_are_held_against_the_tensor(declared: str, actual: str | None) -> None:
    assert type_violation(declared, torch.zeros(2, 3)) == actual


def test_a_wrong_declared_type_is_told_with_its_operation() -> None:
    body = """
    %0 = torch.aten.relu %arg0 : !torch.vtensor<[2],f32> -> !torch.vtensor<[3],f32>
    return %0 : !torch.vtensor<[3],f32>
    """
    (violation,) = run(body, torch.zeros(2), signature="(%arg0: !torch.vtensor<[2],f32>) -> !torch.vtensor<[3],f32>").violations
    assert (violation.op, violation.declared, violation.actual) == ("torch.aten.relu", "!torch.vtensor<[3],f32>", "[2],float32")


def test_what_is_not_run_and_what_eager_refuses_are_named() -> None:
    signature = "(%arg0: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32>"
    unknown = """
    %0 = torch.operator "torch.aten.no_such_thing"(%arg0) : (!torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32>
    return %0 : !torch.vtensor<[2],f32>
    """
    with pytest.raises(Uninterpretable, match=r"torch\.aten\.no_such_thing"):
        run(unknown, torch.zeros(2), signature=signature)
    refused = """
    %0 = torch.aten.mm %arg0, %arg0 : !torch.vtensor<[2],f32>, !torch.vtensor<[2],f32> -> !torch.vtensor<[2],f32>
    return %0 : !torch.vtensor<[2],f32>
    """
    with pytest.raises(Unexecutable, match=r"torch\.aten\.mm: RuntimeError") as caught:
        run(refused, torch.zeros(2), signature=signature)
    assert caught.value.op == "torch.aten.mm"


EMPTY = """
    %none = torch.constant.none
    %int0 = torch.constant.int 0
    %0 = torch.aten.empty_like %arg0, %none, %none, %none, %none, %none :
      !torch.vtensor<[2],f32>, !torch.none, !torch.none, !torch.none, !torch.none, !torch.none -> !torch.vtensor<[2],f32>
"""


def test_values_that_nobody_promises_are_told_from_those_that_do_not_depend_on_them() -> None:
    signature = "(%arg0: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32>"
    open_ = run(EMPTY + "return %0 : !torch.vtensor<[2],f32>", torch.zeros(2), signature=signature)
    assert open_.undetermined == "torch.aten.empty_like"
    filled = EMPTY + (
        "%1 = torch.aten.fill.Scalar %0, %int0 : !torch.vtensor<[2],f32>, !torch.int -> !torch.vtensor<[2],f32>\n"
        "return %1 : !torch.vtensor<[2],f32>"
    )
    ran = run(filled, torch.zeros(2), signature=signature)
    assert (ran.undetermined, ran.results[0].tolist()) == ("", [0.0, 0.0])


def test_a_list_becomes_a_tensor() -> None:
    body = """
    %int2 = torch.constant.int 2
    %none = torch.constant.none
    %false = torch.constant.bool false
    %0 = torch.prim.ListConstruct %int2, %int2 : (!torch.int, !torch.int) -> !torch.list<int>
    %1 = torch.aten.tensor %0, %none, %none, %false : !torch.list<int>, !torch.none, !torch.none, !torch.bool -> !torch.vtensor<[2],si64>
    return %1 : !torch.vtensor<[2],si64>
    """
    assert run(body, signature="() -> !torch.vtensor<[2],si64>").results[0].tolist() == [2, 2]


def test_operands_that_fit_no_schema_are_our_own_affair() -> None:
    body = """
    %none = torch.constant.none
    %0 = torch.operator "torch.aten.permute"(%arg0, %none) : (!torch.vtensor<[2],f32>, !torch.none) -> !torch.vtensor<[2],f32>
    return %0 : !torch.vtensor<[2],f32>
    """
    with pytest.raises(Uninterpretable, match=r"torch\.aten\.permute: .*Expected a value of type"):
        run(body, torch.zeros(2), signature="(%arg0: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32>")


@pytest.mark.parametrize(("message", "error"), [("unimplemented: this size", Uninterpretable), ("sizes must match", Unexecutable)])
def test_an_assertion_may_be_a_refusal(message: str, error: type[Exception]) -> None:
    body = f"""
    %false = torch.constant.bool false
    torch.runtime.assert %false, "{message}"
    return %false : !torch.bool
    """
    with pytest.raises(error):
        run(body, signature="() -> !torch.bool")


def test_a_view_needs_no_strides() -> None:
    body = """
    %int6 = torch.constant.int 6
    %int0 = torch.constant.int 0
    %int1 = torch.constant.int 1
    %0 = torch.aten.transpose.int %arg0, %int0, %int1 : !torch.vtensor<[2,3],f32>, !torch.int, !torch.int -> !torch.vtensor<[3,2],f32>
    %1 = torch.prim.ListConstruct %int6 : (!torch.int) -> !torch.list<int>
    %2 = torch.aten.view %0, %1 : !torch.vtensor<[3,2],f32>, !torch.list<int> -> !torch.vtensor<[6],f32>
    return %2 : !torch.vtensor<[6],f32>
    """
    ran = run(body, torch.arange(6.0).view(2, 3), signature="(%arg0: !torch.vtensor<[2,3],f32>) -> !torch.vtensor<[6],f32>")
    assert ran.results[0].tolist() == [0, 3, 1, 4, 2, 5]


def test_a_number_counts_for_less_than_a_tensor() -> None:
    """FxImporter writes Python's numbers as tensors, yet declares what PyTorch makes of numbers."""
    body = """
    %float = torch.constant.float -1.250000e+00
    %0 = torch.prim.NumToTensor.Scalar %float : !torch.float -> !torch.vtensor<[],f32>
    %1 = torch.aten.mul.Tensor %arg0, %0 : !torch.vtensor<[],f16>, !torch.vtensor<[],f32> -> !torch.vtensor<[],f16>
    return %1 : !torch.vtensor<[],f16>
    """
    ran = run(body, torch.tensor(2.0, dtype=torch.float16), signature="(%arg0: !torch.vtensor<[],f16>) -> !torch.vtensor<[],f16>")
    assert ran.violations == []
    assert ran.results[0].item() == -2.5


@pytest.mark.parametrize("name", ["torch.aten.add.Tensor", "torch.valsem.aten.bernoulli.float", "torch.prims.convert_element_type"])
def test_operators_are_found_by_the_dialects_names(name: str) -> None:
    assert callable(operator(name))


@pytest.mark.parametrize("name", ["torch.aten.no_such", "torch.aten.add.NoSuch", "torch.hop_flex_attention", "arith.constant"])
def test_what_is_no_operator_is_said(name: str) -> None:
    with pytest.raises(UnknownOperation):
        operator(name)


@pytest.mark.parametrize("route", ["raw", "decomposed"])
@pytest.mark.parametrize("index", range(3))
def test_imported_programs_give_what_eager_gives(index: int, route: str, eager: Eager) -> None:
    """The first few of the property that tests/slow holds over many."""
    case, _ = draw_case(PROFILES["default"], 7, index)
    meaning, calls = imported_meaning(case, route)
    assert meaning.interpreted
    assert disagreements(case, meaning, calls, eager(case)) == ()


def test_the_operation_that_changed_is_told() -> None:
    case = one("torch.roll", (2, 3), args=(7, 1))
    imported = import_case(case, toolchain(), route="raw", call=0, dynamic=False)
    meanings = Meanings(case, imported, (0,))
    before = meanings.of(imported.module)
    toolchain().run(imported.module, ("func.func(torch-decompose-complex-ops)",), stage="decompose")
    after = meanings.of(imported.module)
    change = meanings.change(before, after)
    assert change is not None
    assert (change.op, change.node, change.call) == ("torch.aten.roll", "roll_1", 0)
    assert change.expected != change.actual
    assert change.expected.startswith("float32 [2, 3] [")
    assert meanings.change(before, before) is None
