"""Backends for torch.compile that PyTorch finds by their entry points: they work in scripts that know nothing of fxdiff."""
