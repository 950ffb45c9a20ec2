"""The catalogue: every operator that can be drawn, and which of them a profile chooses."""

from __future__ import annotations

import functools
import importlib

from generators.choices import Table
from generators.profile import Profile, matches
from generators.spec import OpSpec
from harness.errors import UnknownName, UsageError

FAMILIES = (
    "unary",
    "binary",
    "ternary",
    "reduce",
    "activation",
    "shape",
    "join",
    "index",
    "sort",
    "matmul",
    "conv",
    "pool",
    "norm",
    "resize",
    "loss",
    "recurrent",
    "create",
    "inplace",
)


@functools.cache
def catalogue() -> tuple[OpSpec, ...]:
    """Every operator, in a fixed order: the order is part of the generator's version."""
    found: list[OpSpec] = []
    for family in FAMILIES:
        found.extend(importlib.import_module(f"generators.ops.{family}").OPS)
    keys = [spec.key for spec in found]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise ValueError(f"operators declared twice: {', '.join(twice)}")
    return tuple(found)


@functools.cache
def selection(profile: Profile) -> tuple[tuple[int, OpSpec], ...]:
    """The operators that a profile draws, with their weights.

    Raises UnknownName for a name without wildcards that nothing goes by, UsageError where nothing is left to draw.
    """
    known = {name for spec in catalogue() for name in spec.names()}
    for glob in (*profile.ops, *profile.exclude):
        if not any(mark in glob for mark in "*?[") and glob not in known:
            raise UnknownName("operator", glob, {spec.name for spec in catalogue()} | {name for name in known if ":" in name})
    chosen = tuple(
        (spec.weight, spec)
        for spec in catalogue()
        if (not profile.ops or any(matches(glob, spec.names()) for glob in profile.ops))
        and not any(matches(glob, spec.names()) for glob in profile.exclude)
        and any(dtype in profile.dtypes for dtype in spec.dtypes)
    )
    if not chosen:
        raise UsageError(f"profile {profile.text()!r} leaves no operator to draw")
    return chosen


@functools.cache
def weights(profile: Profile, lane: str) -> Table[OpSpec]:
    """The operators that a profile draws in one lane; there may be none in the exact lane.

    Those that always round count double elsewhere, since most cases are exact ones.
    """
    chosen = selection(profile)
    if lane == "exact":
        return Table([item for item in chosen if item[1].exact])
    return Table([(weight if spec.exact else 2 * weight, spec) for weight, spec in chosen])
