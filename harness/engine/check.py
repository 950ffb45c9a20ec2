"""Checking one given module: its captured cases on every target, and what became of each disagreement."""

from __future__ import annotations

import dataclasses
import enum
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.backends.protocol import TargetSpec
from harness.engine.bindings import with_second_binding
from harness.engine.campaign import Keeper, Saved
from harness.engine.evaluate import REFERENCE, Evaluation, Evaluator
from harness.engine.investigate import Dropped, Explained, Finding, Investigator
from harness.engine.support import support_rows
from harness.errors import FxdiffError
from harness.model.case import Case
from harness.model.outcome import Outcome, Status
from harness.model.verdict import Verdict
from harness.triage.known import KnownBug, KnownBugs, operators_of
from harness.triage.vote import ARTIFACT


class Answer(str, enum.Enum):
    """What a target's results say of a module, from good to bad."""

    AGREES = "agrees"
    REFUSES = "refuses"
    UNDECIDED = "undecided"
    DISAGREES = "disagrees"


@dataclass(frozen=True, slots=True)
class Dispute:
    """One disagreement: the sentence, where, whether it is known, and the entry that was written.

    `source` is the minimized program; `path` and `signature` are those of its entry, empty where none was written.
    `vote` is what the other ways through the same system say; `dropped` says why a disagreement is not counted as one.
    """

    verdict: Verdict
    graph: int
    operator: str = ""
    source: str = ""
    signature: str = ""
    path: str = ""
    note: str = ""
    vote: str = ""
    known: KnownBug | None = None
    dropped: str = ""


