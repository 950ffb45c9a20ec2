"""Campaigns in this process, over real workers, on cases that a test lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from harness import events
from harness.backends.protocol import TargetSpec, target
from harness.cli.session import SlotRunner
from harness.engine.campaign import Campaign
from harness.engine.investigate import Effort
from harness.engine.keeper import FindingKeeper, Proof
from harness.engine.settings import CampaignSettings
from harness.model.case import Call, Case, Origin
from harness.model.fill import Fill
from harness.model.program import Node, Program, TensorSpec
from harness.model.symbols import Sym, Symbol
from harness.model.values import Ref
from harness.triage.issues import KnownIssue
from harness.triage.known import KnownBug, KnownBugs
from harness.workers.pool import WorkerPool

GUILTY, INNOCENT = "torch.sin", "torch.cos"
Event = TypeVar("Event")


def case_of(*operators: str, sizes: tuple[int, ...] = (3,), seed: int = 1) -> Case:
    """Unary operators one after another on x0 of shape (s0, 2), called once for each size; both ends are returned."""
    nodes = [Node("x0", "placeholder", "x0", role="input", spec=TensorSpec("float32", (Sym("s0"), 2)))]
    for number, operator in enumerate(operators):
        nodes.append(Node(f"n{number}", "call_function", operator, (Ref(nodes[-1].name),)))
    output = (Ref("n0"), Ref(nodes[-1].name)) if len(operators) > 1 else Ref(nodes[-1].name)
    nodes.append(Node("output", "output", "output", (output,)))
    calls = tuple(Call({"s0": size}, {"x0": Fill("exact/1", seed + index)}) for index, size in enumerate(sizes))
    return Case(Program(tuple(nodes)), calls, (Symbol("s0", 0, 64),), lane="exact")


def mixed_cases(count: int = 6, *, sizes: tuple[int, ...] = (3,)) -> list[Case]:
    """Every second case has the trigger among innocent operators."""
    innocent = ("torch.neg", INNOCENT, "torch.abs")
    guilty = ("torch.neg", GUILTY, "torch.abs")
    return [case_of(*(guilty if index % 2 else innocent), sizes=sizes, seed=index) for index in range(count)]


@dataclass
class Ran:
    """What a campaign told."""

    reason: str
    told: list[events.Event]
    campaign: Campaign

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.told if isinstance(event, kind)]

    @property
    def findings(self) -> list[events.FindingSaved]:
        return self.of(events.FindingSaved)

    @property
    def cases(self) -> list[events.CaseFinished]:
        return sorted(self.of(events.CaseFinished), key=lambda event: event.index)


def run_campaign(
    pool: WorkerPool,
    names: Sequence[str],
    cases: Sequence[Case] | Callable[[int], Case],
    folder: Path,
    *,
    known: Sequence[KnownBug] = (),
    issues: Sequence[KnownIssue] = (),
    listener: Callable[[Campaign, events.Event], None] = lambda campaign, event: None,
    effort: Effort | None = None,
    **settings: Any,
) -> Ran:
    """Run a campaign to its end."""
    specs: tuple[TargetSpec, ...] = tuple(target(name) for name in names)
    told: list[events.Event] = []
    if not callable(cases):
        settings.setdefault("max_cases", len(cases))

    def draw(index: int) -> tuple[Case, Origin]:
        return cases(index) if callable(cases) else cases[index], Origin("test", "test", 0, index)

    def listen(event: events.Event) -> None:
        told.append(event)
        listener(campaign, event)

    campaign = Campaign(
        CampaignSettings(0, specs, folder, effort=effort if effort is not None else Effort(seconds=30.0), **settings),
        draw=draw,
        runner=lambda slot: SlotRunner(pool, slot),
        known=KnownBugs(known, issues=issues),
        keeper=FindingKeeper(folder / "findings", prove=lambda reproducer: Proof(True, ""), versions=pool.versions),
        listener=listen,
    )
    return Ran(campaign.run(), told, campaign)
