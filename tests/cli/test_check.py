"""`fxdiff check` on users' files of every kind, with eager:copy and targets that are wrong on purpose."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import tests.doubles.wrong  # noqa: F401
from harness.cli.check import check_command
from harness.cli.checking import Capturer
from harness.cli.main import cli
from harness.errors import UsageError

GOOD = """
import torch

class M(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1

def build():
    return M()

def inputs():
    return (torch.tensor([[1.0, -2.0], [0.5, 3.0]]),)
"""
WRONG = GOOD.replace("torch.relu(x) + 1", "torch.sin(x) + torch.relu(x)")


@pytest.fixture(scope="module")
def capturer() -> Iterator[Capturer]:
    with Capturer(seconds=20.0, memory_mb=1500) as capturer:
        yield capturer


def write(folder: Path, text: str, name: str = "model.py") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def check(*arguments: object) -> Result:
    return CliRunner().invoke(check_command, [str(argument) for argument in arguments], standalone_mode=False)


def report(result: Result) -> dict[str, Any]:
    assert result.exception is None, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nothing_by_this_name", "{path}:1: it cannot be imported: ModuleNotFoundError: No module named 'nothing_by_this_name'"),
        ("def build(:\n", "{path}:1: it cannot be imported: SyntaxError"),
        ("raise SystemExit(0)", "{path}:1: it cannot be imported: it calls exit(0)"),
        ("import os; os._exit(3)", "{path}: its process exited with code 3 while it is imported"),
        ("import os; print('last words', flush=True); os.abort()", "died by SIGABRT while it is imported; the last it printed"),
        ("x = 1", "{path} defines no function build()"),
        (GOOD.replace("def build", "def biuld"), "{path} defines no function build(); did you mean biuld?"),
        (GOOD.replace("return M()", "M()"), "{path}: build() must return a torch.nn.Module, not None; is its return missing?"),
        (GOOD.replace("return M()", "return M"), "{path}: build() must return a torch.nn.Module, not a type"),
        (GOOD.replace("return M()", "raise ValueError('no')"), "{path}:9: build() raises: ValueError: no"),
        (GOOD.replace("3.0]]),)", "3.0]]))"), "not a Tensor; a single tensor is written (x,)"),
        (GOOD.replace("return (torch", "1 / 0; return (torch"), "{path}:12: inputs() raises: ZeroDivisionError: division by zero"),
        (GOOD + "MODE = 'gard'", "{path}: MODE is 'gard', not one of fwd, grad, train; did you mean 'grad'?"),
        (GOOD + "DYNAMIC_SHAPES = 3", "{path}: DYNAMIC_SHAPES must be a dict, tuple or list"),
        (GOOD + "DYNAMIC_SHAPES = {'z': {0: 'n'}}", "dynamic_shapes names z, which forward does not take"),
        (GOOD.replace("torch.relu(x)", "x @ x[:1]"), "{path}:6: its module raises when it is run on inputs(): RuntimeError"),
        (GOOD.replace("3.0]]),)", "3.0]]), 1)"), "{path}: its module raises when it is run on inputs(): TypeError"),
        (GOOD.replace("return M()", "m = M(); m.lock = __import__('threading').Lock(); return m"), "cannot be copied"),
    ],
)
def test_a_file_at_fault_is_told_in_one_sentence_with_its_line(capturer: Capturer, tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path, text)
    captured = capturer.capture(path)
    assert not captured.usable
    assert said.format(path=path) in captured.problem
    assert "\n" not in captured.problem
    assert captured.cases == ()


def test_a_file_that_never_comes_back_is_ended(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("return M()", "import time; time.sleep(600)"))
    with Capturer(seconds=1.0, memory_mb=1500) as capturer:
        captured = capturer.capture(path)
    assert captured.problem == f"{path} does not come back in build(): it was given 1 s; --capture-timeout gives it longer"
    assert not captured.usable


def test_a_file_that_takes_all_memory_is_ended(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("return M()", "x = []\n    while True: x.append(bytearray(1 << 24))"))
    with Capturer(seconds=60.0, memory_mb=600) as capturer:
        captured = capturer.capture(path)
    assert f"{path} takes too much memory in build()" in captured.problem


@pytest.mark.parametrize(
    "extra",
    [
        "print('noise' * 100_000)",
        "import os\nif os.fork() == 0:\n    pass",
        "import os\nif os.fork() == 0:\n    os._exit(9)",
        "import os\nif os.fork() == 0:\n    import time; time.sleep(600)",
        "import sys\nsys.stdout.close()",
        "import torch\ntorch.set_default_dtype(torch.float64)",
    ],
)
def test_a_file_may_print_fork_and_change_its_process_and_is_captured(capturer: Capturer, tmp_path: Path, extra: str) -> None:
    captured = capturer.capture(write(tmp_path, f"{extra}\n{GOOD}"))
    assert captured.problem == ""
    assert captured.how == "dynamo"
    assert [len(case.program.operators) for case in captured.cases] == [2]


def test_neighbours_are_imported_and_no_bytecode_is_left(capturer: Capturer, tmp_path: Path) -> None:
    write(tmp_path, GOOD, "neighbour.py")
    captured = capturer.capture(write(tmp_path, "from neighbour import build, inputs\n"))
    assert len(captured.cases) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.py", "neighbour.py"]


def test_each_graph_of_a_broken_module_is_a_case_with_its_mode_and_sizes(capturer: Capturer, tmp_path: Path) -> None:
    text = GOOD.replace("torch.relu(x) + 1", "torch.relu(x) * (2 if torch.relu(x).sum().item() > 1 else 3)")
    text = text.replace("3.0]]),)", "3.0]], requires_grad=True),)")
    captured = capturer.capture(
        write(tmp_path, text + "MODE = 'grad'\nfrom torch.export import Dim\nDYNAMIC_SHAPES = {'x': {0: Dim('n')}}\n")
    )
    assert captured.how == "dynamo"
    assert len(captured.cases) == 2
    assert {case.mode for case in captured.cases} == {"grad"}
    assert captured.cases[0].symbols


def test_a_file_that_is_not_there_is_a_usage_error(capturer: Capturer, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.py is not there; name a Python file"):
        capturer.capture(tmp_path / "gone.py")
    with pytest.raises(UsageError, match="is a folder"):
        capturer.capture(tmp_path)


def test_a_module_that_agrees_and_one_that_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    good, wrong = write(tmp_path, GOOD), write(tmp_path, WRONG, "wrong.py")
    result = check(good, wrong, "-t", "eager:copy", "-t", "wrong:value", "--json", "-q")
    found = report(result)
    assert result.return_value == 1
    answers = {
        (Path(module["module"]).name, target["target"]): target["answer"] for module in found["modules"] for target in module["targets"]
    }
    assert answers == {
        ("model.py", "eager:copy"): "agrees",
        ("model.py", "wrong:value"): "agrees",
        ("wrong.py", "eager:copy"): "agrees",
        ("wrong.py", "wrong:value"): "disagrees",
    }
    dispute = found["modules"][1]["targets"][1]["disagreements"][0]
    assert (dispute["kind"], dispute["operator"]) == ("value", "sin")
    assert "torch.sin" in dispute["source"]
    assert "relu" not in dispute["source"], "it is minimized"
    assert Path("fxdiff-out").is_dir(), "and saved"


def test_a_known_issue_explains_and_only_fail_on_any_counts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = write(tmp_path, WRONG)
    issue = 'format_version = 1\n[[issue]]\nlink = "https://example.org/1"\ntargets = ["wrong:*"]\nmessage = "elements? differ"\n'
    write(tmp_path, issue, "issues.toml")
    write(tmp_path, 'known-issues = "issues.toml"\ntargets = ["wrong:value"]\n', "fxdiff.toml")
    arguments = ["check", str(wrong), "--json", "-q", "--fail-on"]
    result = CliRunner().invoke(cli, [*arguments, "new"], standalone_mode=False)
    [target] = report(result)["modules"][0]["targets"]
    assert result.return_value == 0
    assert target["target"] == "wrong:value", "the configured one"
    assert (target["answer"], target["disagreements"][0]["link"]) == ("disagrees", "https://example.org/1")
    assert not Path("fxdiff-out").exists(), "nothing to save"
    assert CliRunner().invoke(cli, [*arguments, "any"], standalone_mode=False).return_value == 1


@pytest.mark.parametrize(
    ("target", "text", "code", "said"),
    [
        ("wrong:refuse", WRONG, 5, "refuses"),
        ("wrong:harness", WRONG, 3, "a fault of fxdiff"),
        ("wrong:abort", WRONG, 1, "died by SIGABRT"),
        ("eager:copy", "x = 1", 2, "defines no function build()"),
        ("eager:copy", GOOD.replace("torch.relu(x) + 1", "x.to_sparse()"), 5, "eager itself refuses what was captured"),
    ],
)
def test_exit_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, text: str, code: int, said: str) -> None:
    monkeypatch.chdir(tmp_path)
    result = check(write(tmp_path, text), "-t", target, "-q", "--no-minimize")
    assert result.exception is None
    assert said in result.output
    assert result.return_value == code


def test_the_report_for_people_names_node_program_and_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = check(write(tmp_path, WRONG), "-t", "wrong:value", "-q").stdout
    assert "1 graph, captured by dynamo" in text
    assert "wrong:value  disagrees" in text
    assert "where: operator sin" in text
    assert "torch.sin(x)" in text


def test_gradients_are_compared_where_a_target_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    grad = write(tmp_path, GOOD.replace("3.0]]),)", "3.0]], requires_grad=True),)") + "MODE = 'grad'\n")
    targets = report(check(grad, "-t", "eager:copy", "-t", "wrong:nothing", "--json", "-q"))["modules"][0]["targets"]
    assert [(each["answer"], each["forward_only"]) for each in targets] == [("agrees", False), ("agrees", True)]
