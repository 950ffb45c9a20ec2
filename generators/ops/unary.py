"""Pointwise functions of one tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from generators import ranges
from generators.builder import Builder
from generators.filling import EVERYWHERE
from generators.ranges import BOOLEAN, Vals
from generators.spec import OpSpec, Skip
from generators.types import ALL, FLOATS, INTS, NUMERIC, WIDE, is_float, to_float
from harness.model.values import Value

Rule = Callable[[Vals], Vals]
Extra = tuple[list[Value], dict[str, Value], Rule]


def functions(name: str, *more: str, method: bool = True, aten: bool = True) -> tuple[str, ...]:
    """The usual spellings of an operator of the torch namespace."""
    return (f"torch.{name}", *((f".{name}",) if method else ()), *((f"aten.{name}.default",) if aten else ()), *more)


def bounded(vals: Vals, rule: Rule, special_lane: bool) -> Vals:
    """`rule` of `vals`; outside the function's domain the special lane goes on, the others skip."""
    try:
        result = rule(vals)
    except (ValueError, OverflowError, ZeroDivisionError):
        if special_lane:
            return Vals(-1e3, 1e3, None, False, True)
        raise Skip from None
    if special_lane and vals.special:
        return replace(result, special=True)
    return result


def unary(
    name: str,
    spellings: tuple[str, ...],
    rule: Rule,
    *,
    dtypes: tuple[str, ...] = FLOATS,
    result: str = "same",
    exact: bool = False,
    rounded: bool = True,
    domain: tuple[float, float] = EVERYWHERE,
    discontinuous: bool = False,
    family: str = "pointwise",
    weight: int = 3,
    aliases: bool = False,
    signed: bool = False,
    arguments: Callable[[Builder], Extra] | None = None,
) -> OpSpec:
    """Declare a pointwise function: `rule` bounds its values, `result` is `same`, `float` or `bool` dtype.

    `discontinuous` functions only read values that every implementation computes alike. `aliases` says that the argument
    itself is returned, `signed` that 0.0 and -0.0 differ to it. `arguments` draws further positional and keyword arguments
    (a module takes them in its constructor) and the rule under them.
    """

    def draw(b: Builder) -> None:
        x = b.pick(dtypes, domain=domain, exact=discontinuous, where=b.signs_zeros if signed else None)
        args, kwargs, under = arguments(b) if arguments else ([], {}, rule)
        node = b.module([x.ref], args, kwargs) if b.as_module else b.call([x.ref, *args], kwargs)
        dtype = {"same": x.dtype, "float": to_float(x.dtype), "bool": "bool"}[result]
        vals = BOOLEAN if result == "bool" else bounded(x.vals, under, b.lane == "special")
        if vals.grain is None and rounded:
            vals = replace(vals, exact=False, distinct=False)
        if is_float(dtype) and domain is not EVERYWHERE and not x.vals.within(*domain):
            vals = replace(vals, special=True)
        b.result(node, dtype, x.dims, vals, contiguous=x.contiguous, alias=x if aliases else None)

    return OpSpec(name, family, spellings, draw, dtypes, exact, weight)


def smooth(function: Callable[[float], float]) -> Rule:
    """The rule of an increasing function that rounds."""
    return lambda v: v.rough(function(v.lo), function(v.hi))


def falling(function: Callable[[float], float]) -> Rule:
    """The rule of a decreasing function that rounds."""
    return lambda v: v.rough(function(v.hi), function(v.lo))


def between(lo: float, hi: float) -> Rule:
    """The rule of a function with a fixed range that rounds."""
    return lambda v: v.rough(lo, hi)


def clipped(lo: float, hi: float) -> Rule:
    """The rule of a function that clamps."""
    return lambda v: v.having(min(max(v.lo, lo), hi), min(max(v.hi, lo), hi))


def _abs(v: Vals) -> Vals:
    low = 0.0 if v.lo <= 0 <= v.hi else min(abs(v.lo), abs(v.hi))
    return v.having(low, v.peak)


def _square(v: Vals) -> Vals:
    return replace(ranges.mul(v, v), lo=0.0)


def _round_decimals(b: Builder) -> Extra:
    if b.spelling.startswith("aten") or b.choices.coin(70):
        return [], {}, lambda v: ranges.whole(v, round)
    if b.is_exact:
        raise Skip
    decimals = b.choices.choose((0, 1, -1, 2))
    return [], {"decimals": decimals}, lambda v: v.rough(v.lo - 5, v.hi + 5)


