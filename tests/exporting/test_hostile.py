"""Nothing that stands in a case or an entry becomes code in what is rendered from it, whatever texts it holds."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cli.export import export_command
from harness.corpus import Corpus, files
from harness.corpus.entry import Entry, Expectation, Found, read
from harness.errors import FormatError, Unsupported, UsageError
from harness.exporting import FORMS, export
from harness.exporting.fresh import fresh
from harness.model.case import Case
from harness.model.outcome import Death, Diagnostic
from harness.model.program import ModuleRecipe, Node
from harness.model.symbols import Sym
from harness.model.values import Device, DType, Layout, MemoryFormat, Ref
from harness.reproducers.render import render
from harness.reproducers.source import case_source
from harness.torch_bridge.closed import check_closed
from tests.exporting import entries

CALL = "HARM()"
# Ways out of whatever a text is put into: a docstring, a string, a call, a comment, a line, a format, a fence.
PAYLOADS = [
    f'"""\n{CALL}\n"""',
    f'\\"""\n{CALL}\n"""',
    f"'''\n{CALL}\n'''",
    f"'; {CALL} #",
    f'"; {CALL} #',
    f'\\"; {CALL} #',
    f"x\n{CALL}\n",
    f"x\r{CALL}\r",
    f"x\x0c\n{CALL}",
    f"x\u2028{CALL}\u2028",
    f"x)\n{CALL}\n(",
    f"x, {CALL}, *",
    f"{{{CALL}}}",
    CALL,
    f"x.__class__, {CALL}",
    f"```\n\n```python\n{CALL}\n```\n",
    f"x # \\\n{CALL}",
]
texts = st.one_of(st.sampled_from(PAYLOADS), st.tuples(st.text(max_size=6), st.sampled_from(PAYLOADS), st.text(max_size=6)).map("".join))
Change = Callable[[Entry, str], Entry]


def harmless(script: str) -> None:
    """Fail where a script calls what only a payload names."""
    for node in ast.walk(ast.parse(script)):
        assert not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "HARM"), script


def python_blocks(markdown: str) -> list[str]:
    """The fenced blocks of Python of a page, as a reader of CommonMark finds them."""
    blocks: list[str] = []
    fence = ""
    for line in markdown.split("\n"):
        ticks = re.match(r" {0,3}(?:[-*+] )?(`{3,}|~{3,})(.*)", line)
        if not fence and ticks:
            fence, language = ticks[1], ticks[2].strip()
            blocks.append("") if language == "python" else blocks.append("#")
        elif fence and ticks and ticks[1].startswith(fence) and not ticks[2].strip():
            fence = ""
        elif fence and not blocks[-1].startswith("#"):
            blocks[-1] += line + "\n"
    return [block for block in blocks if not block.startswith("#")]


def rendered(entry: Entry) -> None:
    """Render everything that an entry can become; each must be refused with words or be free of the payload's call."""
    try:
        scripts = [script.text for script in render(fresh(entry).entry).scripts]
        scripts.append(case_source(entry.case))
    except (FormatError, Unsupported):
        return
    for form in FORMS:
        try:
            made = export(entry, form)
        except UsageError:
            continue
        scripts += made.scripts
        if form in ("pytest", "e2e"):
            scripts.append(made.text)
        if form == "issue":
            scripts += python_blocks(made.text)
    for script in scripts:
        harmless(script)


def with_node(entry: Entry, change: Callable[[Node], Node]) -> Entry:
    """The entry with its operator changed."""
    program = entry.case.program
    nodes = tuple(change(node) if node.op.startswith("call_") else node for node in program.nodes)
    return dataclasses.replace(entry, case=dataclasses.replace(entry.case, program=dataclasses.replace(program, nodes=nodes)))


def with_verdict(entry: Entry, **changes: object) -> Entry:
    assert entry.verdict is not None
    return dataclasses.replace(entry, verdict=dataclasses.replace(entry.verdict, **changes))  # type: ignore[arg-type]


