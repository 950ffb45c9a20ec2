"""The data that everything else speaks: Program, Case, Outcome and their bytes. Imports neither torch nor Hypothesis."""
