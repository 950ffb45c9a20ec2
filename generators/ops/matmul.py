"""Matrix products of every form, and linear layers."""

from __future__ import annotations

from generators import ranges
from generators.builder import Builder, Dims, Var
from generators.filling import Filling, choose_filling
from generators.ops.common import must
from generators.ops.unary import functions
from generators.ranges import Vals
from generators.sizes import Size, broadcast, same, same_dims
from generators.spec import OpSpec, Skip
from generators.types import FLOATS, is_float, sum_dtype
from harness.model.program import TensorSpec
from harness.model.values import DType, Value

DTYPES = (*FLOATS, "int64", "int32")


def contraction(left: Vals, right: Vals, count: int) -> Vals:
    """Of a sum of up to `count` products."""
    return ranges.total(ranges.mul(left, right), count)


def _left(b: Builder, low: int, high: int) -> Var:
    return b.pick(DTYPES, rank=(low, high), fresh=35)


def _mate(b: Builder, first: Var, dims: Dims) -> Var:
    """A tensor of the same dtype and exactly these dims."""
    return b.pick((first.dtype,), rank=(len(dims), len(dims)), where=lambda v: same_dims(v.dims, dims), dims=lambda: dims, fresh=40)


def _product(b: Builder, x: Var, y: Var, dims: Dims, count: Size, args: list[Value] | None = None) -> None:
    b.result(b.call(args or [x.ref, y.ref]), x.dtype, dims, contraction(x.vals, y.vals, count.high), contiguous=False)


def _mm(b: Builder) -> None:
    x = _left(b, 2, 2)
    y = _mate(b, x, (x.dims[1], b.new_size()))
    _product(b, x, y, (x.dims[0], y.dims[1]), x.dims[1])


def _bmm(b: Builder) -> None:
    x = _left(b, 3, 3)
    y = _mate(b, x, (x.dims[0], x.dims[2], b.new_size()))
    _product(b, x, y, (x.dims[0], x.dims[1], y.dims[2]), x.dims[2])


def _mv(b: Builder) -> None:
    x = _left(b, 2, 2)
    y = _mate(b, x, (x.dims[1],))
    _product(b, x, y, (x.dims[0],), x.dims[1])


def _dot(b: Builder) -> None:
    x = _left(b, 1, 1)
    y = _mate(b, x, x.dims)
    _product(b, x, y, (), x.dims[0])


def _outer(b: Builder) -> None:
    x = b.pick((*FLOATS, "int64", "int32"), rank=(1, 1))
    y = b.pick((x.dtype,), rank=(1, 1))
    b.result(b.call([x.ref, y.ref]), x.dtype, (x.dims[0], y.dims[0]), ranges.mul(x.vals, y.vals))


def _matmul(b: Builder) -> None:
    x = _left(b, 1, 4)
    inner = x.dims[-1]
    how = b.choices.below(6)
    if how == 0:
        y = _mate(b, x, (inner,))
        dims = x.dims[:-1]
    elif how <= 2 or x.rank < 3:
        y = _mate(b, x, (inner, b.new_size()))
        dims = (*x.dims[:-1], y.dims[1])
    else:
        batch = tuple(b.one if b.choices.coin(30) else size for size in x.dims[:-2])
        if how == 5:
            batch = batch[1:]
        y = _mate(b, x, (*batch, inner, b.new_size()))
        joint = broadcast(x.dims[:-2], batch)
        must(joint is not None)
        assert joint is not None
        dims = (*joint, x.dims[-2], y.dims[-1])
    _product(b, x, y, dims, inner)


def _scaled(b: Builder, dtype: str, kwargs: dict[str, Value]) -> tuple[Vals, Vals]:
    """Draws beta and alpha into `kwargs`, and what is known of each."""
    beta: int | float = 1
    alpha: int | float = 1
    if b.choices.coin(35):
        table = (2, 0.5, 0, -1.0) if is_float(dtype) else (2, 0, -1)
        beta, alpha = b.choices.choose(table), b.choices.choose((2, 1, -1))
        kwargs |= {"beta": beta, "alpha": alpha}
    return ranges.constant(beta), ranges.constant(alpha)


def _added(b: Builder, bias_dims: Dims, x: Var, y: Var, dims: Dims, count: Size, *, full: bool = False) -> None:
    related = bias_dims if full or b.choices.coin(50) else tuple(b.one if b.choices.coin(40) else size for size in bias_dims)
    if not full and related and b.choices.coin(30):
        related = related[1:]
    bias = _mate(b, x, related)
    kwargs: dict[str, Value] = {}
    beta, alpha = _scaled(b, x.dtype, kwargs)
    product = ranges.mul(contraction(x.vals, y.vals, count.high), alpha)
    vals = ranges.add(ranges.mul(bias.vals, beta), product)
    peak = bias.vals.peak * max(1, beta.peak) + contraction(x.vals, y.vals, count.high).peak * max(1, alpha.peak)
    b.result(b.call([bias.ref, x.ref, y.ref], kwargs), x.dtype, dims, vals, contiguous=False, peak=peak)


