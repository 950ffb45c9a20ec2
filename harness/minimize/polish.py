"""The last step of minimization: inputs that a reader can tell apart, where the bug does not mind.

To the reducer nothing is simpler than zeros, and a result of zeros shows a reader little: not which element went where.
So tensors whose elements are all alike are counted out, 1, 2, 3 and on, where the disagreement stays. What comes out does
not depend on whether the case was polished before: reduced again it is counted out again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from harness.minimize.edits import map_placeholder
from harness.minimize.passes import Traces
from harness.minimize.reduce import Interesting
from harness.model.case import Case
from harness.model.dtypes import DTYPES, Array, widen
from harness.model.program import TensorSpec
from harness.model.values import Tensor

MAX_ELEMENTS = 64  # of which a reader still looks at each; and bfloat16 tells no more whole numbers than 256 apart


def polish(case: Case, traces: Traces, interesting: Interesting, *, deadline: float = float("inf")) -> tuple[Case, Traces]:
    """The case with its plain tensors counted out as far as `interesting` goes along: all at once, else one by one.

    No candidate is run after `deadline`, on time.monotonic's clock.
    """
    names = [node.name for node in case.program.placeholders if _is_dull(case, node.name)]
    for group in [names, *([name] for name in names)] if len(names) > 1 else [names]:
        candidate = _counted(case, group) if group else None
        if candidate is None or time.monotonic() > deadline:
            continue
        found = interesting(candidate)
        if found is not None:
            case, traces = candidate, found
            if group is names:
                break
    return case, traces


def _is_dull(case: Case, name: str) -> bool:
    """Whether a tensor holds one and the same finite number everywhere, which is no NaN and no -0.0 that a bug might need."""
    spec = case.program.node(name).spec
    if not isinstance(spec, TensorSpec) or spec.storage is not None or DTYPES[spec.dtype].kind == "bool":
        return False
    for index in range(len(case.calls)):
        value = case.arguments(index)[name]
        assert isinstance(value, Tensor)
        elements = widen(value.array(), spec.dtype).reshape(-1)
        if not 0 < elements.size <= MAX_ELEMENTS or not np.isfinite(elements).all() or (elements != elements[0]).any():
            return False
        if DTYPES[spec.dtype].kind == "float" and ((elements == 0) & np.signbit(elements)).any():
            return False
        if elements.size == 1 and elements[0] == 1:
            return False  # counted out already
    return True


def _counted(case: Case, names: Sequence[str]) -> Case | None:
    changed: Case | None = case
    for name in names:
        spec = changed.program.node(name).spec if changed is not None else None
        if changed is None or not isinstance(spec, TensorSpec):
            return None
        changed = map_placeholder(changed, name, spec, _count)
    return changed


def _count(values: Array, dtype: str) -> Array:
    return np.arange(1, values.size + 1).reshape(values.shape)
