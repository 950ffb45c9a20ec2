"""Pointwise functions of two tensors, or of a tensor and a number, with broadcasting and promotion."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from generators import ranges
from generators.builder import Builder, Dims, Var
from generators.filling import EVERYWHERE
from generators.ops.common import must, number
from generators.ops.unary import functions
from generators.ranges import BOOLEAN, Vals
from generators.spec import OpSpec
from generators.types import ALL, FLOATS, INTS, NUMERIC, bits, is_float, limits, result_type, to_float
from harness.model.values import Value

LOGICAL = (*INTS, "bool")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two operands as they will be written, what is known of each, and what comes out of promotion and broadcasting."""

    left: Value
    right: Value
    left_vals: Vals
    right_vals: Vals
    dtype: str
    dims: Dims
    contiguous: bool
    first: Var
    second: Var | None

    @property
    def scalar(self) -> bool:
        """Whether the second operand is a Python number."""
        return self.second is None


def pair(
    b: Builder,
    dtypes: tuple[str, ...],
    *,
    others: tuple[str, ...] | None = None,
    scalars: int = 35,
    reflected: bool = False,
    floats: bool = True,
    nonzero: bool = False,
    domain: tuple[float, float] = EVERYWHERE,
    exact: bool = False,
    mixed: bool = True,
    signed: bool = False,
) -> Pair:
    """Draw two operands: a tensor, and another one that broadcasts or (in `scalars` percent) a number.

    `nonzero` forbids a zero among the second operand's values in every lane, if the operands are integers. `reflected`
    allows the number on the left. `mixed` allows two different dtypes. `signed` says that 0.0 and -0.0 differ.
    """
    first = b.pick(dtypes, exact=exact, domain=domain, where=b.signs_zeros if signed else None)
    is_aten_tensor = b.spelling.startswith("aten.") and b.spelling.endswith((".Tensor", ".default"))
    if b.choices.coin(scalars) and not is_aten_tensor:
        value = number(b, first.dtype, floats=floats, nonzero=nonzero, positive=domain[0] >= 0)
        vals = ranges.constant(value)
        dtype = result_type([first.kind, value])
        if reflected and b.choices.coin(25):
            must(not nonzero or not _zero_possible(first.vals))
            return Pair(value, first.ref, vals, first.vals, dtype, first.dims, first.contiguous, first, None)
        return Pair(first.ref, value, first.vals, vals, dtype, first.dims, first.contiguous, first, None)
    must(not b.spelling.endswith(".Scalar"))
    pool = others or dtypes
    if not mixed or b.choices.coin(70):
        pool = (first.dtype,) if first.dtype in pool else pool
    if nonzero:
        span = (0.25, 1e30) if b.choices.coin(75) or first.dtype == "uint8" else (-1e30, -0.25)
        strict = not is_float(first.dtype) or not all(is_float(name) for name in pool)
        second = b.partner(first, pool, domain=span, strict=strict, exact=exact, where=b.signs_zeros)
    else:
        second = b.partner(first, pool, domain=domain, exact=exact, where=b.signs_zeros if signed else None)
    must(mixed or second.dtype == first.dtype)
    return Pair(
        first.ref,
        second.ref,
        first.vals,
        second.vals,
        result_type([first.kind, second.kind]),
        b.joint(first, second),
        first.contiguous and second.contiguous,
        first,
        second,
    )


def _zero_possible(vals: Vals) -> bool:
    return vals.special or vals.lo <= 0 <= vals.hi


def _finish(b: Builder, p: Pair, dtype: str, vals: Vals, kwargs: dict[str, Value] | None = None) -> Var:
    node = b.call([p.left, p.right], kwargs)
    return b.result(node, dtype, p.dims, vals, contiguous=p.contiguous)


