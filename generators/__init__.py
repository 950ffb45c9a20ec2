"""Hypothesis strategies that draw Programs and Cases. Imports no torch."""
