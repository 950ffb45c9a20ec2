"""OneFlow's forms: the short script of an issue, and a unit test in the manner of python/oneflow/test/modules."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from harness.corpus.entry import Entry
from harness.errors import Unsupported
from harness.exporting.names import camel, one_line, snake
from harness.exporting.pieces import pieces
from harness.model.verdict import Kind, Verdict
from harness.reproducers.check import ERROR_KINDS, PROCESS_KINDS, compared, tolerance_of

FOLDER = "python/oneflow/test/modules"

_LICENSE = '''\
"""
Copyright 2020 The OneFlow Authors. All rights reserved.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
"""
'''


@dataclass(frozen=True, slots=True)
class _Parts:
    """A repro.py's own statements: tensors, calls, the result in dispute as an expression, its dtype and values."""

    tensors: list[str]
    calls: list[str]
    actual: str
    dtype: str
    values: str
    single: bool = False  # nothing but one tensor is returned


def short_script(entry: Entry) -> str:
    """A script that ends in failure while the bug is there; raises Unsupported where only the whole repro.py can show it."""
    verdict = _verdict(entry)
    parts = _parts(entry, verdict)
    check = _checks(verdict, parts)
    body = "\n\n".join("\n".join(block) for block in ([*parts.tensors, *parts.calls], check) if block)
    return f"{_imports(body, 'import oneflow')}\n\n{body}\n"


def unit_test(entry: Entry) -> str:
    """A test for OneFlow's own suite, which needs no PyTorch; raises Unsupported."""
    verdict = _verdict(entry)
    if verdict.kind in PROCESS_KINDS:
        raise Unsupported(f"a unit test that ends in {verdict.kind.value} takes its whole test run along; use --as script or pytest")
    parts = _parts(entry, verdict)
    lines = [*parts.tensors, *parts.calls, *_assertions(verdict, parts)]
    body = re.sub(r"(?<![\w.])oneflow\.(?!_oneflow)", "flow.", "\n".join(lines))
    name = f"{entry.signature.operator}_{verdict.kind.value}_{entry.id}"
    indented = "\n".join(f"        {line}" if line else "" for line in body.split("\n"))
    needed = _imports(body, "import oneflow as flow\nimport oneflow.unittest")
    return f"""\
{_LICENSE}
import unittest

{needed}


# {one_line(verdict.message)}
@flow.unittest.skip_unless_1n1d()
class Test{camel(name)}(flow.unittest.TestCase):
    def test_{snake(name)}(test_case):
{indented}


if __name__ == "__main__":
    unittest.main()
"""


def _verdict(entry: Entry) -> Verdict:
    if entry.verdict is None or entry.repro is None:
        raise Unsupported("there is no reproducer to shorten")
    return entry.verdict


def _parts(entry: Entry, verdict: Verdict) -> _Parts:
    assert entry.repro is not None
    found = pieces(entry.repro)
    calls, result = found.body("compute")
    tensors = found.before("compute")
    calls, result = without_aliases(calls, result)
    items = found.items("expected")
    if verdict.kind in (*ERROR_KINDS, *PROCESS_KINDS):
        return _Parts(tensors, calls, result, "", "", single=len(items) == 1 and isinstance(items[0], ast.Tuple))
    if not items:
        raise Unsupported("repro.py expects no results")
    if verdict.kind is Kind.STRUCTURE:
        if not all(isinstance(item, ast.Tuple) for item in items):
            raise Unsupported("results that are no tensors are for the whole repro.py to compare")
        return _Parts(tensors, calls, result, "", "" if len(items) == 1 else str(len(items)), single=len(items) == 1)
    index = _chosen(entry, verdict, len(items))
    item = items[index]
    if not isinstance(item, ast.Tuple) or len(item.elts) != 2:
        raise Unsupported("the result in dispute is no tensor")
    text = found.source("expected")
    dtype, values = (ast.get_source_segment(text, each) or "" for each in item.elts)
    values = "\n".join(line.strip() if number else line for number, line in enumerate(values.split("\n")))
    tree = ast.parse(result, mode="eval").body
    if isinstance(tree, ast.List) and len(tree.elts) == len(items):
        actual = ast.unparse(tree.elts[index])
    else:
        actual = f"{result}[{index}]" if len(items) > 1 else result
    return _Parts(tensors, calls, actual, dtype, values)