def _clamp_args(b: Builder) -> Extra:
    low = b.choices.choose((-1, 0, -0.5, -2, 0.25, None))
    high = b.choices.choose((1, 2, 0.5, 6, None, 1.25))
    if low is None and high is None:
        low = 0
    lo = -math.inf if low is None else float(low)
    hi = math.inf if high is None else float(high)
    # Where min exceeds max the result is max.
    kwargs: dict[str, Value] = {}
    if low is not None:
        kwargs["min"] = low
    if high is not None:
        kwargs["max"] = high
    rule: Rule = lambda v: Vals(  # noqa: E731
        min(max(v.lo, lo), hi), min(max(v.hi, lo), hi), None if v.grain is None else max(v.grain, 2), v.exact, v.special
    )
    return [], kwargs, rule


def _nan_to_num_args(b: Builder) -> Extra:
    kwargs: dict[str, Value] = {}
    if b.choices.coin(60):
        kwargs = {
            "nan": b.choices.choose((0.0, 1.0, -2.5)),
            "posinf": b.choices.choose((8.0, None)),
            "neginf": b.choices.choose((-8.0, None)),
        }
    return [], kwargs, lambda v: v.having(min(v.lo, -8.0), max(v.hi, 8.0)) if v.special else v


def _logit_args(b: Builder) -> Extra:
    return [], {"eps": b.choices.choose((1e-3, 0.125))}, between(-7.0, 7.0)


_EXACT = (
    unary("abs", functions("abs", "operator.abs", "torch.absolute"), _abs, dtypes=NUMERIC, exact=True, rounded=False),
    unary("neg", functions("neg", "operator.neg", "torch.negative"), ranges.neg, dtypes=(*FLOATS, *INTS), exact=True, rounded=False),
    unary(
        "positive", functions("positive", "operator.pos"), lambda v: v, dtypes=NUMERIC, exact=True, rounded=False, weight=1, aliases=True
    ),
    unary(
        "sign",
        functions("sign"),
        lambda v: Vals(-1.0 if v.lo < 0 else 0.0, 1.0, 0, v.exact, v.special),
        dtypes=NUMERIC,
        exact=True,
        discontinuous=True,
    ),
    unary(
        "sgn",
        functions("sgn"),
        lambda v: Vals(-1.0 if v.lo < 0 else 0.0, 1.0, 0, v.exact, v.special),
        dtypes=NUMERIC,
        exact=True,
        discontinuous=True,
        weight=1,
    ),
    unary("floor", functions("floor"), lambda v: ranges.whole(v, math.floor), dtypes=NUMERIC, exact=True, discontinuous=True),
    unary("ceil", functions("ceil"), lambda v: ranges.whole(v, math.ceil), dtypes=NUMERIC, exact=True, discontinuous=True),
    unary("trunc", functions("trunc", "torch.fix"), lambda v: ranges.whole(v, math.trunc), dtypes=NUMERIC, exact=True, discontinuous=True),
    unary("round", functions("round"), lambda v: ranges.whole(v, round), exact=True, discontinuous=True, arguments=_round_decimals),
    unary("frac", functions("frac"), lambda v: v.having(-1.0, 1.0), exact=True, discontinuous=True, weight=1),
    unary("square", functions("square"), _square, dtypes=NUMERIC, exact=True),
    unary("clamp", functions("clamp", "torch.clip"), lambda v: v, dtypes=FLOATS, exact=True, rounded=False, arguments=_clamp_args),
    unary(
        "nan_to_num",
        functions("nan_to_num"),
        lambda v: v,
        exact=True,
        rounded=False,
        arguments=_nan_to_num_args,
        weight=2,
    ),
    unary("logical_not", functions("logical_not"), lambda v: BOOLEAN, dtypes=ALL, result="bool", exact=True, discontinuous=True),
    unary("isnan", functions("isnan"), lambda v: BOOLEAN, dtypes=NUMERIC, result="bool", exact=True, discontinuous=True, weight=2),
    unary("isinf", functions("isinf"), lambda v: BOOLEAN, dtypes=NUMERIC, result="bool", exact=True, discontinuous=True, weight=2),
    unary(
        "isfinite",
        functions("isfinite", aten=False),
        lambda v: BOOLEAN,
        dtypes=NUMERIC,
        result="bool",
        exact=True,
        discontinuous=True,
        weight=2,
    ),
    unary(
        "signbit",
        functions("signbit"),
        lambda v: BOOLEAN,
        dtypes=NUMERIC,
        result="bool",
        exact=True,
        discontinuous=True,
        signed=True,
        weight=1,
    ),
)


def _special(
    name: str,
    rule: Rule,
    *,
    domain: tuple[float, float] = EVERYWHERE,
    ints: bool = True,
    signed: bool = False,
    weight: int = 2,
) -> OpSpec:
    return unary(
        name,
        functions(name),
        rule,
        dtypes=NUMERIC if ints else FLOATS,
        result="float" if ints else "same",
        domain=domain,
        signed=signed,
        weight=weight,
    )


