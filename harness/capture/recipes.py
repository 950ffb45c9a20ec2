"""Constructor arguments of torch.nn layers, read back from instances by a reviewed table.

A class is listed only where its attributes say everything that its constructor was told. The others (LSTM,
MultiheadAttention, TransformerEncoderLayer, ...) are inlined by tracing.
"""

from __future__ import annotations

from typing import Any

import torch

from harness.errors import CaptureError, FormatError
from harness.model.fill import Literal
from harness.model.program import ModuleRecipe, TensorSpec
from harness.model.values import DType, Tensor
from harness.torch_bridge.interpret import NodeFailed, build_module_from
from harness.torch_bridge.resolve import module_class_name
from harness.torch_bridge.tensors import DTYPE_NAMES, Unrepresentable, from_torch, tensor_bytes

_CONV = "in_channels out_channels kernel_size stride padding dilation groups bias? padding_mode"
_BATCH_NORM = "num_features eps momentum affine track_running_stats"
_MAX_POOL = "kernel_size stride padding dilation return_indices ceil_mode"
_AVG_POOL = "kernel_size stride padding ceil_mode count_include_pad"
_CELL = "input_size hidden_size bias"

# Constructor arguments by class; `name?` is a bool that says whether the tensor of this name is there.
_TABLE = {
    "Linear": "in_features out_features bias?",
    "Bilinear": "in1_features in2_features out_features bias?",
    "Embedding": "num_embeddings embedding_dim padding_idx max_norm norm_type scale_grad_by_freq sparse",
    **{f"Conv{n}d": _CONV for n in (1, 2, 3)},
    **{f"ConvTranspose{n}d": _CONV.replace("dilation groups", "output_padding groups dilation") for n in (1, 2, 3)},
    **{f"BatchNorm{n}d": _BATCH_NORM for n in (1, 2, 3)},
    **{f"InstanceNorm{n}d": _BATCH_NORM for n in (1, 2, 3)},
    "GroupNorm": "num_groups num_channels eps affine",
    "LayerNorm": "normalized_shape eps elementwise_affine bias?",
    "RMSNorm": "normalized_shape eps elementwise_affine",
    "LSTMCell": _CELL,
    "GRUCell": _CELL,
    "RNNCell": f"{_CELL} nonlinearity",
    **{f"MaxPool{n}d": _MAX_POOL for n in (1, 2, 3)},
    "AvgPool1d": _AVG_POOL,
    **{f"AvgPool{n}d": f"{_AVG_POOL} divisor_override" for n in (2, 3)},
    **{f"AdaptiveAvgPool{n}d": "output_size" for n in (1, 2, 3)},
    **{f"AdaptiveMaxPool{n}d": "output_size return_indices" for n in (1, 2, 3)},
    **{f"LPPool{n}d": "norm_type kernel_size stride ceil_mode" for n in (1, 2, 3)},
    **{f"ConstantPad{n}d": "padding value" for n in (1, 2, 3)},
    **{f"{kind}Pad{n}d": "padding" for kind in ("Zero", "Reflection", "Replication", "Circular") for n in (1, 2, 3)},
    **{name: "inplace" for name in ("ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Hardswish", "Hardsigmoid")},
    **{name: "" for name in ("Identity", "Sigmoid", "Tanh", "LogSigmoid", "Softsign", "Tanhshrink", "Softmax2d")},
    **{name: "alpha inplace" for name in ("ELU", "CELU")},
    **{name: "lambd" for name in ("Softshrink", "Hardshrink")},
    **{name: "dim" for name in ("Softmax", "LogSoftmax", "Softmin", "GLU")},
    **{name: "p inplace" for name in ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout")},
    "LeakyReLU": "negative_slope inplace",
    "GELU": "approximate",
    "Hardtanh": "min_val max_val inplace",
    "Softplus": "beta threshold",
    "PReLU": "num_parameters",
    "Threshold": "threshold value inplace",
    "Flatten": "start_dim end_dim",
    "PixelShuffle": "upscale_factor",
    "PixelUnshuffle": "downscale_factor",
    "Upsample": "size scale_factor mode align_corners",
    "ChannelShuffle": "groups",
    "Fold": "output_size kernel_size dilation padding stride",
    "Unfold": "kernel_size dilation padding stride",
}
_ARGUMENTS: dict[str, tuple[str, ...]] = {f"torch.nn.{name}": tuple(names.split()) for name, names in _TABLE.items()}

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def recipe_of(module: torch.nn.Module) -> tuple[ModuleRecipe, dict[str, Literal]] | None:
    """How to build `module` again, and its tensors' data by local name; None where it must be inlined.

    The recipe is tried: what it builds has the same tensors.
    """
    name = module_class_name(type(module))
    if name is None or name not in _ARGUMENTS or any(getattr(module, hooks) for hooks in _HOOKS) or "forward" in vars(module):
        return None
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    try:
        kwargs = {key.rstrip("?"): _argument(module, key) for key in _ARGUMENTS[name]}
    except (Unrepresentable, AttributeError):
        return None
    floats = {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()}
    if len(floats) > 1:
        return None
    if floats - {torch.float32}:
        kwargs["dtype"] = DType(DTYPE_NAMES[floats.pop()])
    recipe = ModuleRecipe(
        name,
        (),
        kwargs,
        module.training,
        {key: TensorSpec(DTYPE_NAMES[tensor.dtype], tuple(tensor.shape)) for key, tensor in tensors.items() if tensor.dtype in DTYPE_NAMES},
    )
    data = {key: Literal(tensor_bytes(tensor)) for key, tensor in tensors.items()}
    return (recipe, data) if _builds(recipe, module, data) else None


def _argument(module: torch.nn.Module, key: str) -> Any:
    if key.endswith("?"):
        # By the dict: while fx traces, getattr would leave a node in its graph.
        return module._parameters.get(key[:-1]) is not None
    return from_torch(getattr(module, key))


def _builds(recipe: ModuleRecipe, module: torch.nn.Module, data: dict[str, Literal]) -> bool:
    try:
        again = build_module_from(
            recipe, {key: Tensor(spec.dtype, spec.concrete_shape({}), data[key]) for key, spec in recipe.state.items()}, where="recipe"
        )
    except (FormatError, NodeFailed, CaptureError):
        return False
    mine, its = (dict(each.named_parameters()) | dict(each.named_buffers()) for each in (module, again))
    return mine.keys() == its.keys() and all(mine[key].shape == its[key].shape and mine[key].dtype == its[key].dtype for key in mine)
