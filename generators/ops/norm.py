"""Normalization: batch, layer, group, instance and RMS norm, and vector normalization."""

from __future__ import annotations

from generators.builder import Builder, Dims, Var
from generators.filling import Filling
from generators.ops.common import must, size_args, written
from generators.ops.matmul import module_tensor, weight_spec
from generators.ranges import Vals
from generators.sizes import Size, same_dims
from generators.spec import OpSpec
from generators.types import FLOATS, WIDE
from harness.model.program import TensorSpec
from harness.model.values import DType, Value


def _normalized(b: Builder, node: str, x: Var, count: int, *, given: bool = False) -> None:
    """Declare the result of normalizing over `count` elements; `given` statistics need not be those of `x`."""
    reach = 4.0 * (count**0.5 + 1) + 16 + (4 * x.vals.peak if given else 0)
    b.result(node, x.dtype, x.dims, Vals(-reach, reach, None, False, x.vals.special or b.lane == "special"), contiguous=False)


def _operand(b: Builder, x: Var, dims: Dims, domain: tuple[float, float] = (-2.0, 2.0)) -> Var:
    """A weight, bias or statistic of exactly these dims, finite in every lane."""
    return b.pick(
        (x.dtype,),
        rank=(len(dims), len(dims)),
        where=lambda v: same_dims(v.dims, dims),
        domain=domain,
        strict=True,
        dims=lambda: dims,
        fresh=60,
    )


def _affine_state(b: Builder, dtype: str, dims: Dims, *, bias: bool = True) -> tuple[dict[str, TensorSpec], dict[str, Filling]]:
    names = ("weight", "bias") if bias else ("weight",)
    return {name: weight_spec(dtype, dims) for name in names}, {name: module_tensor(b, dtype) for name in names}


def _ctor(x: Var, kwargs: dict[str, Value]) -> dict[str, Value]:
    return kwargs if x.dtype == "float32" else {**kwargs, "dtype": DType(x.dtype)}


def _channels(b: Builder, low: int, high: int, dtypes: tuple[str, ...] = WIDE, *, static: bool = False) -> Var:
    return b.pick(
        dtypes,
        rank=(low, high),
        where=lambda v: all(size.low > 0 for size in v.dims) and (not static or v.dims[1].static),
        dims=lambda: tuple(
            b.size(b.choices.choose((2, 4, 3, 1, 6))) if index == 1 and static else b.new_size(1)
            for index in range(b.choices.between(low, high))
        ),
        fresh=40,
    )


def _epsilon(b: Builder) -> dict[str, Value]:
    return {"eps": b.choices.choose((1e-3, 1e-5, 0.1))} if b.choices.coin(40) else {}


def _batch_norm(b: Builder) -> None:
    training = b.choices.coin(35)
    if not b.as_module:
        x = _channels(b, 2, 5)
        must(not training or b.numel(x.dims).low > x.dims[1].high)
        channels = (x.dims[1],)
        mean, var = _operand(b, x, channels), _operand(b, x, channels, (0.25, 4.0))
        must(not training or (mean.writable and var.writable and mean.name != var.name and not mean.overlapping and not var.overlapping))
        must(not training or (mean.is_input and var.is_input))
        args: list[Value] = [x.ref, mean.ref, var.ref]
        if b.choices.coin(60):
            args += [_operand(b, x, channels).ref, _operand(b, x, channels).ref]
        node = b.call(args, {"training": training, **_epsilon(b)})
        if training:
            must(mean.root != x.root and var.root != x.root)
            # The statistics were updated in place: nothing is known of them any more.
            b.vars = [v for v in b.vars if v.root not in (mean.root, var.root)]
    else:
        rank = {"nn.BatchNorm1d": (2, 3), "nn.BatchNorm2d": (4, 4), "nn.BatchNorm3d": (5, 5)}[b.spelling]
        x = _channels(b, *rank, static=True)
        must(not training or b.numel(x.dims).low > x.dims[1].high)
        dims = (x.dims[1],)
        state: dict[str, TensorSpec] = {}
        fillings: dict[str, Filling] = {}
        kwargs = _epsilon(b)
        if b.choices.coin(80):
            state, fillings = _affine_state(b, x.dtype, dims)
        else:
            kwargs["affine"] = False
        state |= {"running_mean": weight_spec(x.dtype, dims), "running_var": weight_spec(x.dtype, dims)}
        fillings |= {"running_mean": module_tensor(b, x.dtype), "running_var": module_tensor(b, x.dtype, (0.25, 4.0))}
        if training and b.choices.coin(40):
            kwargs["momentum"] = b.choices.choose((0.5, 0.9))
        node = b.module([x.ref], [x.dims[1].dim], _ctor(x, kwargs), state=state, fillings=fillings, training=training)
    _normalized(b, node, x, b.numel(x.dims).high, given=not training)


def _layer_norm(b: Builder) -> None:
    rms = b.op is not None and b.op.name == "rms_norm"
    x = b.pick(
        FLOATS,
        rank=(1, 5),
        where=lambda v: all(size.low > 0 for size in v.dims),
        dims=lambda: tuple(b.new_size(1) for _ in range(b.choices.between(1, 4))),
    )
    last = b.choices.between(1, min(x.rank, 2))
    dims = x.dims[-last:]
    kwargs = _epsilon(b)
    if b.as_module:
        must(all(size.static for size in dims))
        state: dict[str, TensorSpec] = {}
        fillings: dict[str, Filling] = {}
        if b.choices.coin(75):
            state, fillings = _affine_state(b, x.dtype, dims, bias=not rms)
        else:
            kwargs["elementwise_affine"] = False
        shape = size_args(dims)
        node = b.module(
            [x.ref], [shape[0] if last == 1 and b.choices.coin(50) else shape], _ctor(x, kwargs), state=state, fillings=fillings
        )
    else:
        args: list[Value] = [x.ref, size_args(dims)]
        if b.choices.coin(60):
            args.append(_operand(b, x, dims).ref)
            if not rms and b.choices.coin(70):
                args.append(_operand(b, x, dims).ref)
        node = b.call(args, kwargs)
    _normalized(b, node, x, b.numel(dims).high)