def _add_or_sub(sign: int) -> Callable[[Builder], None]:
    def draw(b: Builder) -> None:
        operator = b.spelling.startswith("operator.")
        p = pair(b, ALL if sign > 0 else NUMERIC, reflected=operator, others=ALL if sign > 0 else NUMERIC)
        right, kwargs = p.right_vals, {}
        if not operator and p.dtype != "bool" and b.choices.coin(25):
            alpha: int | float = b.choices.choose((2, -1, 3, 0))
            if p.dtype == "uint8" or "bool" in (p.first.dtype, p.second and p.second.dtype):
                alpha = 2
            elif is_float(p.dtype) and b.choices.coin(50):
                alpha = b.choices.choose((0.5, -2.0, 1.5))
            kwargs = {"alpha": alpha}
            right = ranges.mul(right, ranges.constant(alpha))
        if p.dtype == "bool":
            must(sign > 0)
            vals = BOOLEAN
        else:
            vals = ranges.add(p.left_vals, right) if sign > 0 else ranges.sub(p.left_vals, right)
        must(isinstance(p.left, bool) is False and not (sign < 0 and isinstance(p.right, bool)))
        _finish(b, p, p.dtype, vals, kwargs)

    return draw


def _mul(b: Builder) -> None:
    p = pair(b, ALL, reflected=b.spelling.startswith("operator."))
    must(not isinstance(p.left, bool))
    _finish(b, p, p.dtype, BOOLEAN if p.dtype == "bool" else ranges.mul(p.left_vals, p.right_vals))


def _rsub(b: Builder) -> None:
    p = pair(b, NUMERIC)
    must(not isinstance(p.right, bool))
    _finish(b, p, p.dtype, ranges.sub(p.right_vals, p.left_vals))


def _smallest(vals: Vals) -> float:
    """The smallest magnitude of values that are never zero."""
    return vals.lo if vals.lo > 0 else -vals.hi if vals.hi < 0 else 2.0 ** -(vals.grain or 2)


def _quotient(p: Pair) -> Vals:
    reach = p.left_vals.peak / _smallest(p.right_vals)
    low = -reach if p.left_vals.lo < 0 or p.right_vals.lo < 0 else 0.0
    special = p.left_vals.special or p.right_vals.special or _zero_possible(p.right_vals)
    return Vals(low, reach, None, False, special)


def _div(b: Builder) -> None:
    if b.is_exact and not b.spelling.startswith("aten."):
        # Only a power of two divides exactly.
        x = b.pick(NUMERIC)
        divisor = b.choices.choose((2, 4, 0.5, -2, 1, 0.25, -1.0, 8))
        must(divisor > 0 or x.dtype != "uint8")
        p = Pair(x.ref, divisor, x.vals, ranges.constant(divisor), result_type([x.kind, divisor]), x.dims, x.contiguous, x, None)
    else:
        p = pair(b, NUMERIC, nonzero=True, reflected=b.spelling == "operator.truediv")
    must(not isinstance(p.left, bool) and not isinstance(p.right, bool))
    dtype, vals = to_float(p.dtype), _quotient(p)
    if p.left_vals.grain is not None and isinstance(p.right, int | float) and math.frexp(abs(p.right))[0] == 0.5:
        grain = p.left_vals.grain + max(0, math.frexp(abs(p.right))[1] - 1)
        vals = replace(vals, grain=grain, exact=p.left_vals.exact)
    _finish(b, p, dtype, vals)


def _rounded_quotient(p: Pair) -> Vals:
    must(p.left_vals.exact and p.right_vals.exact)
    must(p.left_vals.grain is not None and p.right_vals.grain is not None)  # or the quotient's own rounding decides
    must(not _zero_possible(p.right_vals))
    reach = math.floor(p.left_vals.peak / _smallest(p.right_vals)) + 1
    negative = p.left_vals.lo < 0 or p.right_vals.lo < 0
    return Vals(-reach - 1 if negative else 0, reach, 0, True, False)


def _div_rounding(b: Builder) -> None:
    p = pair(b, NUMERIC, nonzero=True, exact=True)
    must(not isinstance(p.right, bool))
    mode = b.choices.choose(("floor", "trunc"))
    _finish(b, p, p.dtype, _rounded_quotient(p), {"rounding_mode": mode})


def _floor_divide(b: Builder) -> None:
    p = pair(b, NUMERIC, nonzero=True, exact=True, reflected=b.spelling.startswith("operator."))
    must(not isinstance(p.right, bool) and not isinstance(p.left, bool))
    _finish(b, p, p.dtype, _rounded_quotient(p))


