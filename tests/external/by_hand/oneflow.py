"""fxdiff's findings in OneFlow, each written again by hand: the same lines against `torch` and against `oneflow`, without fxdiff.

    python tests/external/by_hand/oneflow.py [ID...]

Prints a line per finding, `confirmed` or `not shown`; exits 0 when all that were asked for show. OneFlow's interpreter is that of
ONEFLOW_PYTHON, else the one that fxdiff built. Each finding has a process of its own: many end theirs.
"""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

DEADLINE = 300.0  # seconds, on a busy machine
OTHER = "another answer"


@dataclass(frozen=True)
class Finding:
    """A program of `f`, which is torch or oneflow, and what OneFlow does with it.

    `shows` is the signal that ends the process, OTHER, or a part of the error's text. `control` is a neighbour on which both agree:
    it tells a bug from an operator, or an installation, that does not work at all.
    """

    id: str
    title: str
    program: Callable[[Any], Any]
    shows: str
    control: Callable[[Any], Any]


def layer(f: Any, module: Any, *inputs: Any) -> Any:
    """What `module` gives for `inputs` when each of its parameters counts 0, 1, 2..."""
    for parameter in module.parameters():
        parameter.data = f.arange(parameter.numel(), dtype=f.float32).reshape(*parameter.shape)
    return module.eval()(*inputs)


