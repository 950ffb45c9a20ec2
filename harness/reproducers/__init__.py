"""Findings as source: readable modules, and reproducers that run without fxdiff. Imports no torch."""