def _modulo(b: Builder) -> None:
    p = pair(b, NUMERIC, nonzero=True, exact=True, reflected=b.spelling.startswith("operator."))
    must(not isinstance(p.right, bool) and not isinstance(p.left, bool))
    must(not _zero_possible(p.right_vals))
    must(p.left_vals.grain is not None and p.right_vals.grain is not None)
    grain = max(p.left_vals.grain or 0, p.right_vals.grain or 0)
    reach = p.right_vals.peak
    _finish(b, p, p.dtype, Vals(-reach, reach, grain, True, p.left_vals.special))


def _extreme(high: bool, nan: bool) -> Callable[[Builder], None]:
    def draw(b: Builder) -> None:
        p = pair(b, ALL if nan else NUMERIC, scalars=0)
        pick = max if high else min
        mixed = ranges.union(p.left_vals, p.right_vals)
        bounds = mixed.having(pick(p.left_vals.lo, p.right_vals.lo), pick(p.left_vals.hi, p.right_vals.hi))
        _finish(b, p, p.dtype, bounds)

    return draw


def _pow_number(b: Builder) -> None:
    x = b.pick(NUMERIC)
    if is_float(x.dtype):
        choices: tuple[int | float, ...] = (2, 3, 1, 2.0, 0) if b.is_exact else (2, 3, 0.5, -1, 1, 2.0, 0, 1.5, -2, -0.5)
        exponent = b.choices.choose(choices)
        must(exponent >= 0 or b.signs_zeros(x))
        if b.lane != "special":
            must(exponent >= 0 or not _zero_possible(x.vals))
            must(float(exponent).is_integer() or x.vals.lo >= 0)
    else:
        exponent = b.choices.choose((2, 3, 1, 0))
    power = ranges.constant(1)
    if exponent in (0, 1, 2, 3):
        for _ in range(int(exponent)):
            power = ranges.mul(power, x.vals)
        if exponent == 2:
            power = replace(power, lo=0.0)
    else:
        reach = max(x.vals.peak, 1 / _smallest(x.vals) if exponent < 0 and not _zero_possible(x.vals) else 1.0) ** abs(exponent)
        power = x.vals.rough(-reach, reach)
        power = replace(power, special=power.special or b.lane == "special")
    node = b.call([x.ref, exponent])
    b.result(node, result_type([x.kind, exponent]), x.dims, power, contiguous=x.contiguous)


def _float_pair(
    name: str,
    rule: Callable[[Vals, Vals], Vals],
    *,
    domain: tuple[float, float] = EVERYWHERE,
    dtypes: tuple[str, ...] = FLOATS,
    weight: int = 2,
) -> OpSpec:
    def draw(b: Builder) -> None:
        p = pair(b, dtypes, scalars=0, domain=domain, signed=name == "atan2")
        inside = p.left_vals.within(*domain) and p.right_vals.within(*domain)
        must(inside or b.lane == "special")
        _finish(b, p, to_float(p.dtype), replace(rule(p.left_vals, p.right_vals), special=not inside))

    return OpSpec(name, "pointwise", functions(name, aten=name != "xlogy"), draw, dtypes, False, weight)


def _pow_tensor(x: Vals, y: Vals) -> Vals:
    reach = max(x.hi, 1 / x.lo if x.lo > 0 else 2.0, 1.0) ** y.peak if y.peak < 50 else math.inf
    return Vals(0.0, reach, None, False)


def _gcd(b: Builder) -> None:
    assert b.op is not None
    p = pair(b, INTS, scalars=0)
    # The minimum of a signed type has no absolute value.
    must(all(vals.lo > limits(p.dtype)[0] for vals in (p.left_vals, p.right_vals)))
    reach = max(p.left_vals.peak, p.right_vals.peak) if b.op.name == "gcd" else p.left_vals.peak * p.right_vals.peak
    must(reach <= limits(p.dtype)[1])
    _finish(b, p, p.dtype, Vals(0, reach))


def _copysign(b: Builder) -> None:
    p = pair(b, NUMERIC, floats=True, signed=True)
    must(not isinstance(p.right, bool))
    vals = p.left_vals.having(-p.left_vals.peak, p.left_vals.peak)
    must(p.right_vals.exact and not p.right_vals.special)
    _finish(b, p, to_float(p.dtype), vals)