def with_recipe(entry: Entry, **changes: object) -> Entry:
    """The entry's program calling a module of this recipe."""
    attribute = str(changes.pop("attribute", "m"))
    recipe = ModuleRecipe(**{"cls": "torch.nn.Softshrink", **changes})  # type: ignore[arg-type]
    program = entry.case.program
    nodes = tuple(
        Node(node.name, "call_module", attribute, (Ref("x0"),)) if node.op.startswith("call_") else node for node in program.nodes
    )
    changed = dataclasses.replace(program, nodes=nodes, modules={attribute: recipe})
    return dataclasses.replace(entry, case=dataclasses.replace(entry.case, program=changed))


def renamed(entry: Entry, text: str) -> Entry:
    """The entry's placeholders stand for parameters of hostile names."""
    program = entry.case.program
    nodes = tuple(dataclasses.replace(node, fqn=text, target=text) if node.op == "placeholder" else node for node in program.nodes)
    return dataclasses.replace(entry, case=dataclasses.replace(entry.case, program=dataclasses.replace(program, nodes=nodes)))


CHANGES: dict[str, Change] = {
    "title": lambda entry, text: dataclasses.replace(entry, title=text),
    "notes": lambda entry, text: dataclasses.replace(entry, notes=text),
    "upstream": lambda entry, text: dataclasses.replace(entry, upstream=text),
    "platform": lambda entry, text: dataclasses.replace(entry, expectation=Expectation({"torch": "2"}, text)),
    "versions": lambda entry, text: dataclasses.replace(
        entry, expectation=Expectation({text: "1", "torch": text, "torch-mlir": text}, "x")
    ),
    "found": lambda entry, text: dataclasses.replace(entry, found=Found(text, text, 1, 2, text, text)),
    "operator": lambda entry, text: dataclasses.replace(entry, signature=dataclasses.replace(entry.signature, operator=text)),
    "trigger": lambda entry, text: dataclasses.replace(
        entry, signature=dataclasses.replace(entry.signature, trigger=(f"{text}=zero", text))
    ),
    "stage": lambda entry, text: dataclasses.replace(entry, signature=dataclasses.replace(entry.signature, stage=text)),
    "message": lambda entry, text: with_verdict(entry, message=text),
    "detail": lambda entry, text: with_verdict(
        entry, detail={"tolerance": text, "expected": text, "actual": text, "index": text, "signal": text, "special": text}
    ),
    "path": lambda entry, text: with_verdict(entry, path=text),
    "guilty": lambda entry, text: with_verdict(entry, node=text),
    "said": lambda entry, text: dataclasses.replace(
        entry,
        observed=dataclasses.replace(
            entry.observed,
            message=text,
            node=text,
            stage=text,
            diagnostics=(Diagnostic("error", text, text),),
            death=Death(text, stderr=text),
        ),
    ),
    "pipeline": lambda entry, text: dataclasses.replace(
        entry, observed=dataclasses.replace(entry.observed, artifacts={"input.mlir": text, "pipeline": text})
    ),
    "name": lambda entry, text: with_node(entry, lambda node: dataclasses.replace(node, name=text)),
    "target": lambda entry, text: with_node(entry, lambda node: dataclasses.replace(node, target=text)),
    "method": lambda entry, text: with_node(entry, lambda node: dataclasses.replace(node, op="call_method", target=text)),
    "text": lambda entry, text: with_node(entry, lambda node: dataclasses.replace(node, args=(*node.args, text, [text], {text: text}))),
    "subscript": lambda entry, text: with_node(
        entry, lambda node: dataclasses.replace(node, target="operator.getitem", args=(node.args[0], text))
    ),
    "attribute": lambda entry, text: with_node(
        entry, lambda node: dataclasses.replace(node, target="builtins.getattr", args=(node.args[0], text))
    ),
    "keyword": lambda entry, text: with_node(entry, lambda node: dataclasses.replace(node, kwargs={text: 1})),
    "size": lambda entry, text: with_node(entry, lambda node: dataclasses.replace(node, args=(*node.args, Sym(text)))),
    "fqn": renamed,
    "class": lambda entry, text: with_recipe(entry, cls=text),
    "recipe": lambda entry, text: with_recipe(entry, args=(text,), kwargs={text: text}),
    "module": lambda entry, text: with_recipe(entry, attribute=text),
    **{
        cls.__name__: lambda entry, text, cls=cls: with_node(  # type: ignore[misc]
            entry, lambda node: dataclasses.replace(node, args=(*node.args, cls(text)))
        )
        for cls in (DType, Device, Layout, MemoryFormat)
    },
}
MADE = {make.__name__: make() for make in (entries.roll, entries.repeat, entries.sort, entries.index_add)}


