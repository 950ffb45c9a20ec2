"""One call or more for each adapter: ordinary input that PyTorch takes, in the spelling PyTorch users write."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.model.fill import Fill, Literal
from harness.model.program import ModuleRecipe, TensorSpec
from harness.model.values import DType

F = "torch.nn.functional."
N = "torch.nn."


@dataclass(frozen=True)
class T:
    """A tensor to be made: a placeholder of the case."""

    dtype: str
    shape: tuple[int, ...]
    data: Fill | Literal


@dataclass(frozen=True)
class Row:
    """One call: `target` as a node has it, or a class of torch.nn with constructor arguments in `ctor`."""

    target: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    recipe: ModuleRecipe | None = None


_seed = 0


def _next() -> int:
    global _seed
    _seed += 1
    return _seed


def f(*shape: int, low: int = -3, high: int = 3) -> T:
    """A float32 tensor of ordinary numbers."""
    return T("float32", shape, Fill("ordinary/1", _next(), low, high))


def pos(*shape: int) -> T:
    """A float32 tensor of numbers in [1, 4]."""
    return f(*shape, low=1, high=4)


def unit(*shape: int) -> T:
    """A float32 tensor of numbers in [0, 1]."""
    return f(*shape, low=0, high=1)


def i(*shape: int, low: int = 1, high: int = 9, dtype: str = "int64") -> T:
    """An integer tensor."""
    return T(dtype, shape, Fill("integers/1", _next(), low, high))


def b(*shape: int) -> T:
    """A bool tensor."""
    return T("bool", shape, Fill("integers/1", _next(), 0, 1))


def of(values: list[Any], dtype: str = "int64") -> T:
    """A tensor of these values."""
    array = np.array(values, dtype=dtype)
    return T(dtype, array.shape, Literal(array.tobytes()))


def row(target: str, *args: Any, **kwargs: Any) -> Row:
    """A call of a function or method."""
    return Row(target, args, kwargs)


def layer(cls: str, ctor: tuple[Any, ...], *args: Any, state: dict[str, tuple[int, ...]] | None = None, **kwargs: Any) -> Row:
    """A call of a layer; `state` gives the shapes of its float32 parameters and buffers."""
    specs = {name: TensorSpec("float32", shape) for name, shape in (state or {}).items()}
    return Row(f"{N}{cls}", args, {}, ModuleRecipe(f"{N}{cls}", ctor, kwargs, state=specs))


f32, f64, i64 = DType("float32"), DType("float64"), DType("int64")

POINTWISE = [
    *(
        row(f"torch.{name}", f(2, 3))
        for name in "abs atan ceil cos cosh erf erfc exp expm1 floor neg round sigmoid sign sin sinh square tan tanh trunc asinh".split()  # noqa: SIM905
    ),
    *(row(f"torch.{name}", pos(2, 3)) for name in "log log10 log1p log2 reciprocal rsqrt sqrt lgamma acosh".split()),  # noqa: SIM905
    *(row(f"torch.{name}", T("float32", (2, 3), Fill("ordinary/1", 5, 0, 1))) for name in "acos asin atanh erfinv".split()),  # noqa: SIM905
    row("torch.add", f(2, 3), f(3), alpha=2),
    row("torch.add", f(2, 3), 2),
    row("aten.add.Scalar", f(2, 3), 2, 3),
    row("aten.add.Tensor", f(2, 3), f(2, 1)),
    row("torch.sub", f(2, 3), f(2, 3), alpha=2),
    row("sub", i(2, 3), 1),
    row("torch.mul", f(2, 1), f(1, 3)),
    row("torch.mul", i(2, 3), 2.5),
    row("torch.div", f(2, 3), pos(2, 3)),
    row("torch.div", i(2, 3), i(2, 3)),
    row("torch.div", f(2, 3), pos(2, 3), rounding_mode="floor"),
    row("torch.div", f(2, 3), pos(2, 3), rounding_mode="trunc"),
    row("div", i(2, 3), i(2, 3), rounding_mode="floor"),
    row("aten.div.Tensor_mode", f(2, 3), pos(2, 3), rounding_mode="floor"),
    row("torch.floor_divide", pos(2, 3), 2),
    row("torch.fmod", f(2, 3), 2),
    row("torch.atan2", f(2, 3), f(2, 3)),
    row("torch.maximum", f(2, 3), f(3)),
    row("torch.minimum", f(2, 3), f(2, 3)),
    row("torch.logaddexp", f(2, 3), f(2, 3)),
    row("torch.pow", pos(2, 3), 2),
    row("torch.pow", pos(2, 3), f(2, 3)),
    row("torch.pow", 2.0, f(2, 3)),
    row("torch.addcmul", f(2, 3), f(2, 3), f(2, 3), value=2),
    row("torch.addcdiv", f(2, 3), f(2, 3), pos(2, 3), value=2),
    row("torch.clamp", f(2, 3), -1, 1),
    row("torch.clamp", f(2, 3), max=0.5),
    row("torch.clip", f(2, 3), min=0.5),
    row("torch.clamp_min", f(2, 3), 0),
    row("torch.clamp_max", f(2, 3), 0),
    row("__rsub__", f(2, 3), 2),
    row("add_", f(2, 3), f(2, 3), alpha=2),
    row("sub_", f(2, 3), f(2, 3)),
    row("mul_", f(2, 3), 2),
    row("div_", f(2, 3), 2),
    row("addcmul_", f(2, 3), f(2, 3), f(2, 3), value=2),
    row("addcdiv_", f(2, 3), f(2, 3), pos(2, 3), value=2),
    row("clamp_", f(2, 3), -1, 1),
    row("clamp_min_", f(2, 3), 0),
    row("clamp_max_", f(2, 3), 0),
    row("fill_", f(2, 3), 2),
    row("zero_", f(2, 3)),
    row("copy_", f(2, 3), f(3)),
    row("sin_", f(2, 3)),
    row("floor_", f(2, 3)),
    row("erfinv_", unit(2, 3)),
    *(row(f"operator.{name}", f(2, 3), f(2, 3)) for name in ("add", "sub", "mul", "truediv", "eq", "ne", "lt", "le", "gt", "ge")),
    row("operator.add", 1, f(2, 3)),
    row("operator.sub", 1, f(2, 3)),
    row("operator.truediv", 1, pos(2, 3)),
    row("operator.floordiv", pos(2, 3), 2),
    row("operator.mod", pos(2, 3), 2),
    row("operator.pow", pos(2, 3), 2),
    row("operator.matmul", f(2, 3), f(3, 2)),
    row("operator.and_", b(2, 3), b(2, 3)),
    row("operator.or_", b(2, 3), b(2, 3)),
    row("operator.xor", b(2, 3), b(2, 3)),
    row("operator.invert", b(2, 3)),
    row("operator.neg", f(2, 3)),
    row("operator.abs", f(2, 3)),
    row("operator.iadd", f(2, 3), 1),
    row("operator.isub", f(2, 3), 1),
    row("operator.imul", f(2, 3), 2),
    row("operator.itruediv", f(2, 3), 2),
    row("operator.ipow", f(2, 3), 2),
]

COMPARISON = [
    *(row(f"torch.{name}", i(2, 3, high=3), i(2, 3, high=3)) for name in ("eq", "ne", "lt", "le", "gt", "ge")),
    *(row(name, f(2, 3), 0.5) for name in ("eq", "ne", "lt", "le", "gt", "ge")),
    *(row(f"torch.{name}", b(2, 3), b(2, 3)) for name in ("logical_and", "logical_or", "logical_xor")),
    *(row(f"torch.{name}", f(2, 3)) for name in ("isnan", "isinf", "isfinite")),
    row("torch.logical_not", b(2, 3)),
    row("torch.isclose", f(2, 3), f(2, 3), rtol=0.5),
    row("torch.isclose", f(2, 3), f(2, 3), 1e-5, 2.0),
    row("torch.allclose", f(2, 3), f(2, 3), atol=100.0),
    row("torch.equal", f(2, 3), f(2, 3)),
    row("torch.where", b(2, 3), f(2, 3), f(3)),
    row("torch.where", b(2, 3), f(2, 3), 2.0),
    row("where", f(2, 3), b(2, 3), f(2, 3)),
    row("torch.where", of([[1, 0], [0, 1]], "bool")),
]

REDUCTIONS = [
    *(row(f"torch.{name}", f(2, 3)) for name in ("sum", "mean", "prod", "nansum", "max", "min", "median", "amax", "argmax", "argmin")),
    *(
        row(f"torch.{name}", f(2, 3, 2), 1, True)
        for name in ("sum", "mean", "prod", "max", "min", "median", "amax", "amin", "argmax", "argmin")
    ),
    *(row(name, f(2, 3, 2), (0, -1)) for name in ("sum", "mean", "amax", "amin")),
    row("torch.prod", i(2, 3, high=3), 1, dtype=f32),
    row("torch.nansum", f(2, 3), 1),
    row("torch.max", f(2, 3), f(2, 3)),
    row("torch.min", f(2, 3), f(2, 3)),
    *(row(f"torch.{name}", b(2, 3)) for name in ("all", "any")),
    *(row(f"torch.{name}", b(2, 3), 1, True) for name in ("all", "any")),
    *(row(f"torch.{name}", f(2, 3)) for name in ("std", "var")),
    *(row(f"torch.{name}", f(2, 3), False) for name in ("std", "var")),
    *(row(f"torch.{name}", f(2, 3), 1, keepdim=True) for name in ("std", "var")),
    *(row(f"torch.{name}", f(2, 3), (0, 1), correction=0) for name in ("std", "var")),
    *(row(name, f(2, 3), 1, False, True) for name in ("std", "var")),
    row("torch.logsumexp", f(2, 3), 1, True),
    row("torch.cumsum", f(2, 3), 1),
    row("torch.cumsum", i(2, 3), 0, dtype=f32),
    row("torch.cumprod", f(2, 3), 1),
    row("torch.quantile", f(7), 0.4),
    row("torch.quantile", f(2, 7), 0.4, 1, interpolation="nearest"),
    row("torch.norm", f(2, 3)),
    row("torch.norm", f(2, 3), 1, 1, True),
    row("torch.linalg.norm", f(2, 3)),
    row("torch.linalg.norm", f(2, 3), 1),
    row("torch.linalg.vector_norm", f(2, 3), 3, 1, True),
    row("torch.linalg.matrix_norm", f(2, 3)),
    row("torch.linalg.matrix_norm", f(2, 3), 1),
]

SHAPE = [
    row("view", f(2, 3), 3, 2),
    row("view", f(2, 3), (-1,)),
    row("reshape", f(2, 3), 3, -1),
    row("torch.reshape", f(2, 3), (6,)),
    row("view_as", f(2, 3), f(3, 2)),
    row("reshape_as", f(2, 3), f(6)),
    row("expand_as", f(2, 1), f(2, 3)),
    row("type_as", i(2, 3), f(1)),
    row("torch.flatten", f(2, 3, 4), 1),
    row("flatten", f(2, 3, 4)),
    row("torch.squeeze", f(2, 1, 3, 1)),
    row("torch.squeeze", f(2, 1, 3, 1), 1),
    row("torch.squeeze", f(2, 1, 3, 1), (1, 3)),
    row("torch.unsqueeze", f(2, 3), -1),
    row("torch.transpose", f(2, 3, 4), 0, -1),
    row("torch.swapaxes", f(2, 3, 4), 0, 1),
    row("torch.permute", f(2, 3, 4), (2, 0, 1)),
    row("permute", f(2, 3, 4), 2, 0, 1),
    row("t", f(2, 3)),
    row("expand", f(2, 1, 3), -1, 4, 3),
    row("expand", f(2, 1, 3), (2, 4, 3)),
    row("torch.broadcast_to", f(2, 1), (3, 2, 4)),
    row("repeat", f(2, 3), 2, 1),
    row("torch.tile", f(2, 3), (2,)),
    row("torch.repeat_interleave", f(2, 3), 2),
    row("torch.repeat_interleave", f(2, 3), 2, 1),
    row("torch.repeat_interleave", f(2, 3), of([1, 2]), 0),
    row("torch.roll", f(2, 3), 1),
    row("torch.roll", f(2, 3), 1, 0),
    row("torch.roll", f(2, 3), (1, 2), (0, 1)),
    row("torch.flip", f(2, 3), (0, 1)),
    row("flip", f(2, 3), 1),
    row("torch.movedim", f(2, 3, 4), 0, 2),
    row("torch.movedim", f(2, 3, 4), (0, 1), (1, 2)),
    row("torch.narrow", f(4, 3), 0, 1, 2),
    row("torch.select", f(4, 3), 1, -1),
    row("torch.unbind", f(2, 3), 1),
    row("torch.split", f(5, 3), 2),
    row("torch.split", f(5, 3), [1, 4]),
    row("split", f(3, 5), 2, 1),
    row("aten.split_with_sizes.default", f(5, 3), [2, 3]),
    row("torch.chunk", f(5, 3), 3),
    row("torch.tensor_split", f(5, 3), 3),
    row("torch.tensor_split", f(5, 3), (1, 3)),
    row("torch.hsplit", f(2, 4), 2),
    row("torch.vsplit", f(4, 2), 2),
    row("torch.diagonal", f(3, 3), 1),
    row("torch.diag", f(3)),
    row("torch.diag", f(3, 3), 1),
    row("torch.tril", f(3, 3), -1),
    row("torch.triu", f(3, 3), 1),
    row("triu_", f(3, 3), 1),
    row("unfold", f(2, 6), 1, 2, 2),
    row("torch.as_strided", f(4, 3), (2, 2), (3, 1), 1),
    row("contiguous", f(2, 3)),
    row("clone", f(2, 3)),
    row("detach", f(2, 3)),
    row("torch.atleast_1d", f()),
    row("torch.atleast_2d", f(3)),
    row("torch.atleast_3d", f(3)),
    row("numel", f(2, 3)),
    row("dim", f(2, 3)),
    row("size", f(2, 3)),
    row("size", f(2, 3), 1),
    row("aten.slice.Tensor", f(4, 3), 1, 0, 2),
    *(row(name, i(2, 3)) for name in ("float", "double", "int", "long", "bool", "byte")),
    *(row(name, f(2, 3)) for name in ("half", "bfloat16")),
    row("to", i(2, 3), f64),
    row("to", i(2, 3), dtype=f32),
    row("aten._to_copy.default", i(2, 3), dtype=f32),
    row("type", i(2, 3), f32),
]

INDEXING = [
    row("torch.index_select", f(4, 3), 0, of([3, 0])),
    row("torch.gather", f(2, 3), 1, of([[0, 2], [1, 1]])),
    row("torch.masked_select", f(2, 3), b(2, 3)),
    row("torch.masked_fill", f(2, 3), b(2, 3), 2.5),
    row("masked_fill_", f(2, 3), b(2, 3), 2.5),
    row("torch.nonzero", of([[1, 0], [2, 3]])),
    row("torch.nonzero", of([[1, 0], [2, 3]]), as_tuple=True),
    row("torch.argwhere", of([[1, 0], [2, 3]])),
    row("torch.scatter", f(3, 3), 0, of([[0, 1, 2]]), f(1, 3)),
    row("torch.scatter", f(3, 3), 0, of([[0, 1, 2]]), 5.0),
    row("scatter_", f(3, 3), 0, of([[0, 1, 2]]), f(1, 3)),
    row("torch.scatter_add", f(3, 3), 0, of([[0, 0, 2]]), f(1, 3)),
    row("scatter_add_", f(3, 3), 0, of([[0, 0, 2]]), f(1, 3)),
    row("torch.index_add", f(3, 3), 0, of([0, 2]), f(2, 3), alpha=2),
    row("index_add_", f(3, 3), 0, of([0, 2]), f(2, 3)),
    row(f"{F}one_hot", of([0, 2, 1]), 4),
    row(f"{F}one_hot", of([0, 2, 1])),
    row(f"{F}embedding", of([[0, 2], [1, 1]]), f(3, 4)),
    row("aten.embedding.default", f(3, 4), of([0, 2])),
    row("torch.searchsorted", of([1, 3, 5, 7]), of([2, 3, 8])),
    row("torch.searchsorted", of([1, 3, 5, 7]), of([2, 3, 8]), right=True),
    row("torch.bincount", of([0, 1, 1, 3])),
    row("torch.unique", of([3, 1, 3, 2])),
    row("operator.getitem", f(4, 3), 1),
    row("operator.getitem", f(4, 3), (slice(None), slice(0, 2, None))),
    row("operator.getitem", f(4, 3), (Ellipsis, None, -1)),
    row("operator.getitem", f(4, 3), of([3, 0, 0])),
    row("operator.getitem", f(4, 3), (slice(None), of([2, 0]))),
    row("operator.getitem", f(4, 3), (of([3, 0]), of([2, 1]))),
    row("operator.getitem", f(4), of([1, 0, 0, 1], "bool")),
    row("operator.setitem", f(4, 3), 1, 2.0),
    row("operator.setitem", f(4, 3), (slice(1, 3), 0), f(2)),
    row("aten.index.Tensor", f(4, 3), [None, of([2, 0])]),
]

JOINING = [
    row("torch.cat", [f(2, 3), f(1, 3)]),
    row("torch.cat", (f(2, 3), f(2, 1)), dim=1),
    row("torch.stack", [f(2, 3), f(2, 3)], -1),
    row("torch.hstack", [f(2, 3), f(2, 1)]),
    row("torch.vstack", [f(2, 3), f(1, 3)]),
    row("torch.dstack", [f(2, 3), f(2, 3)]),
    row("torch.column_stack", [f(2), f(2)]),
    row("torch.broadcast_tensors", f(2, 1), f(1, 3)),
    row("torch.meshgrid", f(2), f(3), indexing="ij"),
    row("torch.meshgrid", f(2), f(3), indexing="xy"),
]

LINEAR = [
    row("torch.lstm_cell", f(2, 3), [f(2, 4), f(2, 4)], f(16, 3), f(16, 4), f(16), f(16)),
    row("torch.gru_cell", f(2, 3), f(2, 4), f(12, 3), f(12, 4), f(12), f(12)),
    row("torch.rnn_tanh_cell", f(2, 3), f(2, 4), f(4, 3), f(4, 4), f(4), f(4)),
    row("torch.rnn_relu_cell", f(2, 3), f(2, 4), f(4, 3), f(4, 4)),
    row("torch.matmul", f(2, 3), f(3, 4)),
    row("torch.matmul", f(5, 2, 3), f(3)),
    row("torch.mm", f(2, 3), f(3, 4)),
    row("torch.bmm", f(5, 2, 3), f(5, 3, 4)),
    row("torch.mv", f(2, 3), f(3)),
    row("torch.dot", f(3), f(3)),
    row("torch.addmm", f(4), f(2, 3), f(3, 4), beta=2, alpha=3),
    row("torch.baddbmm", f(5, 2, 4), f(5, 2, 3), f(5, 3, 4), beta=2, alpha=3),
    row("torch.einsum", "ij,jk->ki", f(2, 3), f(3, 4)),
    row("aten.einsum.default", "ij,ij->i", [f(2, 3), f(2, 3)]),
    row("torch.tensordot", f(2, 3), f(3, 4), 1),
    row("torch.tensordot", f(2, 3), f(3, 2), ([1, 0], [0, 1])),
    row(f"{F}linear", f(5, 3), f(4, 3), f(4)),
    row("torch.cross", f(2, 3), f(2, 3), 1),
    row("torch.linalg.cross", f(2, 3), f(2, 3)),
    row("torch.linalg.inv", f(3, 3)),
]

CONVOLUTION = [
    row(f"{F}conv1d", f(2, 4, 8), f(6, 4, 3), None, 2, "valid"),
    row(f"{F}conv2d", f(2, 4, 7, 8), f(6, 4, 3, 5), f(6), padding="same"),
    row(f"{F}conv2d", f(2, 4, 7, 8), f(6, 4, 3, 2), f(6), padding="same", dilation=2),
    row(f"{F}conv1d", f(2, 4, 8), f(6, 4, 3), f(6), padding=1),
    row(f"{F}conv2d", f(2, 4, 7, 8), f(6, 4, 3, 2), f(6), 2, (1, 0), 1),
    row(f"{F}conv2d", f(2, 4, 7, 8), f(6, 2, 3, 3), None, dilation=2, groups=2),
    row(f"{F}conv3d", f(1, 2, 4, 5, 6), f(3, 2, 2, 2, 2), stride=(1, 2, 1)),
    row(f"{F}conv_transpose1d", f(2, 4, 5), f(4, 3, 3), f(3), 2, 1, 1),
    row(f"{F}conv_transpose2d", f(2, 4, 5, 5), f(4, 3, 3, 3), stride=2, output_padding=1, dilation=1),
    row(f"{F}conv_transpose3d", f(1, 2, 3, 3, 3), f(2, 3, 2, 2, 2), f(3)),
    row("aten.convolution.default", f(2, 4, 7, 8), f(6, 4, 3, 3), f(6), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    row("aten.convolution.default", f(2, 4, 5, 5), f(4, 3, 3, 3), None, [2, 2], [0, 0], [1, 1], True, [1, 1], 1),
]

POOLING = [
    row(f"{F}adaptive_avg_pool2d", f(2, 3, 8, 7), (None, 2)),
    row(f"{F}adaptive_max_pool2d", f(2, 3, 8, 7), (3, None)),
    row("aten.upsample_nearest1d.default", f(1, 2, 4), [6]),
    row("aten.upsample_nearest2d.default", f(1, 2, 4, 4), [3, 6]),
    row("aten.upsample_nearest3d.vec", f(1, 2, 2, 3, 2), [3, 6, 4], None),
    row("aten.upsample_linear1d.default", f(1, 2, 4), [6], False),
    row("aten.upsample_bilinear2d.default", f(1, 2, 4, 4), [3, 6], True),
    row("aten.upsample_bicubic2d.default", f(1, 2, 4, 4), [3, 6], False),
    row("aten.upsample_trilinear3d.vec", f(1, 2, 2, 3, 2), [3, 6, 4], False, None),
    row(f"{F}max_pool1d", f(2, 3, 8), 2),
    row(f"{F}max_pool2d", f(2, 3, 8, 7), 3, 2, 1),
    row(f"{F}max_pool2d", f(2, 3, 8, 7), (2, 3), ceil_mode=True, return_indices=True),
    row(f"{F}max_pool3d", f(1, 2, 4, 5, 6), 2),
    row("aten.max_pool2d_with_indices.default", f(2, 3, 8, 8), [2, 2], [], [0, 0]),
    row(f"{F}avg_pool1d", f(2, 3, 8), 2, 2, 1),
    row(f"{F}avg_pool2d", f(2, 3, 8, 7), 3, 2, 1, count_include_pad=False),
    row(f"{F}avg_pool2d", f(2, 3, 8, 7), 2, divisor_override=3),
    row(f"{F}avg_pool3d", f(1, 2, 4, 5, 6), 2, ceil_mode=True),
    row(f"{F}adaptive_avg_pool1d", f(2, 3, 8), 3),
    row(f"{F}adaptive_avg_pool2d", f(2, 3, 8, 7), (3, 2)),
    row(f"{F}adaptive_avg_pool3d", f(1, 2, 4, 5, 6), 2),
    row(f"{F}adaptive_max_pool1d", f(2, 3, 8), 3),
    row(f"{F}adaptive_max_pool2d", f(2, 3, 8, 7), 2),
    row(f"{F}adaptive_max_pool3d", f(1, 2, 4, 5, 6), 2),
    row(f"{F}max_unpool1d", f(1, 1, 3), of([[[1, 2, 5]]]), 2),
    row(f"{F}max_unpool2d", f(1, 1, 2, 2), of([[[[0, 3], [9, 14]]]]), 2),
    row(f"{F}unfold", f(1, 2, 4, 5), 2, stride=2),
    row(f"{F}fold", f(1, 8, 4), (4, 4), 2, stride=2),
    row(f"{F}interpolate", f(1, 2, 4, 4), scale_factor=2),
    row(f"{F}interpolate", f(1, 2, 4, 4), size=(3, 5), mode="bilinear", align_corners=True),
    row(f"{F}interpolate", f(1, 2, 6), size=4, mode="linear"),
    row(f"{F}grid_sample", f(1, 2, 4, 4), T("float32", (1, 3, 3, 2), Fill("ordinary/1", 9, 0, 1)), align_corners=True),
    row(f"{F}affine_grid", f(1, 2, 3), (1, 1, 3, 4), align_corners=False),
]

NORMALIZATION = [
    row(f"{F}batch_norm", f(4, 3, 2), f(3), pos(3), f(3), f(3)),
    row(f"{F}batch_norm", f(4, 3, 2), f(3), pos(3), f(3), f(3), True, 0.2, 1e-3),
    row(f"{F}layer_norm", f(2, 3, 4), (3, 4), f(3, 4), f(3, 4)),
    row(f"{F}layer_norm", f(2, 3, 4), (4,), eps=0.1),
    row(f"{F}normalize", f(2, 3)),
    row(f"{F}normalize", f(2, 3), p=1, dim=0),
]

ACTIVATION = [
    *(
        row(f"{F}{name}", f(2, 6))
        for name in ("relu", "relu6", "selu", "silu", "mish", "hardswish", "hardsigmoid", "softsign", "logsigmoid")
    ),
    *(
        row(f"{F}{name}", f(2, 6))
        for name in ("leaky_relu", "elu", "celu", "gelu", "hardtanh", "hardshrink", "softshrink", "softplus", "glu")
    ),
    row("relu", f(2, 3)),
    row("relu_", f(2, 3)),
    row(f"{F}relu", f(2, 3), inplace=True),
    row(f"{F}celu", f(2, 3), 0.7, True),
    row(f"{F}leaky_relu", f(2, 3), inplace=True),
    row("aten.relu.default", f(2, 3)),
    row(f"{F}leaky_relu", f(2, 3), 0.3),
    row(f"{F}elu", f(2, 3), 0.7),
    row(f"{F}celu", f(2, 3), 0.7),
    row(f"{F}gelu", f(2, 3), approximate="tanh"),
    row(f"{F}hardtanh", f(2, 3), -0.5, 2.0),
    row(f"{F}hardshrink", f(2, 3), 0.7),
    row(f"{F}softshrink", f(2, 3), 0.7),
    row(f"{F}softplus", f(2, 3), 2, 3),
    row(f"{F}threshold", f(2, 3), 0.5, -2.0),
    row(f"{F}glu", f(4, 3), 0),
    row(f"{F}prelu", f(2, 3), f(3)),
    row(f"{F}softmax", f(2, 3), 1),
    row(f"{F}log_softmax", f(2, 3), 1, dtype=f64),
    row("torch.softmax", i(2, 3), 1, f32),
    row("aten.elu.default", f(2, 3), 0.5),
    row("torch.softmax", f(2, 3), 0),
    row("log_softmax", f(2, 3), -1),
    row("aten._softmax.default", f(2, 3), 1, False),
    row(f"{F}dropout", f(2, 3), 0.5, False),
    *(row(f"{F}dropout{n}d", f(2, 3, *(2,) * n), 0.5, False) for n in (1, 2, 3)),
]

PADDING = [
    row("aten.reflection_pad1d.default", f(1, 2, 4), [1, 2]),
    row("aten.reflection_pad2d.default", f(1, 2, 4, 4), [1, 2, 1, 0]),
    row("aten.replication_pad2d.default", f(1, 2, 4, 4), [1, 2, 1, 0]),
    row("aten.constant_pad_nd.default", f(2, 3), [1, 2], 0.5),
    row(f"{F}pad", f(2, 3), (1, 2)),
    row(f"{F}pad", f(2, 3), (1, 2, 0, 1), "constant", 2.5),
    row(f"{F}pad", f(1, 2, 4, 5), (1, 2, 2, 1), mode="reflect"),
    row(f"{F}pad", f(1, 2, 4, 5), (1, 2, 2, 1), mode="replicate"),
    row("aten.constant_pad_nd.default", f(2, 3), [1, 1], 2.0),
]

ORDERING = [
    row("torch.sort", f(2, 5)),
    row("torch.sort", f(2, 5), 0, True),
    row("torch.sort", f(2, 5), descending=True),
    row("torch.argsort", f(2, 5), 1, True),
    row("torch.topk", f(2, 5), 2),
    row("topk", f(2, 5), 2, 1, False),
]

CREATION = [
    row("torch.zeros", 2, 3),
    row("torch.zeros", ()),
    row("new_ones", f(1), ()),
    row("torch.ones", (2, 3), dtype=i64),
    row("torch.full", (2, 3), 2.5),
    row("torch.tensor", [[1.0, 2.5], [-0.5, 0.0]]),
    row("torch.tensor", [1, -2, 3]),
    row("torch.tensor", [True, False]),
    row("torch.tensor", [1, 2], dtype=f32),
    row("torch.full", (2, 3), 2, dtype=f32),
    row("torch.zeros_like", f(2, 3)),
    row("torch.ones_like", i(2, 3), dtype=f32),
    row("torch.full_like", f(2, 3), 2.5),
    row("new_zeros", f(1), 2, 3),
    row("new_ones", f(1), (2, 3), dtype=i64),
    row("new_full", f(1), (2, 3), 2.5),
    row("torch.arange", 5),
    row("torch.arange", 1, 7, 2, dtype=f32),
    row("torch.arange", 0.0, 1.0, 0.25),
    row("torch.linspace", 0.0, 1.0, 5),
    row("torch.logspace", 0.0, 1.0, 5),
    row("torch.eye", 3),
    row("torch.eye", 3, 2, dtype=i64),
]

LOSSES = [
    row("aten.mse_loss.default", f(2, 3), f(2, 3), 2),
    row("aten.smooth_l1_loss.default", f(2, 3), f(2, 3), 0, 0.5),
    row("aten.kl_div.default", f(2, 3), pos(2, 3), 2, log_target=False),
    row("aten.cross_entropy_loss.default", f(3, 4), of([1, 0, 3]), None, 2),
    row("aten.binary_cross_entropy.default", unit(2, 3), unit(2, 3)),
    row("aten.binary_cross_entropy_with_logits.default", f(2, 3), unit(2, 3), None, None, 2),
    *(row(f"{F}{name}", f(2, 3), f(2, 3)) for name in ("mse_loss", "l1_loss", "smooth_l1_loss")),
    row(f"{F}mse_loss", f(2, 3), f(2, 3), reduction="sum"),
    row(f"{F}smooth_l1_loss", f(2, 3), f(2, 3), reduction="none", beta=0.5),
    row(f"{F}kl_div", f(2, 3), unit(2, 3), reduction="sum"),
    row(f"{F}cross_entropy", f(2, 3), of([0, 2])),
    row(f"{F}cross_entropy", f(2, 3), of([0, 2]), pos(3), reduction="sum"),
    row(f"{F}binary_cross_entropy", T("float32", (2, 3), Fill("ordinary/1", 77, 0, 1)), unit(2, 3)),
    row(f"{F}binary_cross_entropy_with_logits", f(2, 3), unit(2, 3), pos_weight=pos(3)),
    row(f"{F}triplet_margin_loss", f(2, 3), f(2, 3), f(2, 3), margin=2.0, reduction="sum"),
    row(f"{F}cosine_similarity", f(2, 3), f(2, 3), 1),
    row(f"{F}pairwise_distance", f(2, 3), f(2, 3), keepdim=True),
]

_GATES = {"weight_ih_l0": (20, 3), "weight_hh_l0": (20, 5), "bias_ih_l0": (20,), "bias_hh_l0": (20,)}
_THREE = {"weight_ih_l0": (15, 3), "weight_hh_l0": (15, 5), "bias_ih_l0": (15,), "bias_hh_l0": (15,)}
_ONE = {"weight_ih_l0": (5, 3), "weight_hh_l0": (5, 5), "bias_ih_l0": (5,), "bias_hh_l0": (5,)}


def _cell(gates: int) -> dict[str, tuple[int, ...]]:
    return {"weight_ih": (gates, 3), "weight_hh": (gates, 5), "bias_ih": (gates,), "bias_hh": (gates,)}


def _norm(n: int) -> dict[str, tuple[int, ...]]:
    return {"weight": (n,), "bias": (n,), "running_mean": (n,), "running_var": (n,)}


MODULES = [
    layer("Linear", (3, 4), f(2, 3), state={"weight": (4, 3), "bias": (4,)}),
    layer("Linear", (3, 4, False), f(2, 3), state={"weight": (4, 3)}),
    layer("Identity", (), f(2, 3)),
    layer("Flatten", (), f(2, 3, 4)),
    layer("Conv1d", (4, 6, 3), f(2, 4, 8), state={"weight": (6, 4, 3), "bias": (6,)}, padding=1),
    layer("Conv2d", (4, 6, 3), f(2, 4, 8, 8), state={"weight": (6, 2, 3, 3)}, stride=2, groups=2, bias=False),
    layer("Conv2d", (4, 6, 3), f(2, 4, 8, 8), state={"weight": (6, 4, 3, 3), "bias": (6,)}, padding="same"),
    layer("Conv2d", (4, 6, 3), f(2, 4, 8, 8), state={"weight": (6, 4, 3, 3), "bias": (6,)}, padding=1, padding_mode="reflect"),
    layer("Conv3d", (2, 3, 2), f(1, 2, 4, 5, 6), state={"weight": (3, 2, 2, 2, 2), "bias": (3,)}),
    layer("ConvTranspose1d", (4, 3, 3), f(2, 4, 5), state={"weight": (4, 3, 3), "bias": (3,)}, stride=2),
    layer("ConvTranspose2d", (4, 3, 3), f(2, 4, 5, 5), state={"weight": (4, 3, 3, 3), "bias": (3,)}, stride=2, output_padding=1),
    layer("ConvTranspose3d", (2, 3, 2), f(1, 2, 3, 3, 3), state={"weight": (2, 3, 2, 2, 2), "bias": (3,)}),
    *(layer(f"BatchNorm{n}d", (3,), f(4, 3, *(2,) * n), state=_norm(3)) for n in (1, 2, 3)),
    *(layer(f"InstanceNorm{n}d", (3,), f(4, 3, *(4,) * n)) for n in (1, 2, 3)),
    layer("InstanceNorm2d", (3,), f(4, 3, 4, 4), state={"weight": (3,), "bias": (3,)}, affine=True),
    layer("LayerNorm", (4,), f(2, 3, 4), state={"weight": (4,), "bias": (4,)}),
    layer("LayerNorm", ((3, 4),), f(2, 3, 4), elementwise_affine=False),
    layer("GroupNorm", (2, 4), f(2, 4, 3), state={"weight": (4,), "bias": (4,)}),
    layer("RMSNorm", (4, 1e-5), f(2, 3, 4), state={"weight": (4,)}),
    layer("MaxPool1d", (2,), f(2, 3, 8)),
    layer("MaxPool2d", (3, 2, 1), f(2, 3, 8, 8)),
    layer("MaxPool3d", (2,), f(1, 2, 4, 4, 4)),
    layer("AvgPool1d", (2,), f(2, 3, 8)),
    layer("AvgPool2d", (3, 2, 1), f(2, 3, 8, 8)),
    layer("AvgPool3d", (2,), f(1, 2, 4, 4, 4)),
    *(layer(f"AdaptiveAvgPool{n}d", (2,), f(1, 2, *(5,) * n)) for n in (1, 2, 3)),
    *(layer(f"AdaptiveMaxPool{n}d", (2,), f(1, 2, *(5,) * n)) for n in (1, 2, 3)),
    layer("Dropout", (0.5,), f(2, 3)),
    *(layer(f"Dropout{n}d", (0.5,), f(2, 3, *(2,) * n)) for n in (1, 2, 3)),
    *(layer(f"ConstantPad{n}d", (1, 2.5), f(1, 2, *(3,) * n)) for n in (1, 2, 3)),
    layer("ReflectionPad1d", (1,), f(1, 2, 4)),
    layer("ReflectionPad2d", ((1, 2, 1, 0),), f(1, 2, 4, 4)),
    layer("ReplicationPad1d", (2,), f(1, 2, 4)),
    layer("ReplicationPad2d", ((1, 2, 1, 0),), f(1, 2, 4, 4)),
    layer("ZeroPad2d", (1,), f(1, 2, 3, 3)),
    layer("Embedding", (5, 3), of([[0, 4], [2, 2]]), state={"weight": (5, 3)}),
    layer("Embedding", (5, 3, 2), of([[0, 4], [2, 2]]), state={"weight": (5, 3)}),
    *(layer(name, (), f(2, 4)) for name in ("ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Hardswish", "Hardsigmoid", "Sigmoid", "Tanh")),
    *(layer(name, (), f(2, 4)) for name in ("LogSigmoid", "Softsign", "GELU", "LeakyReLU", "ELU", "CELU", "Hardtanh", "Hardshrink")),
    *(layer(name, (), f(2, 4)) for name in ("Softshrink", "Softplus", "GLU")),
    layer("Threshold", (0.5, -1.0), f(2, 4)),
    layer("Softmax", (1,), f(2, 4)),
    layer("LogSoftmax", (0,), f(2, 4)),
    layer("PReLU", (3,), f(2, 3), state={"weight": (3,)}),
    layer("PixelShuffle", (2,), f(1, 8, 2, 3)),
    layer("Upsample", (), f(1, 2, 3, 3), scale_factor=2),
    layer("UpsamplingNearest2d", (), f(1, 2, 3, 3), scale_factor=2),
    layer("UpsamplingBilinear2d", (), f(1, 2, 3, 3), scale_factor=2),
    layer("Unfold", (2,), f(1, 2, 4, 4)),
    layer("Fold", ((4, 4), 2), f(1, 8, 4), stride=2),
    layer("LSTM", (3, 5), f(4, 2, 3), state=_GATES),
    layer("GRU", (3, 5), f(2, 4, 3), state=_THREE, batch_first=True),
    layer("RNN", (3, 5), f(4, 2, 3), state=_ONE),
    layer("LSTMCell", (3, 5), f(2, 3), (f(2, 5), f(2, 5)), state=_cell(20)),
    layer("GRUCell", (3, 5), f(2, 3), f(2, 5), state=_cell(15)),
    layer("RNNCell", (3, 5), f(2, 3), f(2, 5), state=_cell(5)),
    layer("MSELoss", (), f(2, 3), f(2, 3)),
    layer("L1Loss", (), f(2, 3), f(2, 3), reduction="sum"),
    layer("SmoothL1Loss", (), f(2, 3), f(2, 3), beta=0.5),
    layer("KLDivLoss", (), f(2, 3), unit(2, 3), reduction="sum"),
    layer("BCELoss", (), unit(2, 3), unit(2, 3)),
    layer("BCEWithLogitsLoss", (), f(2, 3), unit(2, 3), reduction="sum"),
    layer("NLLLoss", (), f(2, 3), of([0, 2])),
    layer("CrossEntropyLoss", (), f(2, 3), of([0, 2]), ignore_index=2),
    layer("MarginRankingLoss", (0.5,), f(3), f(3), T("float32", (3,), Fill("constant/1", low=1))),
    layer("TripletMarginLoss", (2.0,), f(2, 3), f(2, 3), f(2, 3), reduction="sum"),
    layer("CosineSimilarity", (), f(2, 3), f(2, 3)),
    layer("PairwiseDistance", (), f(2, 3), f(2, 3)),
]

ROWS: list[Row] = [
    *POINTWISE,
    *COMPARISON,
    *REDUCTIONS,
    *SHAPE,
    *INDEXING,
    *JOINING,
    *LINEAR,
    *CONVOLUTION,
    *POOLING,
    *NORMALIZATION,
    *ACTIVATION,
    *PADDING,
    *ORDERING,
    *CREATION,
    *LOSSES,
    *MODULES,
]
