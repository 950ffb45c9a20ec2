"""fxdiff: a differential fuzzer for PyTorch compiler backends."""
