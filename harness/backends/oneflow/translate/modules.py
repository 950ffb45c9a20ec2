"""Layers: OneFlow's own class, built from the drawn recipe, with the recipe's state loaded."""

from __future__ import annotations

from collections.abc import Mapping

from harness.backends.oneflow.errors import OneFlowUnsupported
from harness.backends.oneflow.translate.plan import Expr, FlowDType, Invocation, Local, Operand, Plan
from harness.backends.oneflow.translate.registry import Form, apply, form
from harness.backends.oneflow.translate.signature import bind
from harness.model.dtypes import is_float

_CONV = "in_channels: i, out_channels: i, kernel_size: I, stride: I = 1, padding = 0, dilation: I = 1, groups: i = 1, bias: b = True"
_BATCH_NORM = "num_features: i, eps: s = 1e-05, momentum: s = 0.1, affine: b = True, track_running_stats: b = True"
_MAX_POOL = "kernel_size: I, stride: I = None, padding: I = 0, dilation: I = 1, return_indices: b = False, ceil_mode: b = False"
_AVG_POOL = "kernel_size: I, stride: I = None, padding: I = 0, ceil_mode: b = False, count_include_pad: b = True"
_REDUCTION = "size_average=None, reduce=None, reduction: S = 'mean'"
_CLASSES = "size_average=None, ignore_index: i = -100, reduce=None, reduction: S = 'mean'"
_RNN = (
    "input_size: i, hidden_size: i, num_layers: i = 1, bias: b = True, batch_first: b = False, dropout: s = 0.0, bidirectional: b = False"
)
_RNN_ARGS = "input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional"
_SPATIAL = ("1d", "2d", "3d")

_FORMS: dict[str, Form] = {}


def _layer(names: str, signature: str, arguments: str) -> None:
    for name in names.split():
        _FORMS[name] = form(signature, f"oneflow.nn.{name}({arguments})")


_layer("Linear", "in_features: i, out_features: i, bias: b = True", "in_features, out_features, bias")
_FORMS["Identity"] = form("*ignored", lambda a: Invocation("oneflow.nn.Identity"))
_layer("Flatten", "start_dim: i = 1, end_dim: i = -1", "start_dim, end_dim")
for _n in _SPATIAL:
    _layer(
        f"Conv{_n}",
        f"{_CONV}, padding_mode: S = 'zeros'",
        "in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias",
    )
    _layer(
        f"ConvTranspose{_n}",
        "in_channels: i, out_channels: i, kernel_size: I, stride: I = 1, padding: I = 0, output_padding: I = 0, groups: i = 1,"
        " bias: b = True, dilation: I = 1, padding_mode: S = 'zeros'",
        "in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation",
    )
    _layer(f"BatchNorm{_n}", _BATCH_NORM, "num_features, eps, momentum, affine, track_running_stats")
    _layer(
        f"InstanceNorm{_n}",
        "num_features: i, eps: s = 1e-05, momentum: s = 0.1, affine: b = False, track_running_stats: b = False",
        "num_features, eps, momentum, affine, track_running_stats",
    )
    _layer(f"MaxPool{_n}", _MAX_POOL, "kernel_size, stride, padding, dilation, return_indices, ceil_mode")
    _layer(f"AdaptiveAvgPool{_n}", "output_size", "output_size")
    _layer(f"AdaptiveMaxPool{_n}", "output_size: I, return_indices: b = False", "output_size, return_indices")
    _layer(f"Dropout{_n}", "p: s = 0.5, inplace: b = False", "p, inplace=inplace")
    _layer(f"ConstantPad{_n}", "padding: I, value: s", "padding, value")