@dataclass(frozen=True, slots=True)
class TargetResult:
    """What one target did with one module.

    `refused` counts refused operators over all graphs, `ran` those that gave a result. `forward_only` says that the
    module asks for gradients and the target has none. `faults` are sentences about what is not the target's doing.
    """

    target: str
    disputes: tuple[Dispute, ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    refusals: tuple[str, ...] = ()
    ran: int = 0
    forward_only: bool = False
    faults: tuple[str, ...] = ()
    internal: bool = False

    @property
    def answer(self) -> Answer:
        """The target's results in one word."""
        if any(not dispute.dropped for dispute in self.disputes):
            return Answer.DISAGREES
        if self.faults or self.disputes:
            return Answer.UNDECIDED
        return Answer.REFUSES if self.refused or self.refusals else Answer.AGREES

    @property
    def is_new(self) -> bool:
        """Whether some disagreement is neither known nor dropped."""
        return any(dispute.known is None and not dispute.dropped for dispute in self.disputes)


@dataclass(frozen=True, slots=True)
class Checked:
    """One module: how it was captured, in how many graphs, and what every target did."""

    name: str
    how: str
    graphs: int
    targets: tuple[TargetResult, ...] = ()
    rejected: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        from harness.engine.check_report import lines

        return "\n".join(lines(self))

    @property
    def agrees(self) -> bool:
        """Whether no target disagrees."""
        return all(result.answer is not Answer.DISAGREES for result in self.targets)

    @property
    def tested(self) -> bool:
        """Whether any target gave a result that was compared."""
        return any(result.ran or result.answer is Answer.DISAGREES for result in self.targets)


class Checker:
    """Checks modules one after another; what one of them shows is known to the next."""

    def __init__(
        self,
        targets: Sequence[TargetSpec],
        evaluator: Evaluator,
        investigator: Investigator,
        known: KnownBugs,
        keeper: Callable[[], Keeper],
        *,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._targets = tuple(targets)
        self._evaluator = evaluator
        self._investigator = investigator
        self._known = known
        self._keeper = keeper
        self._tell = tell
        self._saved: dict[str, Saved] = {}

    def check(self, name: str, cases: Sequence[Case], *, how: str = "") -> Checked:
        """Run every case on every target; a target without the case's mode gets its forward pass."""
        rejected = ""
        collected = {spec.name: _Collected() for spec in self._targets}
        for graph, captured in enumerate(cases):
            case = self._twice(captured)
            for variant, specs in _variants(case, self._targets):
                self._tell(f"{name}: graph {graph + 1} of {len(cases)} on {', '.join(spec.name for spec in specs)}")
                # Fresh workers: what an earlier module broke in its process must not look like this one's fault.
                try:
                    evaluation = self._evaluator.evaluate(variant, specs, fresh=True)
                except Exception as error:  # a fault of ours costs this graph, not the modules after it
                    for spec in specs:
                        collected[spec.name].fault(f"a fault of fxdiff in graph {graph + 1}: {type(error).__name__}: {error}")
                    continue
                if not evaluation.valid:
                    rejected = rejected or _at(evaluation.reference)
                    for spec in specs:
                        collected[spec.name].faults[f"graph {graph + 1} was not run, since eager refuses it"] = None
                    continue
                self._collect(evaluation, specs, graph, collected, forward_only=variant is not case)
        results = tuple(found.result(target) for target, found in collected.items() if target != REFERENCE or found.disputes)
        return Checked(name, how, len(cases), results, rejected)

    def _twice(self, case: Case) -> Case:
        """The case with a second size where it is dynamic and eager takes that one too; else as it is."""
        twice = with_second_binding(case)
        return twice if twice is not None and self._evaluator.reference(twice, fresh=True).status is Status.OK else case

    def _collect(
        self, evaluation: Evaluation, specs: Sequence[TargetSpec], graph: int, collected: dict[str, _Collected], *, forward_only: bool
    ) -> None:
        for spec in specs:
            collected[spec.name].outcome(evaluation, spec.name, forward_only=forward_only)
        by_name = {spec.name: spec for spec in specs}
        for verdict in disputes(evaluation):
            spec = by_name.get(verdict.target) or TargetSpec(REFERENCE, "", "", family="eager")
            self._tell(f"looking into: {verdict.message}")
            found = collected.setdefault(spec.name, _Collected())
            found.disputes.append(self._settle(evaluation, spec, verdict, graph))

    def _settle(self, evaluation: Evaluation, target: TargetSpec, verdict: Verdict, graph: int) -> Dispute:
        bare = Dispute(verdict, graph, operators_of(evaluation.case).get(verdict.node or "", ""))
        try:
            explained = self._investigator.explain(evaluation, target, verdict)
            if isinstance(explained, Explained):
                return self._known_dispute(bare, explained.bug)
            result = self._investigator.investigate(evaluation, target, verdict, explained)
        except FxdiffError as error:
            return dataclasses.replace(bare, note=f"not investigated: {error}")
        if isinstance(result, Explained):
            return self._known_dispute(bare, result.bug)
        if isinstance(result, Dropped):
            return dataclasses.replace(bare, dropped=result.reason)
        return self._keep(bare, result)

    def _known_dispute(self, bare: Dispute, bug: KnownBug) -> Dispute:
        """A disagreement that is explained: by a bug that this check has just saved, or by one known before."""
        saved = self._saved.get(bug.signature)
        if saved is not None:
            return dataclasses.replace(bare, operator=bug.operator, signature=bug.signature, path=saved.path, source=saved.source)
        return dataclasses.replace(bare, operator=bug.operator, signature=bug.signature, path=bug.path, known=bug)

    def _keep(self, bare: Dispute, finding: Finding) -> Dispute:
        keeper = self._keeper()
        signature = keeper.sign(finding)
        bug = KnownBug(signature, finding.target.name, finding.verdict.kind.value, finding.operator, frozenset(finding.trigger))
        if not self._known.add(bug):
            return self._known_dispute(bare, self._known.get(signature) or bug)
        if finding.features:
            self._known.remember(bug.target, bug.kind, finding.operator, finding.features, signature)
        saved = self._saved[signature] = keeper.save(finding)
        vote = finding.evidence.observed.artifacts.get(ARTIFACT, "")
        return dataclasses.replace(
            bare, operator=finding.operator, signature=signature, path=saved.path, source=saved.source, note=saved.note, vote=vote
        )


def disputes(evaluation: Evaluation) -> list[Verdict]:
    """One verdict for each thing that may be wrong: by node where the outcome names it, else by kind, worst first."""
    found: dict[tuple[str, str, str], Verdict] = {}
    for verdict in sorted(evaluation.verdicts, key=lambda each: -each.severity):
        found.setdefault((verdict.target, verdict.node or "", "" if verdict.node is not None else verdict.kind.value), verdict)
    return list(found.values())


class _Collected:
    """What one target did, over all graphs of a module."""

    def __init__(self) -> None:
        self.disputes: list[Dispute] = []
        self.refused: Counter[str] = Counter()
        self.refusals: dict[str, None] = {}
        self.faults: dict[str, None] = {}
        self.ran = 0
        self.forward_only = self.internal = False

    def fault(self, text: str) -> None:
        """Note something of ours that went wrong."""
        self.internal = True
        self.faults[_first_line(text)] = None

    def outcome(self, evaluation: Evaluation, target: str, *, forward_only: bool) -> None:
        """Account for one graph."""
        outcome = evaluation.observed[target]
        self.forward_only |= forward_only
        for row in support_rows(dataclasses.replace(evaluation, observed={target: outcome})):
            _, operator, _, status = row.split("|")
            if status == Status.UNSUPPORTED.value:
                self.refused[operator] += 1
            elif status == Status.OK.value:
                self.ran += 1
        if outcome.status is Status.UNSUPPORTED:
            self.refusals[_at(outcome)] = None
        for result in outcome.nodes:
            if result.status is Status.UNSUPPORTED:
                self.refusals[f"{result.name}: {_first_line(result.message)}"] = None
            elif result.status is Status.HARNESS_ERROR:
                self.fault(f"a fault of fxdiff at {result.name}: {result.message}")
        if outcome.status is Status.HARNESS_ERROR:
            self.fault(f"a fault of fxdiff: {outcome.stage}: {_at(outcome)}")
        elif outcome.status is Status.INCONCLUSIVE:
            self.faults[_at(outcome)] = None
        elif outcome.status not in (Status.OK, Status.UNSUPPORTED) and not evaluation.of(target):
            self.refusals[_declined(outcome)] = None  # the oracles took its last words for a refusal

    def result(self, target: str) -> TargetResult:
        """The account."""
        return TargetResult(
            target,
            tuple(sorted(self.disputes, key=lambda dispute: -dispute.verdict.severity)),
            dict(self.refused.most_common()),
            tuple(self.refusals),
            self.ran,
            self.forward_only,
            tuple(self.faults),
            self.internal,
        )


def _variants(case: Case, targets: Sequence[TargetSpec]) -> Iterator[tuple[Case, list[TargetSpec]]]:
    whole = [spec for spec in targets if case.mode in spec.modes]
    rest = [spec for spec in targets if case.mode not in spec.modes]
    if whole:
        yield case, whole
    if rest:
        yield dataclasses.replace(case, mode="fwd"), rest


def _at(outcome: Outcome) -> str:
    message = _first_line(outcome.message)
    return f"{outcome.node}: {message}" if outcome.node else message


def _declined(outcome: Outcome) -> str:
    """How a run ended that no oracle holds against the target: what the process said, and that it is gone."""
    said = outcome.death.stderr if outcome.death is not None else ""
    words = next((line.strip() for line in said.splitlines() if "unimplemented" in line), "")
    return f"{outcome.message}: {words[:200]}" if words else _at(outcome)


def _first_line(text: str) -> str:
    return next((line.strip()[:300] for line in text.splitlines() if line.strip()), "no message")