FINDINGS = (
    Finding(
        "43f207f7",
        "Linear on a vector uses the weight untransposed",
        lambda f: layer(f, f.nn.Linear(2, 2), f.tensor([0.0, 1.0])),
        OTHER,
        lambda f: layer(f, f.nn.Linear(2, 2), f.tensor([[0.0, 1.0]])),
    ),
    Finding(
        "ccab34ad",
        "roll with a negative dim rolls the first",
        lambda f: f.tensor([[0.0], [1.0]]).roll(1, -1),
        OTHER,
        lambda f: f.tensor([[0.0], [1.0]]).roll(1, 1),
    ),
    Finding("9e3636ac", "% has the sign of the dividend", lambda f: f.tensor([-1.75]) % 1, OTHER, lambda f: f.tensor([1.75]) % 1),
    Finding(
        "3c2f46a0",
        "& on integers is logical",
        lambda f: f.tensor([6]) & f.tensor([3]),
        OTHER,
        lambda f: f.tensor([True]) & f.tensor([False]),
    ),
    Finding("05191f80", "| on integers is logical", lambda f: f.tensor([6]) | 1, OTHER, lambda f: f.tensor([True]) | f.tensor([False])),
    Finding("743b3cd0", "square of integers is float32", lambda f: f.tensor([3]).square(), OTHER, lambda f: f.tensor([3.0]).square()),
    Finding(
        "ad6f24ed",
        "prod of int32 stays int32",
        lambda f: f.tensor([3], dtype=f.int32).prod(),
        OTHER,
        lambda f: f.tensor([3], dtype=f.int64).prod(),
    ),
    Finding(
        "3f053d2f",
        "cumprod ignores dtype=",
        lambda f: f.cumprod(f.tensor([2.0], dtype=f.float64), 0, dtype=f.float32),
        OTHER,
        lambda f: f.cumprod(f.tensor([2.0], dtype=f.float64), 0),
    ),
    Finding(
        "73aa4b8e", "copy_ returns None", lambda f: f.tensor([0.0]).copy_(f.tensor([1.0])), OTHER, lambda f: f.tensor([0.0]).fill_(1.0)
    ),
    Finding(
        "95482acb", "Mish of infinity is NaN", lambda f: f.nn.Mish()(f.tensor([math.inf])), OTHER, lambda f: f.nn.Mish()(f.tensor([0.0]))
    ),
    Finding("8243128f", "softmax of a scalar", lambda f: f.tensor(0.0).softmax(dim=0), "SIGSEGV", lambda f: f.tensor([0.0]).softmax(dim=0)),
    Finding("316b5dd0", "cumprod of a scalar", lambda f: f.cumprod(f.tensor(1.0), 0), "SIGABRT", lambda f: f.cumprod(f.tensor([1.0]), 0)),
    Finding("c0cb6bd0", "cumsum of a scalar", lambda f: f.cumsum(f.tensor(1.0), 0), "SIGABRT", lambda f: f.cumsum(f.tensor([1.0]), 0)),
    Finding("994efce1", "argmin of a scalar", lambda f: f.argmin(f.tensor(0.0)), "std::bad_alloc", lambda f: f.argmin(f.tensor([0.0]))),
    Finding("9c8d41bc", "argmax of a scalar", lambda f: f.argmax(f.tensor(0.0)), "std::bad_alloc", lambda f: f.argmax(f.tensor([0.0]))),
    Finding(
        "4b591677",
        "index_add with a negative dim",
        lambda f: f.index_add(f.zeros(1), -1, f.tensor([0]), f.ones(1)),
        "SIGABRT",
        lambda f: f.index_add(f.zeros(1), 0, f.tensor([0]), f.ones(1)),
    ),
    Finding(
        "7e951ff9",
        "matmul of rank 3 and a vector",
        lambda f: f.matmul(f.ones(1, 1, 1), f.ones(1)),
        "SIGABRT",
        lambda f: f.matmul(f.ones(1, 1, 1), f.ones(1, 1)),
    ),
    Finding(
        "7164fef5",
        "matmul of two vectors",
        lambda f: f.matmul(f.ones(2), f.ones(2)),
        "(1 vs 2)",
        lambda f: f.matmul(f.ones(1, 2), f.ones(2, 1)),
    ),
    Finding(
        "754850f9",
        "baddbmm over nothing",
        lambda f: f.baddbmm(f.zeros(1, 1, 1), f.zeros(1, 1, 0), f.zeros(1, 0, 1)),
        "SIGABRT",
        lambda f: f.baddbmm(f.zeros(1, 1, 1), f.ones(1, 1, 2), f.ones(1, 2, 1)),
    ),
    Finding(
        "9de41417",
        "matmul over nothing",
        lambda f: f.matmul(f.zeros(1, 0), f.zeros(0)),
        "SIGABRT",
        lambda f: f.matmul(f.ones(1, 2), f.ones(2)),
    ),
    Finding("d94d219b", "mv of nothing", lambda f: f.mv(f.zeros(0, 1), f.zeros(1)), "SIGABRT", lambda f: f.mv(f.ones(2, 1), f.ones(1))),
    Finding(
        "8840f6c8",
        "AvgPool1d, unbatched",
        lambda f: f.nn.AvgPool1d(1)(f.zeros(1, 1)),
        "SIGABRT",
        lambda f: f.nn.AvgPool1d(1)(f.zeros(1, 1, 1)),
    ),
    Finding(
        "3bea03fb",
        "AvgPool2d, unbatched",
        lambda f: f.nn.AvgPool2d(1)(f.zeros(1, 1, 1)),
        "SIGABRT",
        lambda f: f.nn.AvgPool2d(1)(f.zeros(1, 1, 1, 1)),
    ),
    Finding(
        "1248173e",
        "MaxPool2d, unbatched",
        lambda f: f.nn.MaxPool2d(2, padding=1)(f.zeros(1, 1, 1)),
        "SIGABRT",
        lambda f: f.nn.MaxPool2d(2, padding=1)(f.zeros(1, 1, 1, 1)),
    ),
    Finding(
        "effd1fef",
        "adaptive_avg_pool1d, unbatched: the layer refuses, the function aborts",
        lambda f: f.nn.functional.adaptive_avg_pool1d(f.zeros(1, 2), 1),
        "SIGABRT",
        lambda f: f.nn.functional.adaptive_avg_pool1d(f.zeros(1, 1, 2), 1),
    ),
    Finding(
        "6f261d21",
        "adaptive_max_pool1d, unbatched: the layer refuses, the function aborts",
        lambda f: f.nn.functional.adaptive_max_pool1d(f.zeros(1, 2), 1),
        "SIGABRT",
        lambda f: f.nn.functional.adaptive_max_pool1d(f.zeros(1, 1, 2), 1),
    ),
    Finding(
        "b7d78c34",
        "adaptive_max_pool2d, unbatched: the layer refuses, the function aborts",
        lambda f: f.nn.functional.adaptive_max_pool2d(f.zeros(1, 2, 2), 1),
        "SIGABRT",
        lambda f: f.nn.functional.adaptive_max_pool2d(f.zeros(1, 1, 2, 2), 1),
    ),
    Finding(
        "11754bda",
        "dropout2d refuses every probability",
        lambda f: f.nn.functional.dropout2d(f.ones(1, 1, 2, 2), p=0.5, training=False),
        "has to be between 0 and 1, but got 0.5",
        lambda f: f.nn.functional.dropout(f.ones(1, 1, 2, 2), p=0.5, training=False),
    ),
    Finding(
        "f250d32c",
        "RNNCell without a hidden state",
        lambda f: layer(f, f.nn.RNNCell(1, 2), f.tensor([[0.0]])),
        "'bool' object is not callable",
        lambda f: layer(f, f.nn.RNNCell(1, 2), f.tensor([[0.0]]), f.zeros(1, 2)),
    ),
    Finding(
        "1bff66bc",
        "LSTMCell without a hidden state",
        lambda f: layer(f, f.nn.LSTMCell(1, 2), f.tensor([[0.0]])),
        "'bool' object is not callable",
        lambda f: layer(f, f.nn.LSTMCell(1, 2), f.tensor([[0.0]]), (f.zeros(1, 2), f.zeros(1, 2))),
    ),
    Finding(
        "e07cbe92",
        "repeat by 0",
        lambda f: f.tensor([0.0, 0.0]).repeat(0),
        "must match the existing size",
        lambda f: f.tensor([0.0, 0.0]).repeat(2),
    ),
    Finding(
        "ef0ef140",
        "masked_fill_ of nothing",
        lambda f: f.zeros(0).masked_fill_(f.tensor(False), 0),
        "must match the existing size",
        lambda f: f.zeros(2).masked_fill_(f.tensor(False), 0),
    ),
    Finding(
        "d2cb8fbe",
        "atan2 broadcasts only its first argument",
        lambda f: f.atan2(f.zeros(1, 1), f.zeros(1)),
        "must be greater or equal to the number of dimensions",
        lambda f: f.atan2(f.zeros(1), f.zeros(1)),
    ),
    Finding(
        "56fbab5d",
        "floor_divide does not broadcast a scalar",
        lambda f: f.floor_divide(f.tensor(4.0), f.tensor([2.0])),
        "should have the same shape",
        lambda f: f.floor_divide(f.tensor([4.0]), f.tensor([2.0])),
    ),
    Finding(
        "d4360864",
        "var of a vector over dim 0",
        lambda f: f.var(f.tensor([0.0, 1.0]), dim=0),
        "Dimension out of range",
        lambda f: f.var(f.tensor([[0.0, 1.0]]), dim=1),
    ),
)


