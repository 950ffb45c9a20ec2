"""What happened to each value on its way: exact or rounded, how often, near which steps, through which special values.

The reference's trace is walked once, and only when two results differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from harness.model.case import Case
from harness.model.dtypes import DTYPES
from harness.model.opnames import canonical
from harness.model.outcome import NodeTrace, Witness
from harness.model.program import Node
from harness.model.values import Ref, Tensor, leaves
from oracles import operators as op
from oracles.exactness import contraction, is_exact
from oracles.margins import edge, has_ties, margin, out_of_range, writes_twice
from oracles.operands import Operands, has_nonfinite
from oracles.policy import Policy
from oracles.spans import epsilon, largest, measure_value, parts

_LOW_PRECISION = 2.0**-10
_LOW_PRECISION_ULPS = 6.0
_SAFETY = 8.0
# Steps whose float result takes the same value on a whole stretch of inputs.
_FLAT = op.names("floor ceil round trunc sign sgn heaviside")


@dataclass(frozen=True, slots=True)
class Grade:
    """How far a value may differ between two right implementations.

    `ulps` roundings of relative size `eps` each; `rough` adds an error relative to the tensor's peak, from sums; `loose`
    the same where no measured spread is at hand. `doubt` says why the value proves nothing; `special` names the classes
    of special values met; `peak` is the largest magnitude of any intermediate number.
    """

    exact: bool = True
    ulps: float = 0.0
    eps: float = 0.0
    rough: float = 0.0
    loose: float = 0.0
    doubt: str = ""
    special: frozenset[str] = frozenset()
    peak: float = 0.0
    overflows: bool = False


EXACT = Grade()
# Where modes `grad` and `train` put the program's own output, beside the gradients.
FORWARD = "['output']"
Graded = Grade | tuple[Grade, Grade]


def join(grades: Iterable[Grade]) -> Grade:
    """The grade of what may depend on all of these."""
    given = list(grades)
    if not given:
        return EXACT
    if len(given) == 1:
        return given[0]
    return Grade(
        all(grade.exact for grade in given),
        max(grade.ulps for grade in given),
        max(grade.eps for grade in given),
        max(grade.rough for grade in given),
        max(grade.loose for grade in given),
        next((grade.doubt for grade in given if grade.doubt), ""),
        frozenset().union(*(grade.special for grade in given)),
        max(grade.peak for grade in given),
        any(grade.overflows for grade in given),
    )


def whole(graded: Graded) -> Grade:
    """A node's grade as one, both parts of a pair taken together."""
    return join(graded) if isinstance(graded, tuple) else graded


def node_grade(operands: Operands, inputs: Mapping[str, Grade], policy: Policy) -> Graded:
    """The grade of one node's result, given those of what it reads; a pair for (values, indices)."""
    name = operands.name
    if name in op.INDEPENDENT:
        return EXACT
    before = join(inputs.values())
    special = set(before.special | has_nonfinite([*operands.tensors, *operands.outputs]))
    if out_of_range(operands):
        special.add("out-of-range")
    doubt = before.doubt
    if name in op.UNDETERMINED and not (name in op.DROPOUT and is_exact(operands)):
        doubt = doubt or f"{operands.node.name} is not determined"
    elif writes_twice(operands):
        doubt = doubt or f"{operands.node.name} writes one place twice"
    elif name.startswith("conv") and has_nonfinite([*operands.tensors[1:2], *operands.state.values()]):
        # Whether the zeros of the padding are multiplied by it, which gives NaN, or skipped is nowhere said.
        doubt = doubt or f"{operands.node.name} has a weight that is not finite"
    elif name == "scaled_dot_product_attention" and has_nonfinite(operands.tensors):
        # PyTorch 2.13 picks a kernel by memory layout, and they differ in whether a NaN reaches other rows of its block.
        doubt = doubt or f"{operands.node.name} attends to what is not finite"
    elif name == "topk" and operands.argument(4, "sorted", True) is False:
        doubt = doubt or f"{operands.node.name} promises no order"
    own_exact = is_exact(operands)
    grade = replace(before, special=frozenset(special), doubt=doubt, peak=max(before.peak, operands.peak))
    grade = _carry(operands, inputs, grade)
    if not own_exact:
        grade = _round(operands, inputs, grade, before, policy)
    return _steps(operands, grade, before, own_exact)


