"""How far apart two right answers may be, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.model.dtypes import Array
from oracles.history import Grade
from oracles.spans import epsilon

SPREADS = 16.0  # a spread is one nudge's; other orders of evaluation move further
POOLED = 4.0  # an element's own nudges may cancel, the tensor's median seldom does
FEW = 8
ILL_CONDITIONED = 0.03  # a nudge of one ulp that moves an element by this share of itself
HOPELESS = 0.25  # a tolerance of this share of the tensor's peak decides nothing


def allowance(expected: Array, grade: Grade, dtype: str, spread: Array | None) -> tuple[Any, Any]:
    """The tolerance of each element, and where no decision is possible.

    `expected` and `spread` are real float64 arrays of one shape.
    """
    eps = max(grade.eps, epsilon(dtype))
    magnitude = np.where(np.isfinite(expected), np.abs(expected), 0.0)
    peak = float(magnitude.max(initial=0.0))
    base = eps * grade.ulps * (magnitude + 0.25 * min(1.0, peak)) + eps * 0.5 * magnitude
    tiny = 2.0 ** (-14 if dtype == "float16" else -1000 if dtype == "float64" else -126) * 4
    if spread is None or spread.shape != expected.shape:
        tolerance = base + grade.loose * peak + tiny
        return tolerance, np.full(expected.shape, bool(eps * grade.ulps + grade.loose > HOPELESS))
    unknown = ~np.isfinite(spread)
    known = np.where(unknown, 0.0, spread)
    middle = float(np.median(known)) if known.size else 0.0
    # Nudges can cancel; where few elements were nudged, none may have shown the conditioning.
    general = grade.rough if known.size >= FEW else grade.loose
    tolerance = base + general * peak + SPREADS * known + POOLED * middle + tiny
    typical = float(np.median(magnitude)) if magnitude.size else 0.0
    ill = known > ILL_CONDITIONED * np.maximum(magnitude, typical)
    return tolerance, unknown | ill | bool(eps * grade.ulps + grade.rough > HOPELESS)
