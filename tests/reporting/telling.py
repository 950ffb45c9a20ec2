"""Events of a small made-up run."""

from __future__ import annotations

from harness import events

STARTED = events.RunStarted(
    7, "default", "1", ("t:a", "t:b"), 2, "fxdiff fuzz --seed 7", {"torch": "2.13.0"}, {"t:c": "not there"}, 0, "out", ("some.module",)
)


def finished(index: int, *, valid: bool = True, status: str = "ok") -> events.CaseFinished:
    return events.CaseFinished(
        index,
        f"case{index}",
        valid,
        {"eager": "ok" if valid else "rejected", "t:a": status, "t:b": "ok"} if valid else {"eager": "rejected"},
        3 if valid else 0,
        ("sin", "cos"),
        (f"t:a|sin|float32|{status}", "t:b|sin|float32|ok") if valid else (),
        "" if valid else "sin_1: no kernel",
    )


def disagreement(index: int, target: str = "t:a") -> events.Disagreement:
    return events.Disagreement(index, f"case{index}", target, "value", 5, "1 of 2 elements differ")


def found(
    index: int, signature: str = "t-sin-value-1", *, severity: int = 5, path: str = "out/findings/t-sin-value-1"
) -> events.FindingSaved:
    source = "import torch\n\nclass M: ...\n\nactual = M()(x)\n"
    return events.FindingSaved(
        index, f"case{index}", signature, signature, "t:a", "value", severity, "sin", ("dtype:int64",), 1, "[differs]", path, source, "3/3"
    )


def known(index: int, signature: str = "t-sin-value-1") -> events.KnownHit:
    return events.KnownHit(index, f"case{index}", "t:a", signature, "https://example.org/1")


def dropped(index: int, reason: str) -> events.Discarded:
    return events.Discarded(index, f"case{index}", "t:a", "value", reason)


RUN: tuple[events.Event, ...] = (
    STARTED,
    events.CaseStarted(0),
    finished(0),
    events.CaseStarted(1),
    finished(1, status="crash"),
    disagreement(1),
    found(1),
    events.CaseStarted(2),
    finished(2, valid=False),
    events.CaseStarted(3),
    finished(3, status="unsupported"),
    disagreement(3, "t:b"),
    known(3),
    events.HarnessFault(3, "case3", "t:a", "run: KeyError: 'x'", "Traceback ..."),
    events.RunFinished("every case asked for was run", 2.5, {"engine": 1.0, "t:a": 3.0}, 4, 1),
)
