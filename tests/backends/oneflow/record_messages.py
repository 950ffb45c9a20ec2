"""Record OneFlow's messages anew: `python -m tests.backends.oneflow.record_messages`; then read what changed."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

from harness.backends.eager import EagerBackend, Silent
from harness.backends.oneflow.refusals import clean
from harness.environments.oneflow_env import oneflow_python
from harness.model.fill import Fill
from harness.model.outcome import Job, Status
from harness.model.values import map_leaves
from harness.workers.supervisor import Worker
from tests.backends.oneflow.running import case_of, job, reference, workers
from tests.backends.oneflow.table import ROWS, F, Row, T, b, f, i, layer, row

MESSAGES = Path(__file__).parent / "messages"
DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool")

# Legal programs at which OneFlow balks in other ways than by a missing kernel.
ODD = [
    row("operator.invert", i(2, 3, dtype="uint8")),
    row("torch.where", b(2, 3), f(2, 3), i(2, 3)),
    row("torch.where", b(2, 3), 1.5, i(2, 3)),
    row("torch.broadcast_to", f(), []),
    row("repeat", f(2, 3), 0, 2),
    row("torch.tile", f(2, 3), (0, 2)),
    row("torch.atan2", f(2, 3, 2), f(2, 1, 1)),
    row("torch.floor_divide", T("float16", (2, 3), Fill("integers/1", 1, 1, 5)), T("float16", (1, 3), Fill("integers/1", 2, 1, 5))),
    row("torch.var", f()),
    row("torch.var", f(2, 3), (0, 1)),
    row("torch.norm", f(2, 3, 4), 3),
    row("torch.norm", f(2, 3, 4), 3, (0, 1, 2)),
    row(f"{F}conv1d", f(4, 8), f(6, 4, 3)),
    row(f"{F}conv2d", f(4, 8, 8), f(6, 4, 3, 3)),
    row(f"{F}conv_transpose1d", f(4, 8), f(4, 6, 3)),
    row(f"{F}linear", f(3), f(4, 3)),
    row(f"{F}layer_norm", f(2, 3), (2, 3)),
    row(f"{F}interpolate", f(1, 2, 4, 4), scale_factor=2, mode="nearest-exact"),
    row(f"{F}dropout2d", f(2, 3, 2, 2), 0.5, False),
    row("torch.quantile", f(2, 7), 0.4, 1, interpolation="nearest"),
    layer("AdaptiveAvgPool2d", (2,), f(3, 5, 5)),
    layer("AdaptiveMaxPool1d", (2,), f(3, 5)),
    layer("GroupNorm", (2, 4), f(2, 4), state={"weight": (4,), "bias": (4,)}),
    layer("LayerNorm", ((2, 3),), f(2, 3), state={"weight": (2, 3), "bias": (2, 3)}),
    layer("PixelShuffle", (2,), f(4, 2, 2)),
    layer("Conv2d", (4, 6, 3), f(4, 8, 8), state={"weight": (6, 4, 3, 3), "bias": (6,)}),
]

# Calls that no adapter may make: what OneFlow says to them is a fault of ours.
WRONG = """
oneflow.relu(x, foo=1)
oneflow.relu()
oneflow.relu(x, True, 3)
oneflow.roll(x, "a", 0)
oneflow.sum(x, dim="a")
oneflow.norm(x, foo=1)
oneflow.argsort(x, 0, False, True)
oneflow.nn.Conv2d(1, 2)
oneflow.nn.Conv2d(1, 2, 3, foo=1)
oneflow.nn.functional.layer_norm(x)
oneflow.nn.functional.conv2d(x, x, padding="same")
oneflow.nn.functional.elu(x)
oneflow.nn.functional.threshold(x, 1, 2)
x.view(foo=1)
x.expand(foo=1)
x.softmax("a")
"""
# What nn.Graph cannot compile, since it depends on values or is no tensor.
GRAPH = """
oneflow.nonzero(x)
oneflow.argwhere(x)
oneflow.masked_select(x, x > 2)
x[x > 2]
x * x.sum().item()
x * float(x.sum())
x.zero_()
(x, x.tolist())
(x, 3)
"""
_ASK_GRAPH = """
import json, sys
import oneflow
answers = []
for line in json.load(sys.stdin):
    class Asking(oneflow.nn.Graph):
        def build(self, x):
            return eval(line)
    try:
        Asking()(oneflow.ones(2, 3))
    except Exception as error:
        answers.append([line, type(error).__name__, str(error)])
    else:
        answers.append([line, "", ""])
