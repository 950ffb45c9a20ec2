from __future__ import annotations

import itertools

import pytest

from harness.corpus import CoarseKey, Signature
from harness.model.verdict import Kind, Severity, Verdict

ROLL = Signature("torch-mlir", Kind.VALUE, "run", "roll", "int64", ("arg1=int", "dtype:int64"))


def test_golden_names_hold_for_ever() -> None:
    assert ROLL.key == "v1|torch-mlir|value|run|roll|int64|arg1=int,dtype:int64"
    assert ROLL.digest == "d55185bc"
    assert ROLL.slug == "torch-mlir-roll-value-int64-d55185bc"


def test_the_order_of_the_trigger_and_its_repetitions_do_not_matter() -> None:
    for trigger in itertools.permutations(("a", "b", "b", "c")):
        assert Signature("oneflow", Kind.DTYPE, "run", "sum", "any", trigger).trigger == ("a", "b", "c")


@pytest.mark.parametrize(
    "other",
    [
        Signature("oneflow", Kind.VALUE, "run", "roll", "int64", ROLL.trigger),
        Signature("torch-mlir", Kind.SPECIAL, "run", "roll", "int64", ROLL.trigger),
        Signature("torch-mlir", Kind.VALUE, "llvm", "roll", "int64", ROLL.trigger),
        Signature("torch-mlir", Kind.VALUE, "run", "flip", "int64", ROLL.trigger),
        Signature("torch-mlir", Kind.VALUE, "run", "roll", "any", ROLL.trigger),
        Signature("torch-mlir", Kind.VALUE, "run", "roll", "int64", ("arg1=int",)),
    ],
)
def test_every_part_counts(other: Signature) -> None:
    assert other.digest != ROLL.digest


def test_separators_inside_parts_do_not_make_two_bugs_one() -> None:
    joined = Signature("t", Kind.ERROR, "a|b", "c", "any", ("x,y",))
    apart = Signature("t", Kind.ERROR, "a", "b|c", "any", ("x", "y"))
    assert joined.key != apart.key


def test_a_slug_is_a_tame_folder_name() -> None:
    slug = Signature("my:target", Kind.CRASH, "run", "../torchvision.nms", "bfloat16+float16", ()).slug
    assert slug.startswith("my-target-torchvision-nms-crash-bfloat16-float16-")
    assert "/" not in slug
    assert "." not in slug


def test_the_coarse_key_speaks_of_no_message() -> None:
    one, two = (Verdict("values", Kind.VALUE, "oneflow:eager", Severity.WRONG_VALUE, text, "run") for text in ("6 differ", "1 differs"))
    assert CoarseKey.of(one) == CoarseKey.of(two)
    assert CoarseKey.of(one).key == "oneflow:eager|values|run|value"
