"""Durations, sizes and job counts as people write them, on the command line and in files."""

from __future__ import annotations

import os
import re

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_MEGABYTES = {"": 1, "M": 1, "MB": 1, "G": 1024, "GB": 1024}
MAX_SECONDS = 366 * 24 * 3600.0
MAX_MEGABYTES = 1 << 24


def seconds(text: str) -> float:
    """Seconds from `90`, `90s`, `30m` or `2h`; raises ValueError with a sentence."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,12})?)([smh]?)", text.strip(), re.ASCII)
    if not found or not 0 < float(found[1]) * _SECONDS[found[2]] <= MAX_SECONDS:
        raise ValueError(f"{text!r} is not a duration; write 90s, 30m or 2h")
    return float(found[1]) * _SECONDS[found[2]]


def megabytes(text: str) -> int:
    """Megabytes from `3072`, `3072M` or `3G`; raises ValueError with a sentence."""
    found = re.fullmatch(r"(\d{1,12})(M|MB|G|GB|)", text.strip(), re.ASCII)
    if not found or not 0 < int(found[1]) * _MEGABYTES[found[2]] <= MAX_MEGABYTES:
        raise ValueError(f"{text!r} is not a size; write 3072M or 3G")
    return int(found[1]) * _MEGABYTES[found[2]]


def jobs(text: str) -> int:
    """A number of jobs, or `auto` for one a processor; raises ValueError with a sentence."""
    if text == "auto":
        return len(os.sched_getaffinity(0))
    if not re.fullmatch(r"\d{1,6}", text.strip(), re.ASCII) or int(text) < 1:
        raise ValueError(f"{text!r} is neither a positive number nor auto")
    return int(text)
