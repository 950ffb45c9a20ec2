"""Pure functions from Outcomes to Verdicts, on numpy arrays; imports no torch."""

from __future__ import annotations

from oracles.judge import judge, judge_reference
from oracles.policy import DEFAULT, Policy

__all__ = ["DEFAULT", "Policy", "judge", "judge_reference"]