def without_aliases(calls: list[str], result: str) -> tuple[list[str], str]:
    """Statements, and an expression after them, with names that only stand for another name replaced by that one."""
    text = "\n".join([*calls, result])
    tree = ast.parse(text)
    stored = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    aliases = {
        node.targets[0].id: node.value.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Name)
    }
    # Where either name is given again, which value it stands for depends on the place.
    plain = {name: value for name, value in aliases.items() if stored.count(name) == 1 and value not in stored}
    kept = [line for line in calls if not any(line == f"{name} = {value}" for name, value in plain.items())]
    for name, value in plain.items():
        # Keys of a state and keywords have names of their own.
        pattern = re.compile(rf"(?<![\w.'\"]){re.escape(name)}(?![\w'\"]|=[^=])")
        kept, result = [pattern.sub(value, line) for line in kept], pattern.sub(value, result)
    return kept, result


def _chosen(entry: Entry, verdict: Verdict, count: int) -> int:
    """The first result in dispute: where the verdict names a place, that one."""
    call = verdict.call or 0
    if len(entry.reference.calls) > call:
        picked = compared(verdict, entry.reference.calls[call].output)
        if picked and picked[0] < count:
            if verdict.path and len(picked) > 1:
                step = re.match(r"\[(\d+)\]", verdict.path)
                return int(step[1]) if step is not None and int(step[1]) < count else picked[0]
            return picked[0]
    return 0


def _checks(verdict: Verdict, parts: _Parts) -> list[str]:
    if verdict.kind in (*ERROR_KINDS, *PROCESS_KINDS):
        return _waiting(parts)
    if verdict.kind is Kind.STRUCTURE:
        return [f"actual = {parts.actual}", 'print("actual  ", actual)', *_structure(parts, "assert {}, {}")]
    tolerance = tolerance_of(verdict)
    lines = [
        f"actual = {parts.actual}",
        f"expected = {parts.values}  # what eager PyTorch gives",
        'print("actual  ", actual.dtype, tuple(actual.shape), actual.numpy().tolist())',
        f'print("expected", {parts.dtype}, expected.shape, expected.tolist())',
        f"assert actual.dtype == {parts.dtype} and tuple(actual.shape) == expected.shape",
    ]
    if tolerance.signs:
        lines.append("assert (np.signbit(actual.numpy()) == np.signbit(expected)).all()")
    else:
        lines.append(f"np.testing.assert_allclose(actual.numpy(), expected, rtol={tolerance.rtol!r}, atol={tolerance.atol!r})")
    return lines


def _structure(parts: _Parts, check: str) -> list[str]:
    """What holds of a result of the right nesting, and what is expected, in the form that `check` gives it."""
    if parts.single:
        return [check.format("isinstance(actual, oneflow.Tensor)", '"expected: a tensor"')]
    return [check.format(f"len(actual) == {parts.values}", f'"expected: {parts.values} results"')]


def _waiting(parts: _Parts) -> list[str]:
    """Statements that end when the results are computed: OneFlow calls back before that."""
    if parts.single:
        return [f"print({parts.actual}.numpy())"]
    return [
        f"results = {parts.actual}",
        "for result in results if isinstance(results, (tuple, list, oneflow._oneflow_internal.TensorTuple)) else [results]:",
        "    print(result.numpy() if isinstance(result, oneflow.Tensor) else result)",
    ]


def _assertions(verdict: Verdict, parts: _Parts) -> list[str]:
    if verdict.kind in ERROR_KINDS:
        return _waiting(parts)
    if verdict.kind is Kind.STRUCTURE:
        return [f"actual = {parts.actual}", *_structure(parts, "test_case.assertTrue({}, {})")]
    tolerance = tolerance_of(verdict)
    lines = [f"actual = {parts.actual}", f"expected = {parts.values}  # what PyTorch gives"]
    lines += [f"test_case.assertEqual(actual.dtype, {parts.dtype})", "test_case.assertEqual(tuple(actual.shape), expected.shape)"]
    if tolerance.signs:
        lines.append("test_case.assertTrue(np.array_equal(np.signbit(actual.numpy()), np.signbit(expected)))")
        return lines
    close = f"np.allclose(actual.numpy(), expected, {tolerance.rtol!r}, {tolerance.atol!r}, equal_nan=True)"
    return [*lines, f"test_case.assertTrue({close})"]


def _imports(body: str, library: str) -> str:
    lines = []
    mathematics = [name for name in ("inf", "nan") if re.search(rf"(?<![\w.\"]){name}\b", body)]
    if mathematics:
        lines += [f"from math import {', '.join(mathematics)}", ""]
    if re.search(r"\bnp\.", body):
        lines.append("import numpy as np")
    return "\n".join([*lines, library])