def _bitwise(b: Builder) -> None:
    p = pair(b, LOGICAL, floats=False)
    must(p.dtype != "bool" or not p.scalar or isinstance(p.right, bool))
    if p.dtype == "bool":
        vals = BOOLEAN
    elif p.left_vals.lo >= 0 and p.right_vals.lo >= 0:
        top = 2 ** int(max(p.left_vals.hi, p.right_vals.hi)).bit_length() - 1
        vals = Vals(0, top)
    else:
        top = 2 ** max(int(p.left_vals.peak).bit_length(), int(p.right_vals.peak).bit_length())
        vals = Vals(-top, top - 1)
    _finish(b, p, p.dtype, vals)


def _shift(left: bool) -> Callable[[Builder], None]:
    def draw(b: Builder) -> None:
        x = b.pick(INTS, where=lambda v: v.vals.lo >= 0, domain=(0, 1e9), strict=True)
        top = min(bits(x.dtype) - 2, 6)
        if b.choices.coin(45) and not b.spelling.endswith(".Tensor"):
            amount = b.choices.between(0, top)
            right: Value = amount
            low = high = amount
            dims, contiguous, dtype = x.dims, x.contiguous, x.dtype
        else:
            y = b.partner(x, (x.dtype,), domain=(0, 4), strict=True, where=lambda v: v.dtype == x.dtype)
            right, low, high = y.ref, int(y.vals.lo), int(y.vals.hi)
            dims, contiguous, dtype = b.joint(x, y), x.contiguous and y.contiguous, result_type([x.kind, y.kind])
        vals = Vals(x.vals.lo * 2**low, x.vals.hi * 2**high) if left else Vals(0, x.vals.hi)
        b.result(b.call([x.ref, right]), dtype, dims, vals, contiguous=contiguous)

    return draw


def _logical(b: Builder) -> None:
    p = pair(b, ALL, scalars=0, exact=True)
    _finish(b, p, "bool", BOOLEAN)


def _compare(b: Builder) -> None:
    p = pair(b, ALL, exact=True, scalars=40)
    if isinstance(p.right, float) and p.first.dtype in ("float16", "bfloat16"):
        must(ranges.constant(p.right).grain is not None)  # or the number's own rounding decides
    _finish(b, p, "bool", BOOLEAN)


def _isclose(b: Builder) -> None:
    p = pair(b, FLOATS, scalars=0, exact=True, mixed=False)
    must(p.left_vals.grain is not None or b.lane == "special")
    kwargs: dict[str, Value] = {"rtol": 0.0, "atol": b.choices.choose((0.125, 0.625))}
    if b.choices.coin(40):
        kwargs["equal_nan"] = b.choices.coin(50)
    _finish(b, p, "bool", BOOLEAN, kwargs)


def _both(name: str, operator: str) -> tuple[str, ...]:
    """The spellings of a binary operator that has an aten overload for tensors and one for numbers."""
    return (*functions(name, aten=False), f"operator.{operator}", f"aten.{name}.Tensor", f"aten.{name}.Scalar")


def _compare_spec(name: str, *more: str) -> OpSpec:
    return OpSpec(name, "comparison", (*_both(name, name), *more), _compare, ALL, weight=3)


