"""Minimized findings on disk: entries, their signatures, and the folder that holds them. Imports no torch."""

from harness.corpus.entry import Entry, Expectation, Found, current_platform
from harness.corpus.signature import CoarseKey, Signature
from harness.corpus.store import Corpus

__all__ = ["CoarseKey", "Corpus", "Entry", "Expectation", "Found", "Signature", "current_platform"]
