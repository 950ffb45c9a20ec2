"""What the oracles may overlook: switches for special values, tolerances by operator, kinds to leave out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.model.verdict import Kind


@dataclass(frozen=True, slots=True)
class Policy:
    """The switches of one run; a class that is off yields no verdict, however far the values are apart.

    `nan`, `inf`: not-a-number and infinities in inputs or intermediate results. `overflow`: results at the edge of the
    dtype's range. `signed_zero`: 0.0 against -0.0. `out_of_range`: float to integer casts that do not fit and shifts
    past the width, which C leaves undefined. `ties`: which of several equal elements an index names. `tolerance`
    replaces an operator's allowance, in units of the dtype's epsilon, by canonical name.
    """

    nan: bool = True
    inf: bool = True
    overflow: bool = True
    signed_zero: bool = False
    out_of_range: bool = False
    ties: bool = False
    tolerance: Mapping[str, float] = field(default_factory=dict)
    ignored: frozenset[Kind] = frozenset()

    def judges(self, special: str) -> bool:
        """Whether the special class of this name is on."""
        return bool(getattr(self, special.replace("-", "_")))


DEFAULT = Policy()
