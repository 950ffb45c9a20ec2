"""The command line: one module a verb; `fxdiff --help` imports no torch."""
