"""The identity of a bug: a versioned pure function of stored evidence, in which no message, shape, id or path is."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from harness.errors import FormatError
from harness.model.verdict import Kind, Verdict

SIGNATURE_VERSION = 1


@dataclass(frozen=True, slots=True)
class CoarseKey:
    """What a disagreement is called before it is minimized."""

    target: str
    oracle: str
    stage: str
    kind: Kind

    @classmethod
    def of(cls, verdict: Verdict) -> CoarseKey:
        """The coarse key of a verdict."""
        return cls(verdict.target, verdict.oracle, verdict.stage, verdict.kind)

    @property
    def key(self) -> str:
        """The key as text."""
        return "|".join((self.target, self.oracle, self.stage, self.kind.value))


@dataclass(frozen=True, slots=True)
class Signature:
    """A minimized bug: who, in what way, at which stage, at which operator, for which dtypes, given which trigger.

    `family` is the target's family or, without one, its name; `operator` is canonical; `dtype` is a class such as
    `int64`, `bfloat16+float16` or `any`; `trigger` holds the features that the bug needs. Its order does not matter.
    """

    family: str
    kind: Kind
    stage: str
    operator: str
    dtype: str = "any"
    trigger: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "trigger", tuple(sorted(set(self.trigger))))

    @property
    def key(self) -> str:
        """Everything that makes this bug this bug, as text; a part's own separators are escaped."""
        parts = (self.family, self.kind.value, self.stage, self.operator, self.dtype, ",".join(map(_escape, self.trigger)))
        return f"v{SIGNATURE_VERSION}|" + "|".join(part if part is parts[-1] else _escape(part) for part in parts)

    @property
    def digest(self) -> str:
        """The short name of the key: 8 hexadecimal digits."""
        return hashlib.sha256(self.key.encode("utf-8")).hexdigest()[:8]

    @property
    def slug(self) -> str:
        """The folder name of its entry, such as `torch-mlir-roll-value-int64-d55185bc`."""
        words = [self.family, self.operator, self.kind.value, "" if self.dtype == "any" else self.dtype, self.digest]
        return "-".join(word for word in map(_word, words) if word)


def _escape(part: str) -> str:
    return re.sub(r"[%|,\n]", lambda match: f"%{ord(match[0]):02x}", part)


def _word(text: str) -> str:
    return re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-")[:40]


def kind_of(name: str, *, where: str = "") -> Kind:
    """The kind of this name; raises FormatError."""
    try:
        return Kind(name)
    except ValueError as error:
        raise FormatError(f"kind {name!r} is none of {', '.join(kind.value for kind in Kind)}", where=where) from error
