"""Everything that is exported is run: by the torch-mlir and the OneFlow at hand, in clean processes without fxdiff."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from harness.cli.export import prover
from harness.corpus.entry import Entry
from harness.errors import TargetUnavailable
from harness.exporting import export
from harness.exporting.forms import environment_of
from harness.exporting.issue import MAX_SCRIPT
from harness.exporting.proof import shows_bug
from harness.exporting.torch_mlir import short_script
from harness.model.verdict import Kind
from harness.reproducers.run import ReproRun, run_source
from harness.workers.interpreters import interpreter_for
from tests.exporting import entries
from tests.exporting.test_forms import code

Make = Callable[[], Entry]
FLOW = (entries.copy, entries.sort, entries.norm, entries.unfold, entries.index_add)
MLIR = (entries.roll, entries.full_like, entries.repeat, entries.var, entries.gelu, entries.tosa_add, entries.stablehlo_repeat)


def run(entry: Entry, script: str) -> ReproRun:
    try:
        python, env = interpreter_for(environment_of(entry))
    except TargetUnavailable as unavailable:
        pytest.skip(str(unavailable))
    return run_source(script, python=python, env=env, timeout=120)


@pytest.mark.parametrize("make", [*MLIR, *FLOW])
def test_the_script_exits_1(make: Make) -> None:
    entry = make()
    ran = run(entry, export(entry, "script").text)
    assert ran.shows_the_bug, ran.output


@pytest.mark.parametrize("make", [*MLIR, *FLOW])
def test_the_code_of_an_issue_shows_the_bug_by_itself(make: Make) -> None:
    entry = make()
    text = export(entry, "issue").text
    script = code(text)
    assert "<summary>repro.py</summary>" not in text
    assert script.count("\n") <= MAX_SCRIPT
    ran = run(entry, script)
    assert entry.verdict is not None
    assert shows_bug(entry.verdict, ran), ran.output
    if entry.verdict.kind in (Kind.VALUE, Kind.SPECIAL, Kind.DTYPE):
        assert "expected" in ran.output
        assert "AssertionError" in ran.output


def test_what_an_issue_folds_away_shows_the_bug_too() -> None:
    entry = entries.roll()
    text = export(entry, "issue", shows=lambda script: script == entry.repro).text
    folded = text.split("<summary>repro.py</summary>\n\n```python\n", 1)[1].split("\n```", 1)[0]
    assert run(entry, folded).shows_the_bug


@pytest.mark.parametrize("make", [entries.repeat, entries.roll, entries.index_add, entries.norm])
def test_the_pytest_file_is_expected_to_fail_and_does(make: Make, tmp_path: Path) -> None:
    entry = make()
    path = tmp_path / "test_exported.py"
    path.write_text(export(entry, "pytest").text, encoding="utf-8")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if environment_of(entry) == "oneflow":
        try:
            python, flow = interpreter_for("oneflow")
        except TargetUnavailable as unavailable:
            pytest.skip(str(unavailable))
        env |= flow | {"ONEFLOW_PYTHON": os.fspath(python)}
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(path)]
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=200)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 xfailed" in ran.stdout
    fixed = path.read_text(encoding="utf-8").replace("sys.exit(run())", "sys.exit(0)").replace('if "--child" in sys.argv:', "if True:")
    path.write_text(fixed, encoding="utf-8")
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=200)
    assert ran.returncode == 1, ran.stdout
    assert "XPASS(strict)" in ran.stdout


REGISTRY = '''\
"""Stands in for torch-mlir's end-to-end suite, which is not in its wheel."""

import sys
import types

import torch

TESTS = {}


def register_test_case(module_factory, timeout_seconds=600):
    def decorator(function):
        TESTS[function.__name__] = (module_factory, function)
        return function

    return decorator


def annotate_args(annotations):
    def decorator(function):
        function.annotations = annotations
        return function

    return decorator


for name, names in {
    "torch_mlir_e2e_test": {},
    "torch_mlir_e2e_test.framework": {"TestUtils": object},
    "torch_mlir_e2e_test.registry": {"register_test_case": register_test_case},
    "torch_mlir_e2e_test.annotations": {"annotate_args": annotate_args, "export": lambda function: function},
}.items():
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(names)

namespace = {}
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), namespace)
((name, (factory, test)),) = TESTS.items()
module = factory()
none, *annotated = type(module).forward.annotations
assert none is None


class Recorder:
    def forward(self, *inputs):
        assert [(list(each.shape), each.dtype, True) for each in inputs] == annotated
        print(name, module(*inputs).tolist())


test(Recorder(), None)
'''


@pytest.mark.parametrize("make", [entries.roll, entries.full_like, entries.repeat, entries.var])
def test_the_end_to_end_test_registers_and_its_module_runs(make: Make, tmp_path: Path) -> None:
    entry = make()
    test, registry = tmp_path / "e2e.py", tmp_path / "registry.py"
    test.write_text(export(entry, "e2e").text, encoding="utf-8")
    registry.write_text(REGISTRY, encoding="utf-8")
    ran = subprocess.run([sys.executable, str(registry), str(test)], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(f"{''.join(part.title() for part in entry.signature.operator.split('_'))}")
    assert "Module_basic " in ran.stdout


@pytest.mark.parametrize("make", [entries.copy, entries.sort, entries.norm, entries.unfold])
def test_the_unit_test_for_oneflow_fails(make: Make) -> None:
    entry = make()
    ran = run(entry, export(entry, "e2e").text)
    assert ran.exit_code == 1, ran.output
    assert "FAILED (" in ran.output
    assert "AssertionError" in ran.output or entry.signature.kind is Kind.ERROR


def test_what_is_fixed_is_not_exported_as_a_bug() -> None:
    """OneFlow agrees on this one: neither the short script nor the long one shows anything."""
    entry = entries.norm()
    assert entry.repro is not None
    right = entry.repro.replace("oneflow.norm(x0, 1.0, keepdim=False)", "x0.abs().sum()")
    assert right != entry.repro
    ran = run(entry, right)
    assert ran.exit_code == 0, ran.output
    shows = prover(entry)
    assert shows(entry.repro)
    assert not shows(right)


@pytest.mark.parametrize("kind", [Kind.DECLARED_DTYPE, Kind.DECLARED_SHAPE, Kind.SILENT_ERROR, Kind.DTYPE])
def test_short_scripts_of_rare_kinds_say_that_all_is_well_where_it_is(kind: Kind) -> None:
    """No entry of these kinds is at hand; on a module that torch-mlir gets right they must end well."""
    entry = entries.right(kind)
    ran = run(entry, short_script(entry))
    assert ran.exit_code == 0, ran.output
    if kind in (Kind.DECLARED_DTYPE, Kind.DECLARED_SHAPE):
        assert "!torch.vtensor<[2],f32>" in ran.output
        assert str(torch.float32) in ran.output