@pytest.mark.parametrize("place", CHANGES)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_no_text_becomes_code(place: str, data: st.DataObject) -> None:
    entry = MADE[data.draw(st.sampled_from(sorted(MADE)))]
    rendered(CHANGES[place](entry, data.draw(texts)))


@pytest.mark.parametrize("place", CHANGES)
def test_every_way_out_is_shut(place: str) -> None:
    made = list(MADE.values())
    for number, payload in enumerate(PAYLOADS):
        rendered(CHANGES[place](made[number % len(made)], payload))


def test_what_is_looked_for_is_found_where_it_is_there() -> None:
    with pytest.raises(AssertionError):
        harmless(f"x = 1\n{CALL}\n")


@pytest.mark.parametrize(
    ("op", "name", "args"),
    [
        ("call_function", "builtins.exec", ("HARM()",)),
        ("call_function", "os.system", ("true",)),
        ("call_function", "torch.load", ("x.pt",)),
        ("call_function", "torch.ops.load_library", ("x.so",)),
        ("call_function", "torch.hub.load", ("x", "y")),
        ("call_function", "subprocess.run", (["true"],)),
        ("call_function", "sys.exit", (0,)),
        ("call_function", "builtins.getattr", (Ref("x0"), "__class__")),
        ("call_method", "apply_", (Ref("x0"), "x")),
        ("call_method", "tofile", (Ref("x0"), "/tmp/x")),
        ("call_method", "__reduce__", (Ref("x0"),)),
        ("call_module", "m", (Ref("x0"),)),
    ],
)
def test_no_verb_runs_a_script_that_calls_what_workers_would_not(
    op: str, name: str, args: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = entries.roll()
    entry = with_recipe(entry, cls="torch.hub.Evil") if op == "call_module" else entry
    entry = with_node(entry, lambda node: dataclasses.replace(node, op=op, target=name, args=args))
    entry.case.validate()
    with pytest.raises(FormatError):
        check_closed(entry.case)
    path = Corpus(tmp_path).add(entry)
    monkeypatch.setattr("harness.reproducers.run.run_source", lambda *given, **more: pytest.fail("it was run"))
    with pytest.raises(FormatError, match=str(path)):
        CliRunner().invoke(export_command, [str(path), "--as", "script"], standalone_mode=False, catch_exceptions=False)


def test_the_repro_in_a_folder_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be changed without a word: no hash is taken of it."""
    path = Corpus(tmp_path / "corpus").add(entries.roll())
    mark = tmp_path / "mark"
    (path / "repro.py").write_text(f"open({str(mark)!r}, 'w')\nprint('BUG: x')\nraise SystemExit(1)\n")
    ran: list[str] = []

    def run(script: str, **more: object) -> object:
        from harness.reproducers.run import ReproRun

        ran.append(script)
        return ReproRun(1, "BUG: it is there")

    monkeypatch.setattr("harness.reproducers.run.run_source", run)
    for form in ("script", "issue", "pytest", "e2e"):
        result = CliRunner().invoke(export_command, [str(path), "--as", form], standalone_mode=False, catch_exceptions=False)
        assert "repro.py is not what fxdiff makes of case.json" in result.stderr
        assert str(mark) not in result.stdout
    assert ran
    assert not any(str(mark) in script for script in ran)
    assert not mark.exists()


def test_a_case_file_with_a_name_that_is_code_is_refused_when_it_is_read(tmp_path: Path) -> None:
    path = Corpus(tmp_path).add(entries.roll())
    text = (path / "case.json").read_bytes().replace(b'"torch.roll"', b'"torch.roll(x); import os; os.system"')
    with pytest.raises(FormatError, match="is no name"):
        files.unpack_case(text)
    (path / "case.json").write_bytes(text)
    with pytest.raises(FormatError, match="changed since fxdiff wrote it"):
        read(path)


def test_plain_cases_are_closed() -> None:
    for make in entries.ALL:
        check_closed(make().case)
    assert isinstance(entries.roll().case, Case)
