"""The user's configuration: `[tool.fxdiff]` in pyproject.toml, or fxdiff.toml."""

from __future__ import annotations

from harness.config.load import Loaded, find, load
from harness.config.settings import ISSUES_FILE, Settings

__all__ = ["ISSUES_FILE", "Loaded", "Settings", "find", "load"]
