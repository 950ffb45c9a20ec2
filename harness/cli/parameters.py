"""Parameter types that several verbs share."""

from __future__ import annotations

import re
from typing import Any

import click

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_SIZES = {"": 1, "M": 1, "MB": 1, "G": 1024, "GB": 1024}


class Duration(click.ParamType[Any]):
    """Seconds, given as `90`, `90s`, `30m` or `2h`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds as a float; fails for anything that is not a positive duration."""
        if isinstance(value, int | float):
            return float(value)
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", str(value).strip())
        if not found or float(found[1]) <= 0:
            self.fail(f"{value!r} is not a duration; write 90s, 30m or 2h", param, ctx)
        return float(found[1]) * _UNITS[found[2]]


class Megabytes(click.ParamType[Any]):
    """A size in megabytes, given as `3072`, `3072M` or `3G`."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Megabytes as an int; fails for anything that is not a positive size."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d+)(M|MB|G|GB|)", str(value).strip())
        if not found or int(found[1]) <= 0:
            self.fail(f"{value!r} is not a size; write 3072M or 3G", param, ctx)
        return int(found[1]) * _SIZES[found[2]]


class Jobs(click.ParamType[Any]):
    """A number of jobs, or `auto` for one a processor."""

    name = "jobs"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of jobs; fails below 1."""
        import os

        if value == "auto":
            return len(os.sched_getaffinity(0))
        try:
            jobs = int(value)
        except (TypeError, ValueError):
            jobs = 0
        if jobs < 1:
            self.fail(f"{value!r} is neither a positive number nor auto", param, ctx)
        return jobs


class Range(click.ParamType[Any]):
    """Case numbers `i..j`, both included."""

    name = "range"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """First and last case number."""
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", str(value).strip())
        if not found or (found[2] and int(found[2]) < int(found[1])):
            self.fail(f"{value!r} is no range of cases; write 17 or 17..42", param, ctx)
        return int(found[1]), int(found[2] or found[1])
