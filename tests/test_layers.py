from __future__ import annotations

import re
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[1]


def test_every_part_of_the_harness_stands_in_a_layer() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = next(contract["layers"] for contract in project["tool"]["importlinter"]["contracts"] if contract["type"] == "layers")
    named = {name.strip(" ()") for layer in layers for name in re.split("[|:]", layer)}
    folders = {f"harness.{path.parent.name}" for path in (ROOT / "harness").glob("*/__init__.py")}
    modules = {f"harness.{path.stem}" for path in (ROOT / "harness").glob("*.py") if path.stem != "__init__"}
    assert folders | modules <= named