_ROUNDED = (
    _special("exp", smooth(math.exp), weight=4),
    _special("expm1", smooth(math.expm1)),
    _special("exp2", smooth(lambda v: 2.0**v)),
    _special("log", smooth(math.log), domain=(0.25, 1e30), weight=3),
    _special("log2", smooth(math.log2), domain=(0.25, 1e30)),
    _special("log10", smooth(math.log10), domain=(0.25, 1e30)),
    _special("log1p", smooth(math.log1p), domain=(0, 1e30)),
    _special("sqrt", smooth(math.sqrt), domain=(0, 1e30), weight=4),
    _special("rsqrt", falling(lambda v: 1 / math.sqrt(v)), domain=(0.25, 1e30), signed=True),
    _special("reciprocal", falling(lambda v: 1 / v), domain=(0.25, 1e30), signed=True),
    _special("sin", between(-1.0, 1.0), domain=(-1e3, 1e3), weight=3),
    _special("cos", between(-1.0, 1.0), domain=(-1e3, 1e3), weight=3),
    _special("tan", smooth(math.tan), domain=(-1.5, 1.5)),
    _special("asin", smooth(math.asin), domain=(-1, 1)),
    _special("acos", falling(math.acos), domain=(-1, 1)),
    _special("atan", smooth(math.atan)),
    _special("sinh", smooth(math.sinh)),
    _special("cosh", lambda v: v.rough(1.0, math.cosh(v.peak))),
    _special("tanh", smooth(math.tanh), weight=4),
    _special("asinh", smooth(math.asinh)),
    _special("acosh", smooth(math.acosh), domain=(1, 1e30)),
    _special("erf", smooth(math.erf)),
    _special("atanh", smooth(math.atanh), domain=(-0.875, 0.875), weight=1),
    unary("erfinv", functions("erfinv"), smooth(lambda v: 2 * v), dtypes=WIDE, domain=(-0.875, 0.875), weight=1),
    unary("special_entr", ("torch.special.entr",), lambda v: v.rough(-v.peak * 30, 1.0), dtypes=WIDE, domain=(0, 1e9), weight=1),
    unary("special_ndtr", ("torch.special.ndtr",), between(0.0, 1.0), dtypes=WIDE, weight=1),
    unary("i0", functions("i0"), lambda v: v.rough(1.0, math.exp(v.peak)), dtypes=WIDE, domain=(-50, 50), weight=1),
    _special("erfc", falling(math.erfc)),
    _special("sinc", between(-0.25, 1.0), domain=(-1e3, 1e3), weight=1),
    _special("lgamma", lambda v: v.rough(-0.2, math.lgamma(max(v.hi, 3.0))), domain=(1, 1e4), weight=1),
    _special("digamma", lambda v: v.rough(-0.6, math.log(v.hi) + 1), domain=(1, 1e4), signed=True, weight=1),
    unary("logit", functions("logit", aten=False), lambda v: v, dtypes=FLOATS, domain=(0, 1), arguments=_logit_args, weight=1),
    unary(
        "sigmoid",
        functions("sigmoid", "torch.nn.functional.sigmoid", "torch.special.expit", "nn.Sigmoid"),
        between(0.0, 1.0),
        dtypes=NUMERIC,
        result="float",
        weight=4,
    ),
    unary("deg2rad", functions("deg2rad"), lambda v: v.rough(v.lo / 57, v.hi / 57), weight=1),
)


def _bitwise_not(b: Builder) -> None:
    x = b.pick((*INTS, "bool"))
    node = b.call([x.ref])
    if x.dtype == "bool":
        vals = BOOLEAN
    elif x.dtype == "uint8":
        vals = Vals(255 - x.vals.hi, 255 - x.vals.lo, 0, x.vals.exact)
    else:
        vals = Vals(-x.vals.hi - 1, -x.vals.lo - 1, 0, x.vals.exact)
    b.result(node, x.dtype, x.dims, vals, contiguous=x.contiguous)


def _heaviside(b: Builder) -> None:
    x = b.pick(NUMERIC, exact=True)
    values = b.partner(x, (x.dtype,), where=lambda v: v.dtype == x.dtype)
    joint = b.joint(x, values)
    vals = ranges.union(values.vals, Vals(0, 1))
    b.result(b.call([x.ref, values.ref]), x.dtype, joint, vals, contiguous=x.contiguous and values.contiguous)


OPS: tuple[OpSpec, ...] = (
    *_EXACT,
    *_ROUNDED,
    OpSpec("bitwise_not", "logic", functions("bitwise_not", "operator.invert"), _bitwise_not, (*INTS, "bool"), weight=3),
    OpSpec("heaviside", "pointwise", functions("heaviside"), _heaviside, NUMERIC, weight=1),
)
