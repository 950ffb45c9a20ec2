"""Oracles: pure functions from Outcomes to Verdicts, on numpy arrays. Imports no torch."""