def _carry(operands: Operands, inputs: Mapping[str, Grade], grade: Grade) -> Grade:
    """Errors relative to a peak, seen from this node's own peak: what only moves or adds keeps the absolute size."""
    if grade.exact or not (operands.name in op.MOVEMENT or operands.name in op.SELECTION or operands.name in op.ADDITIVE):
        return grade
    if operands.peak == 0:
        return grade
    rough = loose = 0.0
    adds = operands.name in op.ADDITIVE
    for ref, each in inputs.items():
        peak = max((measure_value(value).peak for value in operands.read(ref)), default=0.0)
        ratio = min(peak / operands.peak, 1e30)
        rough = max(rough, each.rough * ratio)
        loose = max(loose, (each.loose + (each.eps * each.ulps if adds else 0.0)) * ratio)
    return replace(grade, rough=rough * (2 if adds else 1), loose=max(rough, loose) * (2 if adds else 1))


def _round(operands: Operands, inputs: Mapping[str, Grade], grade: Grade, before: Grade, policy: Policy) -> Grade:
    name = operands.name
    dtypes = [tensor.dtype for tensor in (*operands.outputs, *operands.tensors)]
    eps = max((epsilon(tensor.dtype) for tensor in operands.outputs), default=0.0) or max(map(epsilon, dtypes), default=0.0)
    ulps = policy.tolerance.get(name, op.ULPS.get(name, op.DEFAULT_ULPS))
    scale, out = 0.0, operands.peak or 1.0
    if name in op.DOTS or name in op.SUMS or name in op.MEANS or name in op.LOSSES:
        count = contraction(operands)
        ulps += math.sqrt(count)
        peaks = [measure_value(tensor).peak for tensor in operands.tensors]
        product = math.prod(peaks[:2]) if name in op.DOTS else max(peaks, default=0.0)
        if name == "mse_loss":
            product = product * product * 4
        scale = max(product * (1.0 if name in op.MEANS else math.sqrt(count)), *peaks[2:], 0.0)
    elif name in op.INPUT_SCALED:
        count = max((max(tensor.shape, default=1) for tensor in operands.tensors), default=1)
        ulps += math.sqrt(count)
        scale = max([operands.peak, *(measure_value(tensor).peak for tensor in operands.tensors)])
        if name in ("prod", "cumprod"):
            ulps, scale = 2.0 * max(1, count), operands.peak
        if name in op.NORMALIZATIONS:
            scale = max(scale, operands.peak * amplification(operands))
    if name not in policy.tolerance and eps >= _LOW_PRECISION:
        ulps = min(ulps, _LOW_PRECISION_ULPS)
    rough = eps * ulps * min(scale / out, 1e30)
    # Without a measured spread: a smooth function may keep the relative error of its operand, or the absolute one.
    moved = max((measure_value(value).peak for ref, each in inputs.items() if not each.exact for value in operands.read(ref)), default=0.0)
    moved *= before.loose + before.eps * before.ulps
    pointwise = eps * ulps + moved * max(1.0, min(1 / out, 1e30)) if not before.exact else 0.0
    return replace(
        grade,
        exact=False,
        ulps=grade.ulps + ulps,
        eps=max(grade.eps, eps),
        rough=grade.rough + rough,
        loose=max(grade.loose, grade.rough) + rough + pointwise,
        peak=max(grade.peak, scale),
        overflows=grade.overflows or any(DTYPES[d].mantissa and max(grade.peak, scale) * 8 > largest(d) for d in dtypes),
    )