def _addmm(b: Builder) -> None:
    x = _left(b, 2, 2)
    y = _mate(b, x, (x.dims[1], b.new_size()))
    dims = (x.dims[0], y.dims[1])
    _added(b, dims, x, y, dims, x.dims[1])


def _baddbmm(b: Builder) -> None:
    x = _left(b, 3, 3)
    y = _mate(b, x, (x.dims[0], x.dims[2], b.new_size()))
    dims = (x.dims[0], x.dims[1], y.dims[2])
    _added(b, dims, x, y, dims, x.dims[2])


def _addbmm(b: Builder) -> None:
    x = _left(b, 3, 3)
    y = _mate(b, x, (x.dims[0], x.dims[2], b.new_size()))
    dims = (x.dims[1], y.dims[2])
    _added(b, dims, x, y, dims, x.dims[0] * x.dims[2])


def _addmv(b: Builder) -> None:
    x = _left(b, 2, 2)
    must(x.dims[0].low > 0 and x.dims[1].low > 0)  # else PyTorch returns the bias as it is
    y = _mate(b, x, (x.dims[1],))
    _added(b, (x.dims[0],), x, y, (x.dims[0],), x.dims[1])


def _addr(b: Builder) -> None:
    x = b.pick(FLOATS, rank=(1, 1))
    y = b.pick((x.dtype,), rank=(1, 1))
    dims = (x.dims[0], y.dims[0])
    _added(b, dims, x, y, dims, b.one)


def weight_spec(dtype: str, dims: Dims) -> TensorSpec:
    """The spec of a module's tensor, whose sizes are static; raises Skip where one is symbolic."""
    if not all(size.static for size in dims):
        raise Skip
    return TensorSpec(dtype, tuple(size.dim for size in dims))


def module_tensor(b: Builder, dtype: str, domain: tuple[float, float] = (-2.0, 2.0)) -> Filling:
    """A filling for a module's parameter or buffer, finite in every lane."""
    filling = choose_filling(b.choices, dtype, b.lane, domain, True)
    if filling is None:
        raise Skip
    return filling


def _linear(b: Builder) -> None:
    module = b.as_module
    x = b.pick(
        ("float32", "float64", "float16", "bfloat16"), rank=(1, 4), where=lambda v: not module or (v.dims[-1].static and v.dims[-1].low > 0)
    )
    features = b.new_size(1) if not module else b.size(b.choices.between(1, 5))
    has_bias = b.choices.coin(70)
    dims = (*x.dims[:-1], features)
    if module:
        state = {"weight": weight_spec(x.dtype, (features, x.dims[-1]))}
        fillings = {"weight": module_tensor(b, x.dtype)}
        weight_vals = fillings["weight"].vals(x.dtype, False)
        ctor: dict[str, Value] = {} if x.dtype == "float32" else {"dtype": DType(x.dtype)}
        bias_vals = ranges.constant(0)
        if has_bias:
            state["bias"], fillings["bias"] = weight_spec(x.dtype, (features,)), module_tensor(b, x.dtype)
            bias_vals = fillings["bias"].vals(x.dtype, False)
        else:
            ctor["bias"] = False
        node = b.module([x.ref], [x.dims[-1].dim, features.dim], ctor, state=state, fillings=fillings)
    else:
        weight = _mate(b, x, (features, x.dims[-1]))
        args: list[Value] = [x.ref, weight.ref]
        weight_vals, bias_vals = weight.vals, ranges.constant(0)
        if has_bias:
            bias = _mate(b, x, (features,))
            args.append(bias.ref)
            bias_vals = bias.vals
        node = b.call(args)
    product = contraction(x.vals, weight_vals, x.dims[-1].high)
    b.result(node, x.dtype, dims, ranges.add(product, bias_vals), contiguous=False, peak=product.peak + bias_vals.peak)


_EQUATIONS = ("ij,jk->ik", "bij,bjk->bik", "ij,ij->i", "i,j->ij", "ij,kj->ik", "bij,jk->bik", "ij->ji", "ii->i", "ij->", "bij,bj->bi")


