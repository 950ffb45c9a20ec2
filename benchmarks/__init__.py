"""Measurements, in CPU time and ratios, taken in one run: `python -m benchmarks`."""
