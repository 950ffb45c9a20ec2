"""Activations, with their parameters, and softmax and its kin."""

from __future__ import annotations

from collections.abc import Callable

from generators import ranges
from generators.builder import Builder
from generators.ops.common import a_dim, must, written
from generators.ops.matmul import module_tensor, weight_spec
from generators.ops.unary import Extra, Rule, between, unary
from generators.ranges import Vals
from generators.sizes import same_dims
from generators.spec import OpSpec
from generators.types import FLOATS, INTS, WIDE
from harness.model.values import DType, Value

F = "torch.nn.functional."


def _act(
    name: str,
    layer: str,
    rule: Rule,
    *more: str,
    arguments: Callable[[Builder], Extra] | None = None,
    exact: bool = False,
    rounded: bool = True,
    dtypes: tuple[str, ...] = FLOATS,
    discontinuous: bool = False,
    weight: int = 3,
) -> OpSpec:
    spellings = (F + name, *((f"nn.{layer}",) if layer else ()), *more)
    return unary(
        name,
        spellings,
        rule,
        dtypes=dtypes,
        exact=exact,
        rounded=rounded,
        discontinuous=discontinuous,
        family="activation",
        weight=weight,
        arguments=arguments,
    )


def _relu_rule(v: Vals) -> Vals:
    return v.having(max(v.lo, 0.0), max(v.hi, 0.0))


def _slope(b: Builder) -> Extra:
    slope = b.choices.choose((0.5, 0.25, 2.0, 0.0) if b.is_exact else (0.01, 0.2, 0.5, 1.5))
    if slope == 0.01:
        return [], {}, lambda v: ranges.union(_relu_rule(v), ranges.mul(v, ranges.constant(0.01)))
    return [], {"negative_slope": slope}, lambda v: ranges.union(v, ranges.mul(v, ranges.constant(slope)))


def _limits(b: Builder) -> Extra:
    low, high = (-1.0, 1.0) if b.choices.coin(40) else b.choices.choose(((-2.0, 2.0), (0.0, 1.5), (-0.5, 0.25)))
    shown: dict[str, Value] = {} if (low, high) == (-1.0, 1.0) else {"min_val": low, "max_val": high}

    def rule(v: Vals) -> Vals:
        grain = None if v.grain is None else max(v.grain, 2)
        return Vals(min(max(v.lo, low), high), max(min(v.hi, high), low), grain, v.exact, v.special)

    return [], shown, rule


def _threshold(b: Builder) -> Extra:
    edge, value = b.choices.choose((0.5, 0.0, -1.0, 1.0)), b.choices.choose((0.0, -2.0, 5.0, 20.0))
    return [edge, value], {}, lambda v: ranges.union(v, ranges.constant(value))


def _lambda(soft: bool) -> Callable[[Builder], Extra]:
    def arguments(b: Builder) -> Extra:
        value = b.choices.choose((0.5, 0.25, 1.0))
        shown: list[Value] = [] if value == 0.5 and b.choices.coin(60) else [value]
        if soft:
            return shown, {}, lambda v: ranges.union(ranges.add(v, ranges.constant(value)), ranges.sub(v, ranges.constant(value)))
        return shown, {}, lambda v: ranges.union(v, ranges.constant(0))

    return arguments


def _elu_like(b: Builder) -> Extra:
    alpha = b.choices.choose((1.0, 0.5, 2.0, 1.3))
    return [], {} if alpha == 1.0 else {"alpha": alpha}, lambda v: v.rough(-alpha, max(v.hi, 0.0))


def _gelu(b: Builder) -> Extra:
    tanh = b.choices.coin(40)
    return [], {"approximate": "tanh"} if tanh else {}, lambda v: v.rough(-0.2, max(v.hi, 0.0))


def _softplus(b: Builder) -> Extra:
    kwargs: dict[str, Value] = {}
    if b.choices.coin(50):
        kwargs = {"beta": b.choices.choose((2, 0.5, 1)), "threshold": b.choices.choose((20, 1, 5))}
    return [], kwargs, lambda v: v.rough(0.0, max(v.hi, 0.0) + 2.0)


_RELU = ("torch.relu", ".relu", "aten.relu.default")


def _softmax(b: Builder) -> None:
    assert b.op is not None
    x = b.pick(FLOATS, rank=(1, 5) if b.choices.coin(92) else (0, 0))
    dim = a_dim(b, x) if x.dims else 0
    must(not x.dims or x.dims[dim].low > 0)
    kwargs: dict[str, Value] = {"dim": written(b, dim, x.rank)}
    log = b.op.name == "log_softmax"
    dtype = x.dtype
    if not b.as_module and b.op.name != "softmin" and b.choices.coin(12):
        dtype = {"float16": "float32", "bfloat16": "float32"}.get(x.dtype, "float64")
        kwargs["dtype"] = DType(dtype)
    vals = Vals(-2 * x.vals.peak - 10, 0.0, None, False, x.vals.special) if log else Vals(0.0, 1.0, None, False, x.vals.special)
    node = b.module([x.ref], (), kwargs) if b.as_module else b.call([x.ref], kwargs)
    b.result(node, dtype, x.dims, vals, contiguous=x.contiguous)


