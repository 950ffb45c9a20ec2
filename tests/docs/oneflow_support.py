"""docs/oneflow-support.md: every operator that has an adapter, in every dtype that PyTorch and OneFlow share, run in lockstep.

`python -m tests.docs.oneflow_support` writes the page anew. It takes a minute or two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.backends.eager import EagerBackend, Silent
from harness.backends.oneflow.translate import FLOW_DTYPES, supported
from harness.backends.oneflow.translate.absent import ABSENT
from harness.environments.versions import pins
from harness.model.case import Case
from harness.model.dtypes import DTYPES, is_float, narrow, widen
from harness.model.fill import Fill, Literal
from harness.model.opnames import canonical_target
from harness.model.outcome import Job, NodeResult, Outcome, Status
from harness.model.values import Tensor, Value, leaves, map_leaves
from harness.workers.supervisor import Worker
from tests.backends.oneflow.running import case_of, job, workers
from tests.backends.oneflow.table import ROWS, Row, T

PAGE = Path(__file__).resolve().parents[2] / "docs" / "oneflow-support.md"
COLUMNS = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool")
TOLERANCES = {"float64": (1e-7, 1e-9), "float32": (1e-4, 1e-5), "float16": (2e-2, 2e-3), "bfloat16": (6e-2, 1e-2)}
CHUNK = 60
EAGER_REFUSES = "·"
SIGNS = {
    "=": "equal to PyTorch in every call of the table of tests",
    "~": "equal in some calls, not in others",
    "≠": "runs and gives something else: value, dtype, shape or structure",
    "raises": "OneFlow raises an error that is no refusal",
    "dies": "OneFlow's process dies",
    "kernel": "refused: no kernel on CPU",
    "signature": "refused: not with these arguments",
    "dtype": "refused: not in this dtype",
    "refused": "refused in OneFlow's own words",
    "missing": "refused: OneFlow has no such operator in this spelling",
    EAGER_REFUSES: "PyTorch itself refuses",
}
KINDS = {"no-cpu-kernel": "kernel", "untranslated": "signature"}


def name_of(row: Row) -> str:
    """The canonical operator name of a row."""
    return canonical_target("call_function" if "." in row.target else "call_method", row.target)


def in_dtype(row: Row, dtype: str) -> Row | None:
    """The row with its float32 tensors in another dtype; None for one without, in any dtype but that of its own."""
    tensors = [leaf for _, leaf in leaves([list(row.args), dict(row.kwargs)]) if isinstance(leaf, T)]
    if not any(tensor.dtype == "float32" for tensor in tensors):
        own = tensors[0].dtype if tensors else "float32"
        return row if own == dtype else None
    return replace(
        row, args=map_leaves(row.args, lambda leaf: _cast(leaf, dtype)), kwargs=map_leaves(row.kwargs, lambda leaf: _cast(leaf, dtype))
    )


def _cast(leaf: Value, dtype: str) -> Value:
    if not isinstance(leaf, T) or leaf.dtype != "float32":
        return leaf
    if isinstance(leaf.data, Literal):
        numbers = np.frombuffer(leaf.data.data, "<f4")
        return T(dtype, leaf.shape, Literal(narrow(numbers.astype(np.float64), dtype).tobytes()))
    if is_float(dtype):
        return T(dtype, leaf.shape, leaf.data)
    low = leaf.data.low if dtype.startswith("int") else max(leaf.data.low, 0)
    high = min(leaf.data.high, 1) if dtype == "bool" else leaf.data.high
    return T(dtype, leaf.shape, Fill("integers/1", leaf.data.seed, low, max(low, high)))


def table() -> dict[str, dict[str, str]]:
    """The sign of every operator in every dtype."""
    signs: dict[tuple[str, str], list[str]] = {}
    todo: list[tuple[Row, str]] = []
    for row in ROWS:
        if row.recipe is None:
            for dtype in COLUMNS:
                cast = in_dtype(row, dtype)
                if cast is None:
                    continue
                if _eager(case_of([cast])).status is Status.OK:
                    todo.append((cast, dtype))
                else:
                    signs.setdefault((name_of(row), dtype), []).append(EAGER_REFUSES)
    with workers() as pool:
        worker = pool.worker("oneflow:lockstep")
        for (row, dtype), sign in zip(todo, _signs(worker, [row for row, _ in todo]), strict=True):
            signs.setdefault((name_of(row), dtype), []).append(sign)
    found: dict[str, dict[str, str]] = {}
    for (name, dtype), each in signs.items():
        found.setdefault(name, {})[dtype] = _together(each)
    return {name: found[name] for name in sorted(found)}


def _together(signs: list[str]) -> str:
    ran = [sign for sign in signs if sign != EAGER_REFUSES]
    if len(set(ran)) <= 1:
        return ran[0] if ran else EAGER_REFUSES
    if "=" in ran:
        # A call that is refused for its arguments says nothing of the dtype.
        return "=" if set(ran) == {"=", "signature"} else "~"
    return min(set(ran), key=list(SIGNS).index)


def _eager(case: Case) -> Outcome:
    return EagerBackend().run(case, Job(b"", "eager", ("trace",)), Silent())


def _signs(worker: Worker, rows: list[Row]) -> list[str]:
    found = [""] * len(rows)
    pending = [list(range(start, min(start + CHUNK, len(rows)))) for start in range(0, len(rows), CHUNK)]
    while pending:
        part = pending.pop()
        case = case_of([rows[index] for index in part])
        eager = _eager(case)
        outcome = worker.run(job(case, "oneflow:lockstep", eager))
        if not outcome.nodes and len(part) > 1:  # a death takes the others with it
            pending += [part[: len(part) // 2], part[len(part) // 2 :]]
            continue
        results = {result.name: result for result in outcome.nodes}
        for trace in eager.witness[0].trace:
            found[part[int(trace.name[1:])]] = _sign(trace.output, results.get(trace.name))
    return found


def _sign(expected: Value, result: NodeResult | None) -> str:
    if result is None:
        return "dies"
    if result.status is Status.UNSUPPORTED:
        kind = result.message.partition(":")[0]
        return KINDS.get(kind, kind)
    if result.status is not Status.OK:
        return "raises"
    return "=" if _agree(expected, result.output) else "≠"


def _agree(expected: Value, actual: Value) -> bool:
    left, right = list(leaves(expected)), list(leaves(actual))
    if [path for path, _ in left] != [path for path, _ in right]:
        return False
    return all(_same(a, b) for (_, a), (_, b) in zip(left, right, strict=True))


def _same(a: Any, b: Any) -> bool:
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return bool(a == b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    x, y = widen(a.array(), a.dtype), widen(b.array(), b.dtype)
    if a.dtype not in TOLERANCES:
        return bool(np.array_equal(x, y))
    rtol, atol = TOLERANCES[a.dtype]
    with np.errstate(all="ignore"):
        return bool(np.allclose(y.astype(np.float64), x.astype(np.float64), rtol=rtol, atol=atol, equal_nan=True))


def page(found: Mapping[str, Mapping[str, str]]) -> str:
    """The page's text."""
    cells = Counter(sign for signs in found.values() for sign in signs.values())
    ran = sum(cells[sign] for sign in ("=", "~", "≠", "raises", "dies"))
    equal = sum(1 for signs in found.values() if "=" in signs.values())
    lines = [
        "# What OneFlow does of PyTorch's operators",
        "",
        "Written by `python -m tests.docs.oneflow_support`; do not edit. Each operator for which fxdiff has an adapter, called with",
        f"ordinary input in OneFlow {pins('oneflow')['oneflow']} on the CPU, in every dtype that it shares with PyTorch"
        f" {pins('main')['torch']}, and compared with eager.",
        "",
        *(f"* `{sign}` {meaning}: {cells[sign]}" for sign, meaning in SIGNS.items()),
        "",
        f"{len(found)} operators; {equal} of them are equal to PyTorch in at least one dtype.",
        f"{ran} of {sum(cells.values())} cells were executed.",
        "An empty cell: the calls of this operator have no tensor of that dtype.",
        "",
        "| operator | " + " | ".join(COLUMNS) + " |",
        "| --- |" + " --- |" * len(COLUMNS),
        *(f"| {name} | " + " | ".join(signs.get(dtype, "") for dtype in COLUMNS) + " |" for name, signs in found.items()),
        "",
        "## What OneFlow has under no name",
        "",
        *_wrapped(sorted(ABSENT)),
        "",
    ]
    return "\n".join(lines)


def _wrapped(names: Iterable[str]) -> list[str]:
    lines, line = [], ""
    for name in names:
        if len(line) + len(name) > 120:
            lines.append(line.rstrip())
            line = ""
        line += f"{name} "
    return [*lines, line.rstrip()]


assert set(COLUMNS) == set(FLOW_DTYPES) and set(COLUMNS) <= set(DTYPES)

if __name__ == "__main__":
    PAGE.write_text(page(table()), encoding="utf-8")
    print(f"{PAGE.name}: {len(supported())} operators")