_layer("AvgPool1d", _AVG_POOL, "kernel_size, stride, padding, ceil_mode, count_include_pad")
_layer("AvgPool2d AvgPool3d", f"{_AVG_POOL}, divisor_override: i = None", "kernel_size, stride, padding, ceil_mode, count_include_pad")
_layer("Dropout", "p: s = 0.5, inplace: b = False", "p, inplace=inplace")
_layer("ReflectionPad1d ReflectionPad2d ReplicationPad1d ReplicationPad2d ZeroPad2d", "padding: I", "padding")
_layer(
    "LayerNorm",
    "normalized_shape: I, eps: s = 1e-05, elementwise_affine: b = True, bias: b = True",
    "normalized_shape, eps, elementwise_affine",
)
_layer("GroupNorm", "num_groups: i, num_channels: i, eps: s = 1e-05, affine: b = True", "num_groups, num_channels, eps, affine")
# PyTorch's default is the machine epsilon of the input's dtype, which OneFlow cannot be asked for.
_layer("RMSNorm", "normalized_shape: I, eps: s, elementwise_affine: b = True", "normalized_shape, eps, elementwise_affine")
_layer(
    "Embedding",
    "num_embeddings: i, embedding_dim: i, padding_idx: i = None, max_norm=None, norm_type: s = 2.0, scale_grad_by_freq: b = False,"
    " sparse: b = False",
    "num_embeddings, embedding_dim, padding_idx",
)
_layer("ReLU ReLU6 SELU SiLU Mish Hardswish Hardsigmoid", "inplace: b = False", "inplace=inplace")
_layer("Sigmoid Tanh LogSigmoid Softsign", "", "")
_layer("GELU", "approximate: S = 'none'", "approximate")
_layer("LeakyReLU", "negative_slope: s = 0.01, inplace: b = False", "negative_slope, inplace=inplace")
_layer("ELU CELU", "alpha: s = 1.0, inplace: b = False", "alpha, inplace=inplace")
_layer("Hardtanh", "min_val: s = -1.0, max_val: s = 1.0, inplace: b = False", "min_val, max_val, inplace=inplace")
_layer("Hardshrink Softshrink", "lambd: s = 0.5", "lambd")
_layer("Softplus", "beta: s = 1.0, threshold: s = 20.0", "beta, threshold")
_layer("Threshold", "threshold: s, value: s, inplace: b = False", "threshold, value")
_layer("GLU", "dim: i = -1", "dim")
_layer("Softmax LogSoftmax", "dim: i = None", "dim")
_layer("PReLU", "num_parameters: i = 1, init: s = 0.25", "num_parameters, init")
_layer("PixelShuffle", "upscale_factor: i", "upscale_factor")
_layer(
    "Upsample",
    "size=None, scale_factor=None, mode: S = 'nearest', align_corners=None, recompute_scale_factor=None",
    "size, scale_factor, mode, align_corners",
)
_layer("UpsamplingNearest2d UpsamplingBilinear2d", "size=None, scale_factor=None", "size, scale_factor")
_layer("Unfold", "kernel_size: I, dilation: I = 1, padding: I = 0, stride: I = 1", "kernel_size, dilation, padding, stride")
_layer(
    "Fold",
    "output_size: I, kernel_size: I, dilation: I = 1, padding: I = 0, stride: I = 1",
    "output_size, kernel_size, dilation, padding, stride",
)
_layer("LSTM GRU", _RNN, _RNN_ARGS)
_layer(
    "RNN",
    f"{_RNN.replace(', bias:', ', nonlinearity: S = ' + repr('tanh') + ', bias:')}",
    "input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, nonlinearity=nonlinearity",
)
_layer("LSTMCell GRUCell", "input_size: i, hidden_size: i, bias: b = True", "input_size, hidden_size, bias")
_layer("RNNCell", "input_size: i, hidden_size: i, bias: b = True, nonlinearity: S = 'tanh'", "input_size, hidden_size, bias, nonlinearity")
_layer("MSELoss L1Loss", _REDUCTION, "reduction")
_layer("SmoothL1Loss", f"{_REDUCTION}, beta: s = 1.0", "reduction, beta")
_layer("KLDivLoss", f"{_REDUCTION}, log_target: b = False", "reduction, log_target")
_layer("BCELoss", f"weight: T = None, {_REDUCTION}", "weight, reduction")
_layer("BCEWithLogitsLoss", f"weight: T = None, {_REDUCTION}, pos_weight: T = None", "weight, reduction, pos_weight")
_layer("NLLLoss", f"weight: T = None, {_CLASSES}", "weight, ignore_index, reduction")
_layer("CrossEntropyLoss", f"weight: T = None, {_CLASSES}, label_smoothing: s = 0.0", "weight, ignore_index, reduction, label_smoothing")
_layer("MarginRankingLoss", f"margin: s = 0.0, {_REDUCTION}", "margin, reduction")
_layer(
    "TripletMarginLoss",
    f"margin: s = 1.0, p: s = 2.0, eps: s = 1e-06, swap: b = False, {_REDUCTION}",
    "margin, p, eps, swap, reduction=reduction",
)
_layer("CosineSimilarity", "dim: i = 1, eps: s = 1e-08", "dim, eps")
_layer("PairwiseDistance", "p: s = 2.0, eps: s = 1e-06, keepdim: b = False", "p, eps, keepdim")

