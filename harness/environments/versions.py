"""The pinned versions of the systems under test, read from the requirements files that pip and tox read too."""

from __future__ import annotations

import functools
import hashlib
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from harness.errors import HarnessError

_REQUIREMENTS = Path(__file__).with_name("requirements")

# Raise it when what is built changes in another way than by its pins.
_RECIPE = 1


def requirements_file(environment: str) -> Path:
    """The requirements file of an environment, `main` or `oneflow`."""
    return _REQUIREMENTS / f"{environment}.txt"


@functools.cache
def pins(environment: str) -> Mapping[str, str]:
    """Version by package name of everything pinned in an environment.

    Raises HarnessError for a line that does not pin exactly one version.
    """
    result: dict[str, str] = {}
    for line in requirements_file(environment).read_text(encoding="utf-8").splitlines():
        text = line.partition("#")[0].strip()
        if not text:
            continue
        name, separator, version = text.partition("==")
        if not separator or not version or name in result:
            raise HarnessError(f"{requirements_file(environment).name}: {text!r} does not pin one version of one package")
        result[name] = version
    return MappingProxyType(result)


def requirement(environment: str, name: str) -> str:
    """The pinned requirement, `name==version`, as pip takes it."""
    return f"{name}=={pins(environment)[name]}"


def environment_key(environment: str) -> str:
    """A short hash of everything that makes one built environment differ from another."""
    parts = [str(_RECIPE), sys.platform, platform.machine(), *sorted(f"{name}=={version}" for name, version in pins(environment).items())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
