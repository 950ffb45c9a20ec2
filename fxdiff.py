"""The public Python face of fxdiff."""

from __future__ import annotations

from harness.model.case import Call, Case
from harness.model.outcome import Outcome, Status
from harness.model.program import Program
from harness.model.verdict import Verdict

__all__ = ["Call", "Case", "Outcome", "Program", "Status", "Verdict"]