def amplification(operands: Operands) -> float:
    """How much a normalization magnifies its input's rounding: the largest magnitude over the spread of its group."""
    source = operands.tensors[0]
    if not source.shape or 0 in source.shape:
        return 1.0
    x = parts(source.array(), source.dtype).astype(np.float64)
    if "layer_norm" in operands.name or operands.name == "rms_norm":
        shape = operands.argument(1, "normalized_shape", source.shape[-1:])
        rank = len(shape) if isinstance(shape, tuple | list) else 1
        groups = x.reshape((-1, math.prod(source.shape[max(0, x.ndim - rank) :])))
    elif operands.name == "batch_norm" or operands.name == "native_batch_norm":
        groups = np.moveaxis(x, 1, 0).reshape((x.shape[1], -1)) if x.ndim > 1 else x.reshape((1, -1))
    elif (
        "group_norm" in operands.name
        and isinstance(count := operands.argument(1, "num_groups"), int)
        and x.size % (x.shape[0] * count) == 0
    ):
        groups = x.reshape((x.shape[0] * count, -1))
    else:
        groups = x.reshape((math.prod(x.shape[:2]), -1)) if x.ndim > 2 else x.reshape((1, -1))
    small = operands.trace.kwargs.get("eps", 1e-5)
    with np.errstate(all="ignore"):
        ratios = np.abs(groups).max(axis=1) / np.sqrt(groups.var(axis=1) + (small if isinstance(small, float) else 1e-5))
    finite = ratios[np.isfinite(ratios)]
    return float(finite.max(initial=1.0))


def _steps(operands: Operands, grade: Grade, before: Grade, own_exact: bool) -> Graded:
    """Doubt where a difference within tolerance could have flipped a step; ties where an index is not determined."""
    name = operands.name
    discrete = bool(operands.outputs) and all(not DTYPES[tensor.dtype].mantissa for tensor in operands.outputs)
    pair = name in op.PAIRS and len(operands.outputs) == 2
    stepping = (
        pair or discrete or name in op.STEPS or name in op.ROUNDING_STEPS or (name == "div" and operands.trace.kwargs.get("rounding_mode"))
    )
    near = discrete and not own_exact
    if not before.exact or (not own_exact and (name in op.ROUNDING_STEPS or name == "div")):
        peak = max((measure_value(tensor).peak for tensor in operands.tensors), default=0.0)
        error = _SAFETY * (before.loose + max(before.eps, grade.eps) * max(before.ulps, 1.0)) * peak
        if stepping:
            distance = margin(operands)
            near = near or distance is None or distance <= error
        else:
            near = near or edge(operands) <= error
    doubted = replace(grade, doubt=grade.doubt or f"{operands.node.name} is near a step") if near else grade
    if (discrete or pair or name in _FLAT) and not near:
        doubted = replace(doubted, exact=True, ulps=0.0, eps=0.0, rough=0.0, loose=0.0)
    tied = (pair or name in op.INDICES) and has_ties(operands)
    chosen = replace(doubted, special=doubted.special | {"ties"}) if tied else doubted
    if pair:
        values = grade if name != "mode" else doubted
        return values, chosen
    return chosen if name in op.INDICES else doubted