def _group_norm(b: Builder) -> None:
    x = _channels(b, 2, 5, static=True)
    channels = x.dims[1].values[0]
    groups = b.choices.choose([n for n in range(1, channels + 1) if channels % n == 0])
    must(b.numel(x.dims[1:]).low > groups)
    kwargs = _epsilon(b)
    dims = (x.dims[1],)
    if b.as_module:
        state: dict[str, TensorSpec] = {}
        fillings: dict[str, Filling] = {}
        if b.choices.coin(75):
            state, fillings = _affine_state(b, x.dtype, dims)
        else:
            kwargs["affine"] = False
        node = b.module([x.ref], [groups, channels], _ctor(x, kwargs), state=state, fillings=fillings)
    else:
        args: list[Value] = [x.ref, groups]
        if b.choices.coin(60):
            args += [_operand(b, x, dims).ref, _operand(b, x, dims).ref]
        node = b.call(args, kwargs)
    _normalized(b, node, x, b.numel(x.dims[1:]).high)


def _instance_norm(b: Builder) -> None:
    rank = {"nn.InstanceNorm1d": (3, 3), "nn.InstanceNorm2d": (4, 4)}.get(b.spelling, (3, 5))
    x = _channels(b, *rank, static=b.as_module)
    must(b.numel(x.dims[2:]).low > 1)
    kwargs = _epsilon(b)
    dims = (x.dims[1],)
    if b.as_module:
        state: dict[str, TensorSpec] = {}
        fillings: dict[str, Filling] = {}
        if b.choices.coin(50):
            state, fillings = _affine_state(b, x.dtype, dims)
            kwargs["affine"] = True
        node = b.module([x.ref], [x.dims[1].dim], _ctor(x, kwargs), state=state, fillings=fillings)
    else:
        if b.choices.coin(50):
            kwargs |= {"weight": _operand(b, x, dims).ref, "bias": _operand(b, x, dims).ref}
        node = b.call([x.ref], kwargs)
    _normalized(b, node, x, b.numel(x.dims[2:]).high)


def _normalize(b: Builder) -> None:
    x = b.pick(WIDE, rank=(1, 5))
    dim = b.choices.below(x.rank)
    p = b.choices.choose((2.0, 1.0, 2))
    node = b.call([x.ref], {"p": p, "dim": written(b, dim, x.rank), **({"eps": 0.125} if b.choices.coin(40) else {})})
    b.result(node, x.dtype, x.dims, Vals(-1.5, 1.5, None, False, x.vals.special), contiguous=False)


def _local_response(b: Builder) -> None:
    x = _channels(b, 3, 5)
    must(x.contiguous)
    node = b.module([x.ref], [b.choices.between(1, 3)]) if b.as_module else b.call([x.ref, b.choices.between(1, 3)])
    reach = x.vals.peak
    b.result(node, x.dtype, x.dims, Vals(-reach, reach, None, False, x.vals.special), contiguous=False)


def _cosine(b: Builder) -> None:
    x = b.pick(WIDE, rank=(1, 4))
    y = b.partner(x, (x.dtype,), same_shape=True, where=lambda v: v.dtype == x.dtype)
    dim = b.choices.below(x.rank)
    dims: tuple[Size, ...] = (*x.dims[:dim], *x.dims[dim + 1 :])
    kwargs: dict[str, Value] = {"dim": written(b, dim, x.rank)}
    node = b.call([x.ref, y.ref], kwargs)
    b.result(node, x.dtype, dims, Vals(-1.5, 1.5, None, False, x.vals.special or y.vals.special), contiguous=False)


def _spec(name: str, draw: object, spellings: tuple[str, ...], dtypes: tuple[str, ...] = WIDE, weight: int = 4) -> OpSpec:
    return OpSpec(name, "norm", spellings, draw, dtypes, False, weight)  # type: ignore[arg-type]


OPS: tuple[OpSpec, ...] = (
    _spec("batch_norm", _batch_norm, ("torch.nn.functional.batch_norm", "nn.BatchNorm1d", "nn.BatchNorm2d", "nn.BatchNorm3d"), weight=8),
    _spec("layer_norm", _layer_norm, ("torch.nn.functional.layer_norm", "nn.LayerNorm"), FLOATS, 6),
    _spec("rms_norm", _layer_norm, ("torch.nn.functional.rms_norm", "nn.RMSNorm"), WIDE, 2),
    _spec("group_norm", _group_norm, ("torch.nn.functional.group_norm", "nn.GroupNorm")),
    _spec("instance_norm", _instance_norm, ("torch.nn.functional.instance_norm", "nn.InstanceNorm1d", "nn.InstanceNorm2d"), weight=3),
    _spec("normalize", _normalize, ("torch.nn.functional.normalize",), weight=2),
    _spec("local_response_norm", _local_response, ("torch.nn.functional.local_response_norm", "nn.LocalResponseNorm"), weight=1),
    _spec("cosine_similarity", _cosine, ("torch.nn.functional.cosine_similarity",), weight=1),
)
