"""Loss functions and distances, reduced or not, as functions and as layers."""

from __future__ import annotations

from collections.abc import Callable

from generators import ranges
from generators.builder import Builder, Dims, Var
from generators.ops.common import must
from generators.ranges import Vals
from generators.sizes import same_dims
from generators.spec import OpSpec
from generators.types import FLOATS, WIDE
from harness.model.values import Value

F = "torch.nn.functional."


def _partner(b: Builder, x: Var, domain: tuple[float, float] | None = None) -> Var:
    return b.pick(
        (x.dtype,),
        rank=(x.rank, x.rank),
        where=lambda v: same_dims(v.dims, x.dims),
        dims=lambda: x.dims,
        fresh=50,
        **({} if domain is None else {"domain": domain, "strict": True}),  # type: ignore[arg-type]
    )


def _reduced(b: Builder, x: Var, operands: list[Value], each: Vals, dims: Dims, kwargs: dict[str, Value]) -> None:
    """Emit with a drawn reduction of the elementwise loss `each` over `dims`."""
    reduction = b.choices.choose(("mean", "sum", "none"))
    if reduction != "mean" or b.choices.coin(30):
        kwargs["reduction"] = reduction
    node = b.module(operands, (), kwargs) if b.as_module else b.call(operands, kwargs)
    count = b.numel(dims)
    if reduction == "none":
        b.result(node, x.dtype, dims, each, contiguous=False)
        return
    must(count.low > 0)
    summed = ranges.total(each, count.high)
    b.result(node, x.dtype, (), summed if reduction == "sum" else ranges.mean(each, count.values), peak=summed.peak)


def _difference(b: Builder) -> None:
    assert b.op is not None
    x = b.pick(FLOATS if b.op.name in ("mse_loss", "l1_loss") else WIDE)
    y = _partner(b, x)
    gap = ranges.sub(x.vals, y.vals)
    kwargs: dict[str, Value] = {}
    if b.op.name == "mse_loss":
        square = ranges.mul(gap, gap)
        each = square.having(0.0, square.hi)
    elif b.op.name == "l1_loss":
        each = gap.having(0.0, gap.peak)
    else:
        if b.choices.coin(50):
            kwargs["beta" if b.op.name == "smooth_l1_loss" else "delta"] = b.choices.choose((0.5, 2.0))
        each = gap.rough(0.0, gap.peak * max(gap.peak, 2.0))
    _reduced(b, x, [x.ref, y.ref], each, x.dims, kwargs)


def _cross_entropy(b: Builder) -> None:
    """Class indices as targets, over logits of shape (N, C) or (N, C, d)."""
    assert b.op is not None
    x = b.pick(WIDE, rank=(2, 3), where=lambda v: all(size.low > 0 for size in v.dims))
    dims = (x.dims[0], *x.dims[2:])
    index = b.indices(dims, x.dims[1])
    kwargs: dict[str, Value] = {}
    if b.op.name == "cross_entropy" and b.choices.coin(30):
        kwargs["label_smoothing"] = 0.25
    if b.choices.coin(20):
        kwargs["ignore_index"] = 0
    # With every target ignored the mean is 0/0.
    must("ignore_index" not in kwargs or b.lane == "special")
    reach = 2 * x.vals.peak + 10
    _reduced(b, x, [x.ref, index.ref], Vals(-reach, reach, None, False, x.vals.special or bool("ignore_index" in kwargs)), dims, kwargs)


def _binary(b: Builder) -> None:
    assert b.op is not None
    logits = b.op.name.endswith("logits")
    x = b.pick(WIDE, domain=(-50, 50) if logits else (0.0, 1.0), strict=not logits)
    y = _partner(b, x, (0.0, 1.0))
    _reduced(b, x, [x.ref, y.ref], x.vals.rough(-1.0, 101.0), x.dims, {})


def _kl(b: Builder) -> None:
    x = b.pick(WIDE)
    y = _partner(b, x, (0.25, 4.0))
    reach = y.vals.peak * (x.vals.peak + 3)
    _reduced(b, x, [x.ref, y.ref], x.vals.rough(-reach, reach), x.dims, {})


def _cdist(b: Builder) -> None:
    x = b.pick(WIDE, rank=(2, 3))
    rows = b.new_size()
    dims = (*x.dims[:-2], rows, x.dims[-1])
    y = b.pick((x.dtype,), rank=(x.rank, x.rank), where=lambda v: same_dims(v.dims, dims), dims=lambda: dims, fresh=50)
    p = b.choices.choose((2.0, 1.0))
    reach = (x.vals.peak + y.vals.peak) * max(x.dims[-1].high, 1)
    special = x.vals.special or y.vals.special
    b.result(b.call([x.ref, y.ref], {"p": p}), x.dtype, (*x.dims[:-1], rows), Vals(0.0, reach, None, False, special), contiguous=False)


def _cross(b: Builder) -> None:
    three = b.size(3)
    x = b.pick((*FLOATS, "int64"), rank=(1, 3), where=lambda v: v.dims[-1].is_value(3), dims=lambda: (*b.new_dims(0, 2), three))
    y = _partner(b, x)
    product = ranges.mul(x.vals, y.vals)
    b.result(b.call([x.ref, y.ref], {"dim": -1}), x.dtype, x.dims, ranges.sub(product, product), contiguous=False)


def _spec(name: str, draw: Callable[[Builder], None], layer: str = "", *, exact: bool = False, weight: int = 2) -> OpSpec:
    return OpSpec(name, "loss", (F + name, *((f"nn.{layer}",) if layer else ())), draw, WIDE, exact, weight)


OPS: tuple[OpSpec, ...] = (
    _spec("mse_loss", _difference, "MSELoss", exact=True, weight=3),
    _spec("l1_loss", _difference, "L1Loss", exact=True),
    _spec("smooth_l1_loss", _difference, "SmoothL1Loss"),
    _spec("huber_loss", _difference, "HuberLoss", weight=1),
    _spec("cross_entropy", _cross_entropy, "CrossEntropyLoss", weight=3),
    _spec("nll_loss", _cross_entropy, "NLLLoss"),
    _spec("binary_cross_entropy", _binary, "BCELoss"),
    _spec("binary_cross_entropy_with_logits", _binary, "BCEWithLogitsLoss"),
    _spec("kl_div", _kl, "KLDivLoss", weight=1),
    OpSpec("cdist", "loss", ("torch.cdist",), _cdist, WIDE, False, 1),
    OpSpec("linalg_cross", "loss", ("torch.linalg.cross",), _cross, (*FLOATS, "int64"), True, 1),
)
