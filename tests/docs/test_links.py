"""Relative links in README and docs lead somewhere, and no placeholder was left."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "generators" / "README.md"])
_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
_PATH = re.compile(r"`((?:docs|harness|oracles|generators|corpus|tests|benchmarks)/[\w./-]+)`")


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_and_paths_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "@@" not in text
    for link in _LINK.findall(text):
        assert (page.parent / link).exists(), f"{page.name}: {link}"
    for path in _PATH.findall(text):
        assert (ROOT / path).exists(), f"{page.name}: {path}"
