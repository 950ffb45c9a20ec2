"""`fxdiff show`: everything a person needs to understand one finding."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.exit_codes import epilog

if TYPE_CHECKING:
    from harness.cli.locating import Bare
    from harness.corpus.entry import Entry
    from harness.model.program import Node, Program

MAX_SOURCE = 60


@click.command("show", epilog=epilog())
@click.argument("entry", metavar="ENTRY|FINDING|CASE")
@click.option("--corpus", type=click.Path(path_type=Path), default=Path("corpus"), show_default=True, help="Folder to look entries up in.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--no-color", is_flag=True, help="No colour; NO_COLOR does the same.")
def show_command(entry: str, corpus: Path, as_json: bool, no_color: bool) -> int:
    """What disagreed, the program, expected and actual side by side, the node at fault, what it needs, how to run it.

    ENTRY is a folder or a file in it, a name, or the unique beginning of an id, of the corpus or of an earlier run.
    """
    from harness.cli.locating import Bare, locate

    found = locate(entry, corpus)
    if isinstance(found, Bare):
        show_case(found, as_json=as_json, no_color=no_color)
    else:
        show_entry(found, as_json=as_json, no_color=no_color)
    return 0


def show_entry(entry: Entry, *, as_json: bool = False, no_color: bool = False) -> None:
    """Print an entry, for people or as JSON."""
    from rich.markup import escape

    from harness.cli.session import consoles

    if as_json:
        click.echo(json.dumps(entry_data(entry), indent=2))
        return
    out, _ = consoles(no_color=no_color)
    severity = entry.severity.name.lower().replace("_", " ")
    out.print(f"[bold]{escape(entry.slug)}[/]  {entry.status}, {severity}", highlight=False, soft_wrap=True)
    for line in lines(entry):
        out.print(escape(line), highlight=False, soft_wrap=True)


def show_case(bare: Bare, *, as_json: bool = False, no_color: bool = False) -> None:
    """Print a case file as the program that it is."""
    from rich.markup import escape

    from harness.cli.session import consoles
    from harness.model.codec import case_id
    from harness.reproducers.source import case_source

    source = case_source(bare.case)
    if as_json:
        click.echo(json.dumps({"case": case_id(bare.case), "path": str(bare.path), "program": source}, indent=2))
        return
    out, _ = consoles(no_color=no_color)
    text = f"case {case_id(bare.case)}: no verdict is stored with it\n\n{source}\nrun it:    fxdiff replay {bare.path}"
    out.print(escape(text), highlight=False, soft_wrap=True)


def lines(entry: Entry) -> Iterator[str]:
    """The report on an entry below its heading, line by line, without markup."""
    from harness.exporting.sides import beside, did, sides
    from harness.exporting.titles import guilty_node, sentence_of
    from harness.model.parameters import needs
    from harness.reproducers.source import case_source
    from harness.triage import guilt
    from harness.triage.vote import ARTIFACT, in_a_line

    yield sentence_of(entry)
    yield ""
    call = entry.verdict.call or 0 if entry.verdict is not None else 0
    source = case_source(entry.case, call=call).rstrip("\n").split("\n")
    yield from source[:MAX_SOURCE]
    if len(source) > MAX_SOURCE:
        yield f"# and {len(source) - MAX_SOURCE} lines more"
    yield ""
    both = sides(entry)
    heads = ("expected (eager)", f"actual ({entry.target})")
    if did(entry.observed):
        yield f"{heads[0]}: {both.expected[0] if both.expected else 'nothing'}"
        yield from (f"  {line}" for line in both.expected[1:])
        yield f"{heads[1]}: {both.actual[0]}"
    else:
        yield from beside(both.expected, both.actual, heads)
        if both.worst is not None:
            yield f"worst at {list(both.worst)}" + (f" of output {both.place}" if both.place else "")
    yield ""
    node = guilty_node(entry)
    if node:
        yield f"node:      {node} ({_called(entry.case.program.node(node), entry.case.program)})"
    guilty = guilt.of_entry(entry.observed)
    if guilty is not None:
        yield f"guilty:    {guilt.in_a_line(guilty)}"
    vote = entry.observed.artifacts.get(ARTIFACT, "")
    if vote:
        yield f"vote:      {in_a_line(vote)}"
    yield f"needs:     {', '.join(needs(entry.signature.trigger, entry.signature.operator)) or 'nothing special'}"
    yield f"seen:      in {entry.reproduced[0]} of {entry.reproduced[1]} fresh processes" + (f"; {entry.notes}" if entry.notes else "")
    versions = ", ".join(f"{name} {version}" for name, version in sorted(entry.expectation.versions.items()))
    yield f"with:      {versions or 'unknown versions'} on {entry.expectation.platform or 'an unknown platform'}"
    yield f"found:     {_found(entry)}"
    yield f"upstream:  {entry.upstream or 'not reported; see `fxdiff export --as issue`, then `fxdiff corpus link`'}"
    for label, command in commands(entry).items():
        yield f"{label + ':':10} {command}"


def commands(entry: Entry) -> dict[str, str]:
    """How to run an entry, and what to do with it, by purpose."""
    where = str(entry.path) if entry.path is not None else entry.slug
    found = {"run it": f"fxdiff replay {where}"}
    if entry.repro is not None and entry.path is not None:
        found["script"] = f"{entry.path / 'repro.py'}  (exits 1 while the bug exists)"
    if entry.repro_mlir is not None and entry.path is not None:
        found["MLIR"] = f"{entry.path / 'repro.mlir'}  (its first line says how)"
    return found | {"report it": f"fxdiff export {where} --as issue"}


def entry_data(entry: Entry) -> dict[str, object]:
    """An entry as plain data."""
    from harness.exporting.sides import sides
    from harness.exporting.titles import guilty_node, sentence_of
    from harness.model.parameters import needs
    from harness.reproducers.source import case_source
    from harness.triage import guilt

    both = sides(entry)
    return summary_data(entry) | {
        "message": sentence_of(entry),
        "needs": list(needs(entry.signature.trigger, entry.signature.operator)),
        "node": guilty_node(entry),
        "guilty": guilt.data(entry.observed),
        "vote": entry.observed.artifacts.get("vote", "").splitlines(),
        "program": case_source(entry.case, call=entry.verdict.call or 0 if entry.verdict is not None else 0),
        "expected": list(both.expected),
        "actual": list(both.actual),
        "output": both.place,
        "worst": list(both.worst) if both.worst is not None else None,
        "versions": dict(entry.expectation.versions),
        "platform": entry.expectation.platform,
        "found": _found(entry),
        "commands": commands(entry),
    }


def summary_data(entry: Entry) -> dict[str, object]:
    """What a list says of an entry, as plain data."""
    return {
        "entry": entry.slug,
        "id": entry.id,
        "status": entry.status,
        "severity": entry.severity.name.lower(),
        "target": entry.target,
        "kind": entry.signature.kind.value,
        "operator": entry.signature.operator,
        "trigger": list(entry.signature.trigger),
        "title": entry.title,
        "upstream": entry.upstream,
        "reproduced": list(entry.reproduced),
        "path": str(entry.path) if entry.path is not None else "",
    }


def _called(node: Node, program: Program) -> str:
    """What a node calls, as a person would name it."""
    if node.op == "call_module":
        return program.modules[node.target].cls
    return f"torch.Tensor.{node.target}" if node.op == "call_method" else node.target


def _found(entry: Entry) -> str:
    found = entry.found
    origin = "" if found.seed is None else f"profile {found.profile}, seed {found.seed}, case {found.index}"
    nodes = f"minimized from {found.nodes} operators to {len(entry.case.program.operators)}" if found.nodes else ""
    return ", ".join(filter(None, (found.date, origin, nodes, f"fxdiff {found.fxdiff}" if found.fxdiff else ""))) or "by hand"
