"""One canonical operator name for all spellings of an operator: signatures, tolerances and support tables speak it.

`torch.nn.ReLU`, `torch.nn.functional.relu`, `torch.relu`, the method `relu` and `aten.relu.default` are all `relu`. What
writes into its argument keeps PyTorch's trailing underscore: `add_`, `relu_`, also for `relu(x, inplace=True)`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from harness.model.program import Node, Program
from harness.model.values import Value

# Python's operators, by operator.NAME and by __NAME__; the in-place ones are derived.
_PYTHON = {
    "and_": "bitwise_and",
    "or_": "bitwise_or",
    "xor": "bitwise_xor",
    "inv": "bitwise_not",
    "invert": "bitwise_not",
    "not_": "logical_not",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
    "truediv": "div",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pos": "positive",
}
_IN_PLACE = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")

# Functions of one meaning under two names, in PyTorch's own documentation.
_ALIASES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "clip": "clamp",
    "concat": "cat",
    "concatenate": "cat",
    "divide": "div",
    "fix": "trunc",
    "ger": "outer",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "moveaxis": "movedim",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "row_stack": "vstack",
    "subtract": "sub",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "true_divide": "div",
    "orgqr": "linalg_householder_product",
    "det": "linalg_det",
    "slogdet": "linalg_slogdet",
    "inverse": "linalg_inv",
    "matrix_power": "linalg_matrix_power",
    "pinverse": "linalg_pinv",
    "cholesky": "linalg_cholesky",
    "chain_matmul": "linalg_multi_dot",
    # torch.special and torch.linalg, after their prefix was joined on
    "special_digamma": "digamma",
    "special_erf": "erf",
    "special_erfc": "erfc",
    "special_erfinv": "erfinv",
    "special_exp2": "exp2",
    "special_expit": "sigmoid",
    "special_expm1": "expm1",
    "special_gammaln": "lgamma",
    "special_log1p": "log1p",
    "special_log_softmax": "log_softmax",
    "special_logit": "logit",
    "special_logsumexp": "logsumexp",
    "special_psi": "digamma",
    "special_round": "round",
    "special_sinc": "sinc",
    "special_softmax": "softmax",
    "special_xlogy": "xlogy",
    "linalg_matmul": "matmul",
    "linalg_diagonal": "diagonal",
    # Tensor methods that are spelled as a verb of another function
    "nelement": "numel",
    "ndimension": "dim",
    "__getitem__": "getitem",
    "__setitem__": "setitem",
}

# aten's private and decomposed names for what users know under another.
_ATEN = {
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
    "_unsafe_view": "view",
    "_unsafe_index": "index",
    "_adaptive_avg_pool2d": "adaptive_avg_pool2d",
    "_adaptive_avg_pool3d": "adaptive_avg_pool3d",
    "_local_scalar_dense": "item",
    "log_sigmoid": "logsigmoid",
    "native_dropout": "dropout",
    "col2im": "fold",
    "constant_pad_nd": "pad",
    "reflection_pad1d": "pad",
    "reflection_pad2d": "pad",
    "reflection_pad3d": "pad",
    "replication_pad1d": "pad",
    "replication_pad2d": "pad",
    "replication_pad3d": "pad",
}

# torch.nn classes whose functional is not their name in snake case without trailing dims.
_MODULES = {
    "AlphaDropout": "alpha_dropout",
    "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "CTCLoss": "ctc_loss",
    "CrossEntropyLoss": "cross_entropy",
    "GaussianNLLLoss": "gaussian_nll_loss",
    "KLDivLoss": "kl_div",
    "L1Loss": "l1_loss",
    "LPPool1d": "lp_pool1d",
    "LPPool2d": "lp_pool2d",
    "LPPool3d": "lp_pool3d",
    "LogSigmoid": "logsigmoid",
    "MSELoss": "mse_loss",
    "MultiLabelMarginLoss": "multilabel_margin_loss",
    "MultiLabelSoftMarginLoss": "multilabel_soft_margin_loss",
    "MultiheadAttention": "multi_head_attention",
    "NLLLoss": "nll_loss",
    "PoissonNLLLoss": "poisson_nll_loss",
    "PReLU": "prelu",
    "RMSNorm": "rms_norm",
    "RReLU": "rrelu",
    "SmoothL1Loss": "smooth_l1_loss",
    "Softmax2d": "softmax",
    "Unfold": "im2col",
    "Upsample": "interpolate",
    "UpsamplingBilinear2d": "interpolate",
    "UpsamplingNearest2d": "interpolate",
}
_MODULE_RULES = (
    (re.compile(r"^(?:Lazy)?(?:Sync)?BatchNorm(?:\dd)?$"), "batch_norm"),
    (re.compile(r"^(?:Lazy)?InstanceNorm\dd$"), "instance_norm"),
    (re.compile(r"^(?:Constant|Zero|Reflection|Replication|Circular)Pad\dd$"), "pad"),
)
# A lower-case letter or digit before an upper-case one, or the last of a run of capitals before a word.
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z][a-z])|(?<=[A-Z])(?=[A-Z][a-z]{2})|(?<=[a-z]{2})(?=[A-Z])")

# The position of `inplace` among positional arguments: after the input for functions, in the constructor for modules.
_INPLACE_POSITION = {
    "celu": (2, 1),
    "dropout": (3, 1),
    "elu": (2, 1),
    "hardsigmoid": (1, 0),
    "hardswish": (1, 0),
    "hardtanh": (3, 2),
    "leaky_relu": (2, 1),
    "mish": (1, 0),
    "relu": (1, 0),
    "relu6": (1, 0),
    "rrelu": (4, 2),
    "selu": (1, 0),
    "silu": (1, 0),
    "threshold": (3, 2),
}


def canonical(node: Node, program: Program) -> str:
    """The canonical operator name of a node; placeholders and outputs are named by their opcode."""
    if node.op in ("placeholder", "output"):
        return node.op
    if node.op == "call_module":
        recipe = program.modules[node.target]
        return _in_place(canonical_target(node.op, node.target, recipe.cls), recipe.args, recipe.kwargs, 1)
    return _in_place(canonical_target(node.op, node.target), node.args, node.kwargs, 0)


@functools.lru_cache(maxsize=4096)
def canonical_target(op: str, target: str, cls: str | None = None) -> str:
    """The canonical operator name of an opcode and target; `cls` is the class of a call_module.

    An operator of another library keeps its namespace: `torchvision.nms`. Whether an argument asks for in-place work is
    not seen here; `canonical` sees it.
    """
    if op == "call_module":
        return _module_name(cls if cls is not None else target)
    if op == "call_method":
        return _function_name(target)
    if op != "call_function":
        return op
    namespace, _, name = target.rpartition(".")
    if namespace in ("operator", "_operator"):
        return _python_name(name.strip("_") or name if name.startswith("__") else name)
    if target.startswith("torch.ops."):
        target = target.removeprefix("torch.ops.")
        namespace, _, name = target.rpartition(".")
    if target.startswith("aten.") and len(target) > 5:
        return _function_name(target.split(".")[1], aten=True)
    if namespace in ("torch.linalg", "torch.special", "torch.fft"):
        return _function_name(f"{namespace.removeprefix('torch.')}_{name}")
    if target == "torch.nn.functional.unfold":
        return "im2col"  # Tensor.unfold is another operator
    if namespace in ("torch.nn.functional", "torch._C._nn", "torch", "torch.Tensor", "torch._C._TensorBase", "torch._VF", ""):
        return _function_name(name)
    return _foreign_name(target)


def is_in_place(name: str) -> bool:
    """Whether the canonical `name` writes into its first argument."""
    return name == "setitem" or (name.endswith("_") and not name.endswith("__"))


def _python_name(name: str) -> str:
    if name.startswith("i") and name[1:] in _IN_PLACE:
        base = name[1:]
        return _python_name(f"{base}_" if base in ("and", "or") else base) + "_"
    if name == "and" or name == "or":
        name += "_"
    return _PYTHON.get(name, name)


def _function_name(name: str, *, aten: bool = False) -> str:
    if name in _ALIASES:
        return _ALIASES[name]
    if name.startswith("__") and name.endswith("__") and len(name) > 4:
        return _dunder_name(name[2:-2])
    if aten and name in _ATEN:
        return _ATEN[name]
    if name.endswith("_") and not name.startswith("_") and not name.endswith("__"):
        return _function_name(name[:-1], aten=aten) + "_"
    return name


def _dunder_name(name: str) -> str:
    reflected = name[1:] if name.startswith("r") else ""
    if reflected in ("add", "mul"):
        return reflected
    if reflected in ("and", "or", "xor"):
        return _python_name(reflected)
    if reflected == "sub":
        return "rsub"
    if reflected in ("pow", "truediv", "floordiv", "mod", "matmul"):
        return _python_name(reflected)
    return _python_name(name)


def _module_name(cls: str) -> str:
    namespace, _, name = cls.rpartition(".")
    if not (namespace.startswith("torch.nn") or namespace == ""):
        return _foreign_name(cls)
    if name in _MODULES:
        return _MODULES[name]
    for pattern, operator in _MODULE_RULES:
        if pattern.match(name):
            return operator
    words = _CAMEL.sub("_", name.removeprefix("Lazy")).lower()
    return words.replace("re_lu", "relu")


def _foreign_name(target: str) -> str:
    parts = [part for part in target.split(".") if part not in ("default", "ops")]
    return f"{parts[0]}.{parts[-1]}" if len(parts) > 1 else "".join(parts) or target


def _in_place(name: str, args: tuple[Value, ...], kwargs: Mapping[str, Value], form: int) -> str:
    positions = _INPLACE_POSITION.get(name)
    if positions is None:
        return name
    inplace = kwargs.get("inplace", args[positions[form]] if len(args) > positions[form] else False)
    return f"{name}_" if inplace is True else name
