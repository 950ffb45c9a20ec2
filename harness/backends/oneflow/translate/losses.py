"""Losses and distances."""

from __future__ import annotations

from types import SimpleNamespace

from harness.backends.oneflow.translate.plan import Expr
from harness.backends.oneflow.translate.registry import Adapt, form, op, refuse, said

_F = "oneflow.nn.functional"
_REDUCTION = "size_average=None, reduce=None, reduction: S = 'mean'"


def _aten(template: str) -> Adapt:
    """A template whose `how` is aten's number for the reduction, by name."""

    def adapt(a: SimpleNamespace) -> Expr:
        if a.reduction not in (0, 1, 2):
            raise refuse(a.op, f"reduction={a.reduction!r}")
        return said(template, {**vars(a), "how": ("none", "mean", "sum")[a.reduction]})

    return adapt


op("aten:mse_loss aten:l1_loss", form("input: T, target: T, reduction: i = 1", lambda a: _aten(f"{_F}.{a.op}(input, target, how)")(a)))
op(
    "aten:smooth_l1_loss",
    form("input: T, target: T, reduction: i = 1, beta: s = 1.0", _aten(f"{_F}.smooth_l1_loss(input, target, beta, how)")),
)
op(
    "aten:kl_div",
    form("input: T, target: T, reduction: i = 1, *, log_target: b = False", _aten(f"{_F}.kl_div(input, target, log_target, how)")),
)
op(
    "aten:cross_entropy_loss",
    form(
        "input: T, target: T, weight: T = None, reduction: i = 1, ignore_index: i = -100, label_smoothing: s = 0.0",
        _aten(f"{_F}.cross_entropy(input, target, weight, ignore_index, how, label_smoothing)"),
    ),
)
op(
    "aten:binary_cross_entropy",
    form("input: T, target: T, weight: T = None, reduction: i = 1", _aten(f"{_F}.binary_cross_entropy(input, target, weight, how)")),
)
op(
    "aten:binary_cross_entropy_with_logits",
    form(
        "input: T, target: T, weight: T = None, pos_weight: T = None, reduction: i = 1",
        _aten(f"{_F}.binary_cross_entropy_with_logits(input, target, weight, pos_weight, how)"),
    ),
)

op("mse_loss l1_loss", form(f"input: T, target: T, {_REDUCTION}", f"{_F}.{{}}(input, target, reduction)"))
op(
    "smooth_l1_loss",
    form(f"input: T, target: T, {_REDUCTION}, beta: s = 1.0", f"{_F}.smooth_l1_loss(input, target, beta, reduction)"),
)
op(
    "kl_div",
    form(f"input: T, target: T, {_REDUCTION}, log_target: b = False", f"{_F}.kl_div(input, target, log_target, reduction)"),
)
op(
    "cross_entropy",
    form(
        "input: T, target: T, weight: T = None, size_average=None, ignore_index: i = -100, reduce=None, reduction: S = 'mean',"
        " label_smoothing: s = 0.0",
        f"{_F}.cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)",
    ),
)
op(
    "binary_cross_entropy",
    form(f"input: T, target: T, weight: T = None, {_REDUCTION}", f"{_F}.binary_cross_entropy(input, target, weight, reduction)"),
)
op(
    "binary_cross_entropy_with_logits",
    form(
        f"input: T, target: T, weight: T = None, {_REDUCTION}, pos_weight: T = None",
        f"{_F}.binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction)",
    ),
)
op(
    "triplet_margin_loss",
    form(
        f"anchor: T, positive: T, negative: T, margin: s = 1.0, p: s = 2, eps: s = 1e-06, swap: b = False, {_REDUCTION}",
        f"{_F}.triplet_margin_loss(anchor, positive, negative, margin=margin, p=p, eps=eps, swap=swap, reduction=reduction)",
    ),
)
op("cosine_similarity", form("x1: T, x2: T, dim: i = 1, eps: s = 1e-08", f"{_F}.cosine_similarity(x1, x2, dim, eps)"))
op(
    "pairwise_distance",
    form("x1: T, x2: T, p: s = 2.0, eps: s = 1e-06, keepdim: b = False", f"{_F}.pairwise_distance(x1, x2, p, eps, keepdim)"),
)
