"""Profiles: what kind of cases to draw, as data with a canonical text, so that a case can be drawn again from its Origin."""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
from collections.abc import Iterable
from dataclasses import dataclass

from generators.types import ALL
from harness.errors import UnknownName, UsageError

LANES = ("exact", "ordinary", "special")


@dataclass(frozen=True, slots=True)
class Profile:
    """The kind of cases to draw.

    `ops` and `exclude` are globs over canonical operator names, families (`family:conv`) and spellings' classes (`nn.*`);
    empty `ops` means all. `lanes` weighs exact, ordinary and special; `symbolic` is the percentage of cases with
    symbolic sizes, `short` that of cases with at most three operator nodes. `dtypes` bounds drawn inputs; results follow PyTorch.
    """

    name: str = "default"
    max_nodes: int = 8
    short: int = 50
    ops: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ALL
    lanes: tuple[int, int, int] = (70, 20, 10)
    symbolic: int = 30
    mode: str = "fwd"

    def text(self) -> str:
        """The canonical text, which `profile` reads back: the name, then only what differs from the named profile."""
        return _text(self)


@functools.lru_cache
def _text(profile: Profile) -> str:
    base = PROFILES[profile.name]
    parts = [profile.name]
    for field in dataclasses.fields(profile)[1:]:
        value = getattr(profile, field.name)
        if value != getattr(base, field.name):
            shown = "+".join(str(item) for item in value) if isinstance(value, tuple) else str(value)
            parts.append(f"{field.name}={shown}")
    return ",".join(parts)


PROFILES: dict[str, Profile] = {
    "default": Profile(),
    "small": Profile("small", max_nodes=2, short=100),
    "large": Profile("large", max_nodes=20, short=10),
    "static": Profile("static", symbolic=0),
    "symbolic": Profile("symbolic", symbolic=100),
    "exact": Profile("exact", lanes=(100, 0, 0)),
    "ordinary": Profile("ordinary", lanes=(0, 100, 0)),
    "special": Profile("special", lanes=(0, 0, 100)),
    "smooth": Profile(
        "smooth",
        exclude=("family:comparison", "family:index", "family:inplace", "family:logic", "family:sort", "family:cast"),
        dtypes=("float32", "float64"),
        lanes=(0, 100, 0),
        mode="grad",
    ),
    "integers": Profile("integers", dtypes=("int64", "int32", "int8", "uint8", "bool"), lanes=(100, 0, 0)),
}


def profile(text: str) -> Profile:
    """A profile from its name or its canonical text, such as `default,max_nodes=3,dtypes=float32+int64`.

    Raises UnknownName for a profile, key or dtype that does not exist, UsageError for a value of the wrong kind.
    """
    name, *parts = text.split(",")
    if name not in PROFILES:
        raise UnknownName("profile", name, PROFILES)
    base = PROFILES[name]
    changes: dict[str, object] = {}
    known = {field.name for field in dataclasses.fields(Profile)} - {"name"}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or key not in known:
            raise UnknownName("profile setting", key, known)
        old = getattr(base, key)
        items = value.split("+") if value else []
        try:
            if isinstance(old, tuple):
                changes[key] = tuple(int(item) for item in items) if key == "lanes" else tuple(items)
            else:
                changes[key] = type(old)(value)
        except ValueError as error:
            raise UsageError(f"profile setting {key}={value!r} is not a number") from error
    return checked(dataclasses.replace(base, **changes))  # type: ignore[arg-type]


def derive(
    base: Profile,
    *,
    ops: Iterable[str] = (),
    exclude: Iterable[str] = (),
    dtypes: Iterable[str] = (),
    max_nodes: int | None = None,
) -> Profile:
    """A profile narrowed by command-line options, in canonical order.

    Raises UnknownName for a dtype that is never drawn, UsageError for an impossible number.
    """
    changed = dataclasses.replace(base)
    if chosen := sorted(set(ops)):
        changed = dataclasses.replace(changed, ops=tuple(chosen))
    if chosen := sorted(set(exclude)):
        changed = dataclasses.replace(changed, exclude=tuple(sorted(set(base.exclude) | set(chosen))))
    if chosen := sorted(set(dtypes), key=lambda item: ALL.index(item) if item in ALL else -1):
        changed = dataclasses.replace(changed, dtypes=tuple(chosen))
    if max_nodes is not None:
        changed = dataclasses.replace(changed, max_nodes=max_nodes)
    return checked(changed)


def checked(profile: Profile) -> Profile:
    """The profile itself where it makes sense; raises UnknownName or UsageError."""
    if profile.name not in PROFILES:
        raise UnknownName("profile", profile.name, PROFILES)
    for dtype in profile.dtypes:
        if dtype not in ALL:
            raise UnknownName("dtype", dtype, ALL)
    for glob in (*profile.ops, *profile.exclude):
        if "," in glob or "+" in glob:
            raise UsageError(f"an operator pattern holds neither ',' nor '+': {glob!r}")
    if not profile.dtypes:
        raise UsageError("a profile needs at least one dtype")
    if not 1 <= profile.max_nodes <= 100:
        raise UsageError(f"max_nodes={profile.max_nodes} is not in 1..100")
    if len(profile.lanes) != len(LANES) or min(profile.lanes) < 0 or not sum(profile.lanes):
        raise UsageError(f"lanes={'+'.join(map(str, profile.lanes))} must be three weights: {', '.join(LANES)}")
    for name in ("symbolic", "short"):
        if not 0 <= getattr(profile, name) <= 100:
            raise UsageError(f"{name}={getattr(profile, name)} is no percentage")
    return profile


def matches(glob: str, names: Iterable[str]) -> bool:
    """Whether a glob fits one of the names that an operator goes by."""
    return any(fnmatch.fnmatchcase(name, glob) for name in names)