def _glu(b: Builder) -> None:
    x = b.pick(FLOATS, rank=(1, 5), where=lambda v: any(s.static and s.values[0] % 2 == 0 and s.values[0] for s in v.dims))
    dim = b.choices.choose([d for d, s in enumerate(x.dims) if s.static and s.values[0] % 2 == 0 and s.values[0]])
    args: list[Value] = [written(b, dim, x.rank)]
    node = b.module([x.ref], args) if b.as_module else b.call([x.ref, *args])
    dims = (*x.dims[:dim], b.size(x.dims[dim].values[0] // 2), *x.dims[dim + 1 :])
    b.result(node, x.dtype, dims, x.vals.rough(-x.vals.peak, x.vals.peak), contiguous=False)


def _prelu(b: Builder) -> None:
    x = b.pick(WIDE, rank=(1, 5), where=lambda v: not v.dims or v.rank < 2 or v.dims[1].low > 0)
    many = x.rank >= 2 and x.dims[1].static and b.choices.coin(50)
    dims = (x.dims[1],) if many else (b.one,)
    if b.as_module:
        filling = module_tensor(b, x.dtype)
        vals = filling.vals(x.dtype, False)
        kwargs: dict[str, Value] = {} if x.dtype == "float32" else {"dtype": DType(x.dtype)}
        node = b.module([x.ref], [dims[0].dim], kwargs, state={"weight": weight_spec(x.dtype, dims)}, fillings={"weight": filling})
    else:
        w = b.pick((x.dtype,), rank=(1, 1), where=lambda v: same_dims(v.dims, dims), dims=lambda: dims, fresh=70)
        node, vals = b.call([x.ref, w.ref]), w.vals
    b.result(node, x.dtype, x.dims, ranges.union(x.vals, ranges.mul(x.vals, vals)), contiguous=False)


def _dropout(b: Builder) -> None:
    """Dropout in evaluation mode, which is the identity."""
    assert b.op is not None
    x = b.pick(FLOATS, rank=(0, 4) if b.op.name == "dropout" else (4, 4))
    p = b.choices.choose((0.5, 0.1, 0.0))
    node = b.module([x.ref], [p] if b.choices.coin(70) else []) if b.as_module else b.call([x.ref], {"p": p, "training": False})
    b.result(node, x.dtype, x.dims, x.vals, alias=x, contiguous=x.contiguous)


def _identity(b: Builder) -> None:
    x = b.pick((*FLOATS, *INTS, "bool"))
    b.result(b.module([x.ref]), x.dtype, x.dims, x.vals, alias=x, contiguous=x.contiguous, overlapping=x.overlapping)


def _spec(
    name: str,
    draw: Callable[[Builder], None],
    spellings: tuple[str, ...],
    dtypes: tuple[str, ...] = FLOATS,
    *,
    exact: bool = False,
    weight: int = 3,
) -> OpSpec:
    return OpSpec(name, "activation", spellings, draw, dtypes, exact, weight)


OPS: tuple[OpSpec, ...] = (
    unary(
        "relu",
        (F + "relu", "nn.ReLU", "nn.ReLU", *_RELU),
        _relu_rule,
        dtypes=(*FLOATS, *INTS),
        exact=True,
        rounded=False,
        family="activation",
        weight=9,
    ),
    _act("relu6", "ReLU6", lambda v: v.having(min(max(v.lo, 0.0), 6.0), min(max(v.hi, 0.0), 6.0)), exact=True, rounded=False),
    _act("hardtanh", "Hardtanh", lambda v: v, arguments=_limits, exact=True, rounded=False),
    _act("leaky_relu", "LeakyReLU", lambda v: v, arguments=_slope, exact=True, weight=4),
    _act("threshold", "Threshold", lambda v: v, arguments=_threshold, exact=True, rounded=False, discontinuous=True, weight=2),
    _act("hardshrink", "Hardshrink", lambda v: v, arguments=_lambda(False), exact=True, rounded=False, discontinuous=True, weight=2),
    _act("softshrink", "Softshrink", lambda v: v, arguments=_lambda(True), exact=True, weight=2),
    _act("elu", "ELU", lambda v: v, arguments=_elu_like, weight=4),
    _act("celu", "CELU", lambda v: v, arguments=_elu_like, weight=2),
    _act("selu", "SELU", lambda v: v.rough(-1.8, max(v.hi, 0.0) * 1.06)),
    _act("gelu", "GELU", lambda v: v, arguments=_gelu, weight=6),
    _act("silu", "SiLU", lambda v: v.rough(-0.3, max(v.hi, 0.0)), weight=5),
    _act("mish", "Mish", lambda v: v.rough(-0.4, max(v.hi, 0.0))),
    _act("softplus", "Softplus", lambda v: v, arguments=_softplus, weight=4),
    _act("softsign", "Softsign", between(-1.0, 1.0), weight=2),
    _act("tanhshrink", "Tanhshrink", lambda v: v.rough(-v.peak, v.peak), weight=2),
    _act("logsigmoid", "LogSigmoid", lambda v: v.rough(-max(v.peak, 0.0) - 1, 0.0), weight=3),
    _act("hardsigmoid", "Hardsigmoid", between(0.0, 1.0), weight=4),
    _act("hardswish", "Hardswish", lambda v: v.rough(-0.5, max(v.hi, 0.0)), weight=4),
    _spec("softmax", _softmax, (F + "softmax", "torch.softmax", ".softmax", "nn.Softmax"), weight=8),
    _spec("log_softmax", _softmax, (F + "log_softmax", "torch.log_softmax", ".log_softmax", "nn.LogSoftmax"), weight=5),
    _spec("softmin", _softmax, (F + "softmin", "nn.Softmin"), weight=2),
    _spec("glu", _glu, (F + "glu", "nn.GLU")),
    _spec("prelu", _prelu, (F + "prelu", "torch.prelu", "nn.PReLU", "nn.PReLU"), WIDE, exact=True, weight=4),
    _spec("dropout", _dropout, (F + "dropout", "nn.Dropout"), exact=True, weight=2),
    _spec("dropout2d", _dropout, (F + "dropout2d", "nn.Dropout2d"), exact=True, weight=1),
    _spec("identity", _identity, ("nn.Identity",), (*FLOATS, *INTS, "bool"), exact=True, weight=1),
)