def _einsum(b: Builder) -> None:
    equation = b.choices.choose(_EQUATIONS)
    inputs, output = equation.split("->")
    operands: list[Var] = []
    sizes: dict[str, Size] = {}
    for letters in inputs.split(","):
        if not operands:
            first = _left(b, len(letters), len(letters))
            pairs = list(zip(letters, first.dims, strict=True))
            must(all(same(size, dict(pairs)[letter]) for letter, size in pairs))
            operands.append(first)
            sizes.update(pairs)
        else:
            dims = tuple(sizes.setdefault(letter, b.new_size()) for letter in letters)
            operands.append(_mate(b, operands[0], dims))
    summed = [size for letter, size in sizes.items() if letter not in output]
    vals = operands[0].vals
    for var in operands[1:]:
        vals = ranges.mul(vals, var.vals)
    count = b.numel(summed).high
    shape = tuple(sizes[letter] for letter in output)
    alias = operands[0] if len(operands) == 1 and not summed else None
    node = b.call([equation, *(var.ref for var in operands)])
    # A sum over one operand promotes as sum does.
    dtype = sum_dtype(operands[0].dtype) if len(operands) == 1 and summed else operands[0].dtype
    b.result(node, dtype, shape, ranges.total(vals, count) if summed else vals, contiguous=False, alias=alias)


def _tensordot(b: Builder) -> None:
    x = _left(b, 1, 3)
    y = _mate(b, x, (x.dims[-1], b.new_size()) if b.choices.coin(70) else (x.dims[-1],))
    b.result(
        b.call([x.ref, y.ref], {"dims": 1}),
        x.dtype,
        (*x.dims[:-1], *y.dims[1:]),
        contraction(x.vals, y.vals, x.dims[-1].high),
        contiguous=False,
    )


def _bilinear(b: Builder) -> None:
    x = b.pick(("float32", "float64"), rank=(2, 2), where=lambda v: v.dims[1].low > 0)
    y = _mate(b, x, (x.dims[0], b.new_size(1)))
    weight = _mate(b, x, (b.new_size(1), x.dims[1], y.dims[1]))
    count = x.dims[1] * y.dims[1]
    vals = ranges.total(ranges.mul(ranges.mul(x.vals, y.vals), weight.vals), count.high)
    b.result(b.call([x.ref, y.ref, weight.ref]), x.dtype, (x.dims[0], weight.dims[0]), vals, contiguous=False)


def _attention(b: Builder) -> None:
    q = b.pick(("float32", "float64"), rank=(3, 4), where=lambda v: all(size.low > 0 for size in v.dims[-2:]))
    keys = (*q.dims[:-2], b.new_size(1), q.dims[-1])
    k, v = _mate(b, q, keys), _mate(b, q, keys)
    kwargs: dict[str, Value] = {}
    if b.choices.coin(30):
        kwargs["is_causal"] = True
    if b.choices.coin(30):
        kwargs["scale"] = 0.5
    special = q.vals.special or k.vals.special or v.vals.special
    vals = Vals(v.vals.lo, v.vals.hi, None, False, special)
    b.result(b.call([q.ref, k.ref, v.ref], kwargs), q.dtype, q.dims, vals, contiguous=False)


def _spec(
    name: str, draw: object, spellings: tuple[str, ...], dtypes: tuple[str, ...] = DTYPES, weight: int = 3, exact: bool = True
) -> OpSpec:
    return OpSpec(name, "matmul", spellings, draw, dtypes, exact, weight)  # type: ignore[arg-type]


OPS: tuple[OpSpec, ...] = (
    _spec("matmul", _matmul, (*functions("matmul"), "operator.matmul"), weight=8),
    _spec("mm", _mm, functions("mm"), weight=5),
    _spec("bmm", _bmm, functions("bmm"), weight=4),
    _spec("mv", _mv, functions("mv")),
    _spec("dot", _dot, functions("dot")),
    _spec("outer", _outer, functions("outer"), weight=2),
    _spec("addmm", _addmm, functions("addmm"), weight=4),
    _spec("baddbmm", _baddbmm, functions("baddbmm")),
    _spec("addbmm", _addbmm, functions("addbmm"), weight=2),
    _spec("addmv", _addmv, functions("addmv"), weight=2),
    _spec("addr", _addr, functions("addr"), FLOATS, 2),
    _spec("linear", _linear, ("torch.nn.functional.linear", "nn.Linear", "nn.Linear", "aten.linear.default"), FLOATS, 8),
    _spec("einsum", _einsum, ("torch.einsum",), weight=4),
    _spec("tensordot", _tensordot, ("torch.tensordot",), weight=2),
    _spec("bilinear", _bilinear, ("torch.nn.functional.bilinear",), ("float32", "float64"), 1),
    _spec(
        "scaled_dot_product_attention", _attention, ("torch.nn.functional.scaled_dot_product_attention",), ("float32", "float64"), 2, False
    ),
)
