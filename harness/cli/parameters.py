"""Parameter types that several verbs share."""

from __future__ import annotations

import re
from typing import Any

import click

from harness.config import units


class Duration(click.ParamType[Any]):
    """Seconds, given as `90`, `90s`, `30m` or `2h`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds as a float; fails for anything that is not a positive duration."""
        if isinstance(value, int | float):
            return float(value)
        try:
            return units.seconds(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Megabytes(click.ParamType[Any]):
    """A size in megabytes, given as `3072`, `3072M` or `3G`."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Megabytes as an int; fails for anything that is not a positive size."""
        if isinstance(value, int):
            return value
        try:
            return units.megabytes(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Jobs(click.ParamType[Any]):
    """A number of jobs, or `auto` for one a processor."""

    name = "jobs"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of jobs; fails below 1."""
        try:
            return units.jobs(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


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
