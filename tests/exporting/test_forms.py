"""Which forms apply to which entry, and what stands in them; that they run is for tests/slow/test_exports.py."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable

import pytest

from harness.cli import export as verb
from harness.corpus.entry import Entry
from harness.errors import Unsupported, UsageError
from harness.exporting import FORMS, export
from harness.exporting.diagnostics import diagnostics
from harness.exporting.forms import environment_of
from harness.exporting.fresh import fresh
from harness.exporting.issue import MAX_SCRIPT
from harness.exporting.oneflow import without_aliases
from harness.exporting.pieces import pieces
from harness.exporting.proof import shows_bug
from harness.exporting.sentences import lead
from harness.exporting.titles import MAX_TITLE, guilty_node, title_of
from harness.exporting.torch_mlir import pipeline
from harness.exporting.words import circumstances, joined
from harness.model.outcome import Death
from harness.model.verdict import Kind
from harness.reproducers.render import render
from harness.reproducers.run import ReproRun
from harness.reproducers.torch_mlir import inlined
from tests.exporting import entries

Make = Callable[[], Entry]


def code(text: str) -> str:
    """The first Python block of a Markdown text."""
    return text.split("```python\n", 1)[1].split("```", 1)[0]


def test_the_command_offers_every_form() -> None:
    assert verb.FORMS == FORMS


@pytest.mark.parametrize("make", entries.ALL)
def test_an_issue_has_everything_that_it_takes(make: Make) -> None:
    entry = make()
    text = export(entry, "issue").text
    assert text.startswith(f"# {title_of(entry)}\n")
    assert code(text).count("\n") <= MAX_SCRIPT
    ast.parse(code(text))
    assert re.search(r"\d\d:\d\d:\d\d", text) is None
    assert not any(node.name in text.split("###")[0] for node in entry.case.program.operators)
    for heading in ("### To reproduce", "### Expected and actual", "### Versions", "### How it was found"):
        assert heading in text
    assert "seed 7, case 12), minimized from 9 operators to 1. Reproduced in 2 of 3 fresh processes." in text
    assert re.search(r"^- (?:torch: 2\.13\.0|reference: PyTorch 2\.\S+ on Python 3\.\d+)$", text, re.MULTILINE)
    assert re.search(r"^- Python: 3\.\d+$", text, re.MULTILINE)
    assert "`pip install " in text
    assert "harness" not in text
    assert entry.target not in text
    assert text.count("```") % 2 == 0


def test_an_issue_is_scrubbed() -> None:
    entry = entries.unfold()
    assert entry.verdict is not None
    said = 'RuntimeError: File "/home/ada/oneflow/x.cpp" at 0x7fc98bcd5bd0'
    observed = dataclasses.replace(entry.observed, message=said)
    told = dataclasses.replace(entry, observed=observed, verdict=dataclasses.replace(entry.verdict, message=said))
    text = export(told, "issue").text
    assert "/home" not in text
    assert 'File "x.cpp" at 0x...' in text


def test_noise_is_left_out_of_diagnostics() -> None:
    text = export(entries.index_add(), "issue").text
    assert "Check failed: index >= 0" in text
    assert "google::LogMessage" not in text
    assert "### Diagnostics" not in export(entries.repeat(), "issue").text


def test_long_diagnostics_keep_both_ends() -> None:
    entry = entries.unfold()
    observed = dataclasses.replace(entry.observed, message="\n".join(f"line {number}" for number in range(100)))
    text = export(dataclasses.replace(entry, observed=observed), "issue").text
    assert "line 0\n" in text
    assert "line 99\n" in text
    assert "... 75 lines ..." in text


@pytest.mark.parametrize("form", ["script", "issue", "pytest"])
def test_nothing_exported_holds_a_time(form: str) -> None:
    entry = entries.index_add()
    assert entry.verdict is not None
    assert entry.repro is not None
    stamped = "F20261130 22:58:37.802744  1042 shape.cpp:29] Check failed: index >= 0"
    message = f"{entry.target}: the process died by SIGABRT in stage run at index_add_1: {stamped}"
    death = dataclasses.replace(entry.observed.death or Death(), stderr=f"{stamped}\n")
    told = dataclasses.replace(
        entry,
        verdict=dataclasses.replace(entry.verdict, message=message),
        observed=dataclasses.replace(entry.observed, death=death),
    )
    text = export(told, form).text
    assert "shape.cpp:29] Check failed: index >= 0" in text
    assert re.search(r"\d\d:\d\d:\d\d|1042", text) is None


def test_lead_sentences_are_plain_words() -> None:
    assert (
        lead(entries.roll()) == "torch-mlir disagrees with eager PyTorch: 2 of 4 elements differ, the worst at [0, 1]: 0.0 instead of 1.0."
    )
    assert lead(entries.var()) == "torch-mlir disagrees with eager PyTorch: it returns -0.0 instead of NaN."
    assert lead(entries.sort()) == "OneFlow disagrees with eager PyTorch: it returns int32 in output [1] where PyTorch returns int64."
    assert lead(entries.unfold()) == (
        "OneFlow 1.2 raises RuntimeError: attibute size should be > 0, but got 0. PyTorch accepts this and returns float32 [2, 0]."
    )
    assert lead(entries.full_like()).startswith("Lowering to linalg-on-tensors fails with torch-mlir 1.2: 'torch.vtensor.literal' op")
    assert lead(entries.repeat()).startswith("With torch-mlir 1.2 the process dies of SIGFPE in the lowering to linalg. PyTorch accepts")


def test_a_hang_has_one_deadline() -> None:
    text = export(entries.softmin(), "issue").text
    assert len(set(re.findall(r"\b(\d+) s\b", text))) == 1
    assert len(re.findall(r"does not finish within \d+ s", text)) == 3


def test_symbols_of_a_native_stack_are_kept_without_addresses() -> None:
    entry = entries.repeat()
    stderr = (
        "repeat.mlir:3:8: error: cannot tile\nStack dump without symbol names (ensure you have llvm-symbolizer in your PATH):\n"
        " #0 0x00007f1122334455 llvm::sys::PrintStackTrace(llvm::raw_ostream&, int) (/opt/x/libTorchMLIR.so+0x7a)\n"
        " #1 0x00007f1122334466 mlir::torch::foldRepeat(mlir::Operation*) (/opt/x/libTorchMLIR.so+0x99)\n"
        "2  libTorchMLIR.so  0x00007f1122334477 mlir::PassManager::run(mlir::Operation*) + 980\n"
        " #3 0x00007f1122334488 (/opt/x/libTorchMLIR.so+0x11)\n"
    )
    told = dataclasses.replace(entry, observed=dataclasses.replace(entry.observed, death=Death("SIGFPE", stderr=stderr)))
    assert diagnostics(told) == [
        "repeat.mlir:3:8: error: cannot tile",
        "#1 mlir::torch::foldRepeat(mlir::Operation*)",
        "#2 mlir::PassManager::run(mlir::Operation*)",
    ]


def test_warnings_of_python_are_no_diagnostics() -> None:
    entry = entries.repeat()
    stderr = "/x/module.py:17: UserWarning: Implicit dimension choice\n  return self.call()\nreal words\n"
    told = dataclasses.replace(entry, observed=dataclasses.replace(entry.observed, death=Death("SIGFPE", stderr=stderr)))
    assert diagnostics(told) == ["real words"]


def test_what_gave_the_expected_values_is_called_expected() -> None:
    text = export(entries.norm(), "issue").text
    assert "\nexpected = M()(x)\nprint(expected)\n```" in text


def test_aliases_are_replaced_where_they_stand_for_one_name() -> None:
    calls = ["state_weight = a_state_weight", "module = Linear(state_weight=2)", "module.load({'weight': state_weight})"]
    kept = ["module = Linear(state_weight=2)", "module.load({'weight': a_state_weight})"]
    assert without_aliases(calls, "f(state_weight)") == (kept, "f(a_state_weight)")
    again = ["w = a", "w = b", "y = f(w)"]
    assert without_aliases(again, "y") == (again, "y")


@pytest.mark.parametrize(
    ("trigger", "dtype", "words"),
    [
        (("rank:0",), "any", "for a scalar"),
        (
            ("dtype:int64", "dtype:uint8", "empty", "mixed-dtypes", "rank:1"),
            "int64+uint8",
            "for int64 and uint8 and an empty tensor and a 1-D input",
        ),
        (("arg1=int", "arg1=negative", "dim=negative"), "any", "with a negative argument and a negative dim"),
        (
            ("dynamic", "arg2=zero", "keepdim=True", "dtype=uint8"),
            "any",
            "with an argument of 0 and keepdim=True and dtype=uint8 and a symbolic size",
        ),
        (("layout:expanded", "layout:strided"), "any", "for an expanded tensor and a non-contiguous tensor"),
        (("training", "value:nan", "value:negative-zero", "second-call"), "any", "on NaN and -0.0 in training mode and a second call"),
        (("something:else",), "any", ""),
    ],
)
def test_circumstances_are_words_and_not_tags(trigger: tuple[str, ...], dtype: str, words: str) -> None:
    assert joined(circumstances(trigger, dtype)) == words


def test_what_does_not_fit_is_folded_and_stands_there_whole() -> None:
    entry = entries.roll()
    assert entry.repro is not None
    text = export(entry, "issue", shows=lambda script: script == entry.repro).text
    assert code(text).rstrip().endswith('output_type="linalg-on-tensors")')
    assert code(text).count("\n") <= MAX_SCRIPT
    assert f"<summary>repro.py</summary>\n\n```python\n{entry.repro}```" in text


@pytest.mark.parametrize("form", ["script", "issue", "pytest", "e2e"])
def test_nothing_is_exported_that_does_not_show_the_bug(form: str) -> None:
    with pytest.raises(UsageError, match="--no-run"):
        export(entries.roll(), form, shows=lambda script: False)


def with_mlir(entry: Entry) -> Entry:
    artifacts = {"input.mlir": "module {\n}\n", "pipeline": "builtin.module(x)"}
    entry = dataclasses.replace(entry, observed=dataclasses.replace(entry.observed, artifacts=artifacts))
    return dataclasses.replace(entry, repro_mlir=render(entry).mlir)


def test_mlir_goes_with_the_line_that_runs_it() -> None:
    entry = with_mlir(entries.full_like())
    assert export(entry, "mlir").text == entry.repro_mlir
    issue = export(entry, "issue").text
    assert "torch-mlir-opt -pass-pipeline='builtin.module(x)' repro.mlir" in issue
    assert "```mlir\nmodule {\n}\n```" in issue


@pytest.mark.parametrize(
    ("make", "form", "reason"),
    [
        (entries.roll, "mlir", "torch-mlir-opt alone does not show it"),
        (entries.sort, "mlir", "no MLIR"),
        (entries.gelu, "e2e", "suite forgives this difference"),
        (entries.index_add, "e2e", "takes its whole test run along"),
    ],
)
def test_a_form_that_does_not_apply_says_why(make: Make, form: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        export(make(), form)


@pytest.mark.parametrize(
    ("kind", "detail", "reason"),
    [
        (Kind.DECLARED_SHAPE, {}, "compares results only"),
        (Kind.SPECIAL, {"special": "signed-zero"}, "takes -0.0 for 0.0"),
    ],
)
def test_what_the_end_to_end_suite_cannot_see(kind: Kind, detail: dict[str, object], reason: str) -> None:
    entry = entries.roll()
    assert entry.verdict is not None
    changed = dataclasses.replace(entry, verdict=dataclasses.replace(entry.verdict, kind=kind, detail=detail))
    with pytest.raises(UsageError, match=reason):
        export(changed, "e2e")


@pytest.mark.parametrize("form", FORMS)
def test_what_only_fxdiff_can_show(form: str) -> None:
    entry = dataclasses.replace(entries.roll(), repro=None, victim=entries.roll().case)
    with pytest.raises(UsageError, match=f"has no form '{form}'"):
        export(entry, form)


def test_a_script_that_needs_fxdiff_is_a_script_and_an_issue_that_says_so() -> None:
    replaying = next(script.text for script in render(entries.sort()).scripts if not script.bare)
    entry = dataclasses.replace(entries.sort(), repro=replaying)
    assert export(entry, "script").text == replaying
    assert environment_of(entry) == "main"
    text = export(entry, "issue").text
    assert "No script that imports OneFlow alone shows it. Install fxdiff 0.1.0, which runs OneFlow" in text
    assert f"<summary>repro.py</summary>\n\n```python\n{replaying}```" in text
    with pytest.raises(UsageError, match="no script shows"):
        export(entry, "issue", shows=lambda script: False)


def through_fxdiff(entry: Entry) -> Entry:
    return dataclasses.replace(entry, repro=render(entry).scripts[-1].text)


def test_what_kills_a_later_case_has_an_issue_with_both_programs() -> None:
    entry = through_fxdiff(dataclasses.replace(entries.index_add(), victim=entries.norm().case))
    text = export(entry, "issue").text
    assert "It takes two programs in one process" in text
    assert "The later program, which dies of it in the same process" in text
    assert "torch.norm" in text


def test_what_shows_off_the_users_route_says_so() -> None:
    text = export(through_fxdiff(dataclasses.replace(entries.roll(), route="raw")), "issue").text
    assert "and not through `fx.export_and_import`" in text


def test_a_target_of_somebody_elses_has_an_issue() -> None:
    import tests.doubles.wrong  # noqa: F401 - registers it
    from tests.doubles.entries import entry as wrong

    text = export(through_fxdiff(wrong("a", "wrong:value")), "issue").text
    assert "No script that imports wrong:value alone shows it." in text
    assert "register(TARGET)" in text


def test_what_shows_only_off_the_users_route_is_not_for_the_suite() -> None:
    with pytest.raises(UsageError, match="users' route"):
        export(dataclasses.replace(entries.roll(), route="raw"), "e2e")


def test_where_only_mlir_shows_it_the_issue_is_made_of_mlir() -> None:
    entry = dataclasses.replace(with_mlir(entries.full_like()), repro=None)
    issue = export(entry, "issue").text
    assert "### To reproduce\n\n`torch-mlir-opt` alone shows it" in issue
    assert "```mlir\nmodule {\n}\n```" in issue
    assert "torch.full_like" in code(issue)


@pytest.mark.parametrize("form", ["script", "issue", "pytest", "e2e"])
def test_a_script_changed_by_hand_is_neither_run_nor_exported(form: str) -> None:
    entry = dataclasses.replace(entries.roll(), repro="print('HARM')\n")
    ran: list[str] = []

    def shows(script: str) -> bool:
        ran.append(script)
        return True

    assert "HARM" not in export(entry, form, shows=shows).text
    assert ran
    assert not any("HARM" in script for script in ran)
    assert fresh(entry).differing == ("repro.py",)
    assert fresh(entries.roll()).differing == ()


def test_parts_that_are_not_there_are_named() -> None:
    with pytest.raises(Unsupported, match="not Python"):
        pieces("def (")
    with pytest.raises(Unsupported, match="changed by hand"):
        pieces("x = 1\n").source("lower")


def test_titles_are_made_of_the_signature() -> None:
    assert title_of(entries.roll()) == "roll: wrong result with negative shifts"
    assert title_of(entries.repeat()) == "repeat: process dies of SIGFPE in the lowering to linalg for an empty tensor"
    assert title_of(entries.var()) == "var: returns -0.0 instead of NaN"
    assert title_of(entries.unfold()) == "unfold: raises RuntimeError"
    assert title_of(entries.full_like()) == "full_like: invalid IR in the lowering to linalg"
    assert title_of(entries.index_add()) == "index_add: process aborts (SIGABRT)"
    assert title_of(entries.softmin()) == "softmin: lowering to linalg hangs for a scalar"
    assert title_of(entries.sort()) == "sort: returns int32 instead of int64 in output [1]"
    entry = entries.roll()
    bare = dataclasses.replace(entry.signature, operator="identity")
    assert title_of(dataclasses.replace(entry, signature=bare)).startswith("roll: ")
    many = dataclasses.replace(entry.signature, trigger=tuple(f"arg{number}=negative" for number in range(40)))
    assert len(title_of(dataclasses.replace(entry, signature=many))) <= MAX_TITLE
    assert guilty_node(entry) == "roll_1"


def test_the_pipeline_is_the_whole_one_in_long_lines() -> None:
    match = re.search(r'LINALG_TO_LLVM = """(.*?)"""', inlined("torch_mlir_runtime.py"), re.DOTALL)
    assert match is not None
    assert re.sub(r"\s", "", pipeline()) == re.sub(r"\s", "", match[1])
    assert max(map(len, pipeline().split("\n"))) <= 155


def test_a_pytest_file_holds_the_script_as_it_is() -> None:
    entry = entries.index_add()
    text = export(entry, "pytest").text
    tree = ast.parse(text)
    (script,) = (
        each.value.value
        for each in tree.body
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant) and isinstance(each.value.value, str)
    )
    assert script.lstrip() == entry.repro
    assert "ONEFLOW_PYTHON" in text
    assert "ONEFLOW_PYTHON" not in export(entries.repeat(), "pytest").text


@pytest.mark.parametrize(
    ("kind", "code", "output", "shown"),
    [
        (Kind.VALUE, 1, "BUG: they differ", True),
        (Kind.VALUE, 1, "Traceback\nAssertionError: 1", True),
        (Kind.VALUE, 1, "Traceback\nModuleNotFoundError: no torch", False),
        (Kind.VALUE, 0, "fixed", False),
        (Kind.ERROR, 1, "Traceback (most recent call last):\nRuntimeError: no", True),
        (Kind.ERROR, 1, "Traceback (most recent call last):\nNameError: x", False),
        (Kind.CRASH, -11, "", True),
        (Kind.CRASH, 1, "Traceback (most recent call last):\nRuntimeError: no", False),
        (Kind.TIMEOUT, None, "", True),
        (Kind.TIMEOUT, 0, "", False),
        (Kind.OOM, -9, "", True),
    ],
)
def test_a_script_shows_the_bug_and_not_merely_fails(kind: Kind, code: int | None, output: str, shown: bool) -> None:
    verdict = entries.roll().verdict
    assert verdict is not None
    assert shows_bug(dataclasses.replace(verdict, kind=kind), ReproRun(code, output)) is shown