# Classes of torch.nn that OneFlow 0.9.0 does not have; a test asks OneFlow itself.
_NAMES = """
AdaptiveLogSoftmaxWithLoss AlphaDropout Bilinear ChannelShuffle CircularPad1d CircularPad2d CircularPad3d CosineEmbeddingLoss
CrossMapLRN2d EmbeddingBag FeatureAlphaDropout FractionalMaxPool2d FractionalMaxPool3d GaussianNLLLoss HingeEmbeddingLoss HuberLoss
LPPool1d LPPool2d LPPool3d LocalResponseNorm MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss MultiheadAttention
PixelUnshuffle PoissonNLLLoss RReLU ReflectionPad3d ReplicationPad3d SoftMarginLoss Softmax2d Softmin Tanhshrink Transformer
TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer TripletMarginWithDistanceLoss Unflatten ZeroPad1d
ZeroPad3d
"""
ABSENT_LAYERS = frozenset(_NAMES.split())

# Classes whose result depends on the mode.
_MODAL = ("BatchNorm", "InstanceNorm", "Dropout", "LSTM", "GRU", "RNN")
_RANDOM = ("Dropout",)


def layers() -> Mapping[str, Form]:
    """How each torch.nn class is built in OneFlow, by class name."""
    return _FORMS


def module_plan(
    cls: str,
    ctor_args: tuple[Expr, ...],
    ctor_kwargs: Mapping[str, Expr],
    *,
    training: bool,
    state: Mapping[str, Operand],
    args: tuple[Expr, ...],
    kwargs: Mapping[str, Expr],
) -> Plan:
    """Build the layer, load its state, set its mode, call it.

    Raises OneFlowUnsupported for a class or constructor argument that OneFlow does not have.
    """
    name = cls.rpartition(".")[2]
    candidate = _FORMS.get(name)
    if candidate is None and name in ABSENT_LAYERS:
        raise OneFlowUnsupported("missing", f"OneFlow 0.9.0 has no nn.{name}")
    if candidate is None:
        raise OneFlowUnsupported("untranslated", f"there is no adapter for {cls}")
    if training and name.startswith(_RANDOM):
        raise OneFlowUnsupported("untranslated", f"{cls} in training mode is random and has no reference value")
    named = {key: item for key, item in ctor_kwargs.items() if key not in ("device", "dtype")}
    bound = bind(candidate.signature, ctor_args, named)
    if isinstance(bound, str):
        raise OneFlowUnsupported("signature", f"{cls} is not offered with these arguments ({bound})")
    steps: list[tuple[str, Expr]] = [("module", apply(f"nn.{name}", candidate, bound).result)]
    module = Local("module")
    floats = {operand.dtype for operand in state.values() if is_float(operand.dtype)}
    if floats - {"float32"}:
        steps.append(("", Invocation(".to", (module, _one_dtype(cls, floats)))))
    if state:
        steps.append(("", Invocation(".load_state_dict", (module, dict(state)))))
    if not training and name.startswith(_MODAL):
        steps.append(("", Invocation(".eval", (module,))))
    return Plan(Invocation("()", (module, *args), dict(kwargs)), tuple(steps))


def _one_dtype(cls: str, floats: set[str]) -> Expr:
    if len(floats) > 1:
        raise OneFlowUnsupported("untranslated", f"{cls} with parameters of {', '.join(sorted(floats))}")
    return FlowDType(next(iter(floats)))
