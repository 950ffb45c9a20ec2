"""Let tox's environments share one virtual environment, so that torch is installed once and a second run starts at once.

tox notes in a virtual environment which of its environments made it, and makes it anew for any other one. Here they
all install the same, so the note names the folder instead.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomllib
from tox.plugin import impl
from tox.tox_env.api import ToxEnv
from tox.tox_env.info import Info
from tox.tox_env.python.virtual_env.runner import VirtualEnvRunner
from tox.tox_env.register import ToxEnvRegister


class SharedInfo(Info):
    """The notes of a virtual environment that any tox environment may use, until what the project asks for changes."""

    def __init__(self, path: Path, project: Path) -> None:
        super().__init__(path)
        settings = tomllib.loads(project.read_text(encoding="utf-8"))
        asked = [settings.get(table) for table in ("build-system", "project", "dependency-groups")]
        self._asked = hashlib.sha256(json.dumps(asked).encode()).hexdigest()

    @contextmanager
    def compare(self, value: Any, section: str, sub_section: str | None = None) -> Iterator[tuple[bool, Any | None]]:
        """tox's comparison of what is wanted with what was noted, less the environment's name."""
        if section == ToxEnv.__name__ and sub_section is None:
            value = {**value, "name": "shared", "pyproject.toml": self._asked}
        with super().compare(value, section, sub_section) as result:
            yield result


class SharedRunner(VirtualEnvRunner):
    """A virtual environment that several tox environments use."""

    @staticmethod
    def id() -> str:
        """The name by which tox.ini asks for it."""
        return "shared"

    @property
    def cache(self) -> Info:
        """Notes that do not say which tox environment made the virtual environment."""
        return SharedInfo(self.env_dir, self.core.get("tox_root", Path) / "pyproject.toml")


@impl
def tox_register_tox_env(register: ToxEnvRegister) -> None:
    """Make `runner = shared` known to tox."""
    register.add_run_env(SharedRunner)