class History:
    """Grades of every node of one call, and of every place of its output."""

    def __init__(self, case: Case, call: int, witness: Witness | None, policy: Policy) -> None:
        self.case = case
        self.policy = policy
        self.traces: dict[str, NodeTrace] = {trace.name: trace for trace in witness.trace} if witness is not None else {}
        self.nodes: dict[str, Node] = {node.name: node for node in case.program}
        self.operands: dict[str, Operands] = {}
        self._grades: dict[str, Graded] = {}
        self._inputs = self._input_grades(call)
        self._walk()

    def _input_grades(self, call: int) -> dict[str, Grade]:
        result = {}
        for name, value in self.case.arguments(call).items():
            special = has_nonfinite([value]) if isinstance(value, Tensor) else frozenset()
            result[name] = Grade(special=special)
        return result

    def _walk(self) -> None:
        self._grades.update(self._inputs)
        aliases = self._aliases()
        for node in self.case.program.operators:
            trace = self.traces.get(node.name)
            inputs = {name: whole(self._grades[name]) for name in node.inputs() if name in self._grades}
            if trace is None:
                self._grades[node.name] = self._unseen(node, join(inputs.values()))
                continue
            operands = self.operands[node.name] = Operands(self.case, node, trace)
            if operands.name == "getitem" and len(node.args) == 2 and isinstance(node.args[0], Ref) and node.args[1] in (0, 1):
                source = self._grades[node.args[0].node]
                if isinstance(source, tuple):
                    self._grades[node.name] = source[int(node.args[1])]
                    continue
            graded = node_grade(operands, inputs, self.policy)
            self._grades[node.name] = graded
            if operands.in_place or trace.unit is not None:
                written = whole(graded)
                for name in aliases.get(trace.unit or "", set()) | self._written(operands):
                    self._grades[name] = join((whole(self._grades.get(name, EXACT)), written))

    def _written(self, operands: Operands) -> set[str]:
        if not operands.in_place:
            return set()
        return {ref for ref in operands.node.inputs() if ref in self._inputs} | set(operands.node.inputs()[:1])

    def _aliases(self) -> dict[str, set[str]]:
        units: dict[str, set[str]] = {}
        for trace in self.traces.values():
            if trace.unit is not None and trace.name in self.nodes:
                units.setdefault(trace.unit, set()).update([trace.name, *self.nodes[trace.name].inputs()[:1]])
        return units

    def _unseen(self, node: Node, before: Grade) -> Grade:
        name = op.base_name(canonical(node, self.case.program))
        if name in op.MOVEMENT:
            return before
        return replace(before, exact=False, doubt=before.doubt or f"{node.name} was not traced")

    def of_node(self, name: str) -> Graded:
        """The grade of a node's result at the end of the call."""
        return self._grades.get(name, EXACT)

    def source(self, path: str) -> tuple[str, str] | None:
        """The node that an output place comes from, and the place within that node's result."""
        if self.case.mode != "fwd":
            path = path.removeprefix(FORWARD)
        for at, leaf in leaves(self.case.program.output):
            if isinstance(leaf, Ref) and path.startswith(at):
                return leaf.node, path[len(at) :]
        return None

    def of_output(self, path: str) -> Grade:
        """The grade of one place of the output; gradients count as rounded wherever anything was computed."""
        if self.case.mode != "fwd" and not path.startswith(FORWARD):
            return self._of_gradient()
        found = self.source(path)
        if found is None:
            return whole(join([whole(grade) for grade in self._grades.values()]))
        return part(self.of_node(found[0]), found[1])

    def _of_gradient(self) -> Grade:
        grade = self.of_mutated()
        tensors = [value for value in self.case.arguments(0).values() if isinstance(value, Tensor)]
        eps = max([grade.eps, *(epsilon(tensor.dtype) for tensor in tensors)])
        ulps = 2 * grade.ulps + op.DEFAULT_ULPS * max(1, len(self.case.program.operators))
        return replace(grade, exact=False, eps=eps, ulps=ulps, rough=2 * grade.rough + eps * ulps, loose=2 * grade.loose + eps * ulps)

    def of_mutated(self) -> Grade:
        """The grade of what the call wrote into its arguments."""
        return join(whole(grade) for grade in self._grades.values())


def part(graded: Graded, place: str) -> Grade:
    """The grade of `[0]` or `[1]` of a pair, or of the whole."""
    if isinstance(graded, tuple):
        return graded[0] if place.startswith("[0]") else graded[1] if place.startswith("[1]") else join(graded)
    return graded
