"""Where built environments are kept: the user's cache folder, shared by every clone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from harness.environments.versions import environment_key
from harness.errors import UsageError


def cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """`FXDIFF_CACHE`, else `fxdiff` in `XDG_CACHE_HOME` or in `~/.cache`.

    Raises UsageError where the user has no home folder either.
    """
    env = os.environ if environ is None else environ
    if setting := env.get("FXDIFF_CACHE"):
        return Path(setting).expanduser().absolute()
    base = env.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):  # the XDG specification says to ignore a relative one
        return Path(base) / "fxdiff"
    home = env.get("HOME") or os.path.expanduser("~")
    if not os.path.isabs(home):
        raise UsageError("no home folder to keep environments in: set FXDIFF_CACHE to a folder")
    return Path(home) / ".cache" / "fxdiff"


def environment_dir(environment: str, environ: Mapping[str, str] | None = None) -> Path:
    """The folder of one built environment; its name changes with its pins."""
    return cache_dir(environ) / f"{environment}-{environment_key(environment)}"


def outdated(environment: str, environ: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """Folders of the same environment under other pins, which another checkout may still use."""
    current = environment_dir(environment, environ)
    return tuple(sorted(path for path in current.parent.glob(f"{environment}-*") if path.is_dir() and path != current))