OPS: tuple[OpSpec, ...] = (
    OpSpec("add", "pointwise", (*functions("add", aten=False), "operator.add", "aten.add.Tensor"), _add_or_sub(1), ALL, weight=10),
    OpSpec(
        "sub",
        "pointwise",
        (*functions("sub", "torch.subtract", aten=False), "operator.sub", "aten.sub.Tensor"),
        _add_or_sub(-1),
        NUMERIC,
        weight=8,
    ),
    OpSpec("mul", "pointwise", (*functions("mul", "torch.multiply", aten=False), "operator.mul", "aten.mul.Tensor"), _mul, ALL, weight=10),
    OpSpec("rsub", "pointwise", ("torch.rsub",), _rsub, NUMERIC, weight=2),
    OpSpec(
        "div",
        "pointwise",
        (*functions("div", "torch.true_divide", aten=False), "operator.truediv", "aten.div.Tensor"),
        _div,
        NUMERIC,
        weight=6,
    ),
    OpSpec("div", "pointwise", functions("div", aten=False), _div_rounding, NUMERIC, weight=4, variant="rounding"),
    OpSpec("floor_divide", "pointwise", (*functions("floor_divide"), "operator.floordiv"), _floor_divide, NUMERIC, weight=4),
    OpSpec("remainder", "pointwise", (*functions("remainder", aten=False), "operator.mod"), _modulo, NUMERIC, weight=4),
    OpSpec("fmod", "pointwise", functions("fmod", aten=False), _modulo, NUMERIC, weight=4),
    OpSpec("maximum", "pointwise", functions("maximum"), _extreme(True, True), ALL, weight=4),
    OpSpec("minimum", "pointwise", functions("minimum"), _extreme(False, True), ALL, weight=4),
    OpSpec("fmax", "pointwise", functions("fmax"), _extreme(True, False), NUMERIC, weight=2),
    OpSpec("fmin", "pointwise", functions("fmin"), _extreme(False, False), NUMERIC, weight=2),
    OpSpec("pow", "pointwise", (*functions("pow", aten=False), "operator.pow", "aten.pow.Tensor_Scalar"), _pow_number, NUMERIC, weight=5),
    replace(
        _float_pair("float_power", _pow_tensor, domain=(0.25, 4)),
        draw=lambda b: _float_power(b),
        spellings=functions("float_power", aten=False),
    ),
    _float_pair("atan2", lambda x, y: Vals(-4.0, 4.0, None, False), domain=(0.25, 1e30), dtypes=NUMERIC),
    _float_pair("hypot", lambda x, y: Vals(0.0, math.hypot(x.peak, y.peak), None, False)),
    _float_pair("logaddexp", lambda x, y: Vals(min(x.lo, y.lo), max(x.hi, y.hi) + 1, None, False), domain=(-50, 50)),
    _float_pair("xlogy", lambda x, y: Vals(-9 * x.peak - 9, x.peak * 30 + 9, None, False), domain=(0.25, 1e9)),
    OpSpec("gcd", "pointwise", functions("gcd"), _gcd, INTS, weight=2),
    OpSpec("lcm", "pointwise", functions("lcm"), _gcd, INTS, weight=1),
    OpSpec("copysign", "pointwise", functions("copysign", aten=False), _copysign, NUMERIC, weight=2),
    OpSpec("bitwise_and", "logic", (*functions("bitwise_and", aten=False), "operator.and_"), _bitwise, LOGICAL, weight=4),
    OpSpec("bitwise_or", "logic", (*functions("bitwise_or", aten=False), "operator.or_"), _bitwise, LOGICAL, weight=4),
    OpSpec("bitwise_xor", "logic", (*functions("bitwise_xor", aten=False), "operator.xor"), _bitwise, LOGICAL, weight=4),
    OpSpec("bitwise_left_shift", "logic", (*functions("bitwise_left_shift", aten=False), "operator.lshift"), _shift(True), INTS, weight=2),
    OpSpec(
        "bitwise_right_shift", "logic", (*functions("bitwise_right_shift", aten=False), "operator.rshift"), _shift(False), INTS, weight=2
    ),
    OpSpec("logical_and", "logic", functions("logical_and"), _logical, ALL, weight=3),
    OpSpec("logical_or", "logic", functions("logical_or"), _logical, ALL, weight=3),
    OpSpec("logical_xor", "logic", functions("logical_xor"), _logical, ALL, weight=3),
    _compare_spec("eq", "torch.eq"),
    _compare_spec("ne", "torch.not_equal"),
    _compare_spec("lt", "torch.less"),
    _compare_spec("le", "torch.less_equal"),
    _compare_spec("gt", "torch.greater"),
    _compare_spec("ge", "torch.greater_equal"),
    OpSpec("isclose", "comparison", functions("isclose", aten=False), _isclose, FLOATS, weight=2),
)


def _float_power(b: Builder) -> None:
    p = pair(b, NUMERIC, scalars=0, domain=(0.25, 4), signed=True)
    _finish(b, p, "float64", replace(_pow_tensor(p.left_vals, p.right_vals), special=b.lane == "special"))