print(json.dumps(answers))
"""
_ASK = """
import json, sys
import oneflow
x = oneflow.ones(2, 3)
answers = []
for line in json.load(sys.stdin):
    try:
        eval(line)
    except Exception as error:
        answers.append([line, type(error).__name__, str(error)])
    else:
        answers.append([line, "", ""])
print(json.dumps(answers))
"""


def cast(odd: Row, dtype: str) -> Row | None:
    """The same call with its float32 tensors in another dtype; None where that changes nothing or the layer has state."""
    if dtype == "float32":
        return odd
    touched = False

    def leaf(value: Any) -> Any:
        nonlocal touched
        if not isinstance(value, T) or value.dtype != "float32":
            return value
        touched = True
        return dataclasses.replace(value, dtype=dtype)

    changed = dataclasses.replace(odd, args=map_leaves(odd.args, leaf), kwargs=map_leaves(odd.kwargs, leaf))
    return changed if touched and not (odd.recipe and odd.recipe.state) else None


def accepted(odd: Row) -> bool:
    """Whether eager takes the call."""
    return EagerBackend().run(case_of([odd]), Job(b"", "eager"), Silent()).status is Status.OK


def messages_of(worker: Worker, rows: list[Row]) -> dict[str, set[str]]:
    """Everything that OneFlow says to these calls, by class; calls that kill the worker say nothing here."""
    found: dict[str, set[str]] = defaultdict(set)
    pending = [rows[start : start + 25] for start in range(0, len(rows), 25)]
    while pending:
        part = pending.pop()
        case = case_of(part)
        outcome = worker.run(job(case, "oneflow:lockstep", reference(case)))
        if not outcome.nodes and len(part) > 1:
            pending += [[one] for one in part]
        for result in outcome.nodes:
            kind, _, rest = result.message.partition(": ")
            if result.status is Status.ERROR:
                found["error"].add(result.message)
            elif result.status is Status.UNSUPPORTED and kind in ("no-cpu-kernel", "dtype", "refused"):
                found[kind].add(rest)
    return found


def said_to(text: str, script: str) -> set[str]:
    """What OneFlow says to expressions, one a line."""
    environment = oneflow_python()
    command = [str(environment.python), "-c", script]
    lines = [line for line in text.splitlines() if line]
    run = subprocess.run(
        command, input=json.dumps(lines), env=environment.child_environment(), capture_output=True, text=True, check=True, timeout=120
    )
    return {f"{kind}: {clean(message)}" for _, kind, message in json.loads(run.stdout.splitlines()[-1]) if kind}


def main() -> None:
    """Write one file per class."""
    found: dict[str, set[str]] = defaultdict(set)
    with workers() as pool:
        worker = pool.worker("oneflow:lockstep")
        for dtype in DTYPES:
            rows = [changed for odd in ROWS if (changed := cast(odd, dtype)) is not None and accepted(changed)]
            for kind, messages in messages_of(worker, rows).items():
                found[kind] |= messages
        for kind, messages in messages_of(worker, ODD).items():
            found[kind] |= messages
    found["adapter"] = said_to(WRONG, _ASK)
    found["refused"] |= said_to(GRAPH, _ASK_GRAPH)
    MESSAGES.mkdir(exist_ok=True)
    for kind, messages in found.items():
        kept = sorted(messages)[:: max(1, len(messages) // 24)]  # a missing kernel says the same of every operator
        (MESSAGES / f"{kind}.txt").write_text("\n\n".join(kept) + "\n", encoding="utf-8")
        print(f"{kind}: {len(messages)}")


if __name__ == "__main__":
    main()
