from __future__ import annotations

from harness.model.story import Change, Ending, FixpointStory, PassStep
from harness.model.verdict import Kind, Severity, Verdict
from harness.reporting.stories import story_data, story_lines

BEFORE = "module {\n  %0 = torch.aten.roll\n  return %0\n}"
AFTER = "module {\n  %0 = torch.aten.cat\n  return %0\n}"
STORY = FixpointStory(
    "raw",
    "fx",
    (0,),
    (
        PassStep("import", "", 0, "a", 2, types={"main": "() -> !torch.vtensor<[2],f32>"}, result=0),
        PassStep("inline", "inline", 1, "a", 2, types={"main": "() -> !torch.vtensor<[2],f32>"}, result=0),
        PassStep(
            "torch-decompose-complex-ops",
            "func.func(torch-decompose-complex-ops)",
            1,
            "b",
            2,
            changed=True,
            added=1,
            removed=1,
            seconds=0.0042,
            types={"main": "() -> !torch.vtensor<[?],f32>"},
            result=1,
            change=Change("torch.aten.roll", "roll_1", "[1]", "[2]", 0),
        ),
        PassStep("canonicalize", "func.func(canonicalize)", 1, "b", 2, types={"main": "() -> !torch.vtensor<[?],f32>"}, result=1),
    ),
    Ending.FIXPOINT,
    1,
)
GUILTY = {
    "pass": "torch-decompose-complex-ops",
    "pipeline": "fx",
    "route": "raw",
    "step": 2,
    "after": "b",
    "op": "torch.aten.roll",
    "node": "roll_1",
    "expected": "[1]",
    "actual": "[2]",
}
VERDICT = Verdict(
    "pipeline",
    Kind.VALUE,
    "torch-mlir:fixpoint",
    Severity.WRONG_VALUE,
    "after torch-decompose-complex-ops in iteration 1 of fx (raw): output: the value differs",
    "torch-decompose-complex-ops",
    detail={"guilty": GUILTY},
)


def test_a_story_says_what_changed_and_where_it_went_wrong() -> None:
    assert list(story_lines(STORY, [VERDICT], {"ir/a": BEFORE, "ir/b": AFTER})) == [
        "fx (raw): 1 iteration, nothing changes any more; the backend contract is met",
        "     import                                                       2 ops",
        "       @main: () -> !torch.vtensor<[2],f32>",
        "  1  torch-decompose-complex-ops                        +1 -1     2 ops  4.2 ms",
        "       @main: () -> !torch.vtensor<[?],f32>",
        "     ! value: output: the value differs",
        "       torch.aten.roll (node roll_1)",
        "         before:      [1]",
        "         after:       [2]",
        "       @@ -1,3 +1,3 @@",
        "        module {",
        "       -  %0 = torch.aten.roll",
        "       +  %0 = torch.aten.cat",
        "          return %0",
        "     (2 passes that changed nothing are left out)",
    ]


def test_every_pass_is_shown_on_demand() -> None:
    lines = list(story_lines(STORY, [], {}, every=True))
    assert [line[5:].split()[0] for line in lines if line[:5].strip().isdigit()] == [
        "inline",
        "torch-decompose-complex-ops",
        "canonicalize",
    ]


def test_a_story_as_data_names_every_pass() -> None:
    data = story_data(STORY)
    assert data["ending"] == "fixpoint"
    steps = data["steps"]
    assert isinstance(steps, list)
    assert [step["pass"] for step in steps] == [step.name for step in STORY.steps]
    assert steps[2]["changed_operation"] == {"op": "torch.aten.roll", "node": "roll_1", "before": "[1]", "after": "[2]", "call": 0}
