"""What can be configured, with every default; a command-line option wins over a file, a file over these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

# The special-value classes that oracles.Policy switches; the first three are judged unless ignored.
SPECIAL_CLASSES = ("nan", "inf", "overflow", "signed-zero", "out-of-range", "ties")

ISSUES_FILE = "known_issues.toml"  # in the corpus folder, unless `known_issues` names another file


@dataclass(frozen=True, slots=True)
class Settings:
    """One configuration; each field is the key of the same name with hyphens.

    An empty `targets` means every default target, None each verb's own default. `case_timeout` is in seconds,
    `memory_limit` in MB. `ignore` and `judge` switch special-value classes off and on. `tolerance` replaces an operator's
    allowance, in units of the dtype's epsilon, by canonical operator name. Paths in a file are relative to it.
    """

    targets: tuple[str, ...] = ()
    require_targets: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    profile: str = "default"
    ops: tuple[str, ...] = ()
    exclude_ops: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    max_nodes: int | None = None
    jobs: str = "auto"
    case_timeout: float | None = None
    memory_limit: int = 3072
    corpus: Path = Path("corpus")
    known_issues: Path | None = None
    ignore: tuple[str, ...] = ()
    judge: tuple[str, ...] = ()
    tolerance: Mapping[str, float] = field(default_factory=dict)