def described(value: Any) -> Iterator[str]:
    """Dtype, shape and elements of every tensor of a result, written alike for both libraries."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from described(item)
    elif value is None:
        yield "None"
    else:
        array = value.detach().numpy()
        if array.dtype.kind == "f":
            array = array.astype("float64").round(5)  # libraries may round differently
        yield f"{str(value.dtype).split('.')[-1]}{list(array.shape)} {array.tolist()}"


def answers(library: str, what: str, ids: list[str]) -> int:
    """Print what one library answers to the programs, or the controls, of `ids`; 1 after an exception, which is said on stderr."""
    f: Any = __import__(library)
    for finding in FINDINGS:
        if finding.id in ids:
            try:
                print(f"{finding.id}:", *described((finding.program if what == "program" else finding.control)(f)), flush=True)
            except Exception as error:  # no traceback: its lines of this file hold the words that are looked for
                print(f"{finding.id} {type(error).__name__}: {error}", file=sys.stderr)
                return 1
    return 0


def oneflow_python() -> tuple[str, dict[str, str]]:
    """OneFlow's interpreter and the variables that it needs."""
    if chosen := os.environ.get("ONEFLOW_PYTHON"):
        return chosen, dict(os.environ)
    from harness.environments import oneflow_env

    built = oneflow_env.oneflow_python()
    return str(built.python), built.child_environment()


def ask(library: str, what: str, ids: list[str]) -> tuple[str, dict[str, str]]:
    """How a process ended that computes the programs (or controls) of `ids` with one library, and the answers that it printed.

    The end is `""`, a signal's name, or what it said on stderr.
    """
    python, environment = (sys.executable, dict(os.environ)) if library == "torch" else oneflow_python()
    command = [python, "-I", "-W", "ignore", __file__, "--here", library, what, *ids]
    run = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False, env=environment)
    said = dict(line.split(": ", 1) for line in run.stdout.splitlines() if ": " in line)
    if run.returncode < 0:
        return signal.Signals(-run.returncode).name, said
    return run.stderr.strip() if run.returncode else "", said


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--here"]:
        return answers(arguments[1], arguments[2], arguments[3:])
    wanted = [finding for finding in FINDINGS if not arguments or finding.id in arguments]
    ids = [finding.id for finding in wanted]
    if missing := sorted(set(arguments) - set(ids)):
        print(f"no such finding: {', '.join(missing)}", file=sys.stderr)
        return 2
    _, eager = ask("torch", "program", ids)
    _, eager_control = ask("torch", "control", ids)
    ended, control = ask("oneflow", "control", ids)
    if ended:
        print(f"OneFlow fails on programs that work: {ended}", file=sys.stderr)
    shown = 0
    for finding in wanted:
        ended, said = ask("oneflow", "program", [finding.id])
        error = next((line for line in ended.splitlines() if finding.shows in line), ended[-200:])
        ours, theirs = said.get(finding.id, error.strip()), eager.get(finding.id, "nothing")
        seen = ours != theirs if finding.shows == OTHER and not ended else bool(ended) and finding.shows in ended
        sound = finding.id in eager and control.get(finding.id) == eager_control.get(finding.id) is not None
        shown += seen and sound
        word = "confirmed" if seen and sound else "NOT SHOWN" if sound else "NO CONTROL"
        plain = re.sub(r"\x1b\[[0-9;]*m", "", ours)  # OneFlow colours its errors
        print(f"{finding.id}  {word}  {finding.title}: oneflow {plain}, torch {theirs}", flush=True)
    return 0 if shown == len(wanted) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
