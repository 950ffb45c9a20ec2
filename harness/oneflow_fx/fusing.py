"""Fusing a convolution with the batch norm behind it, for inference."""

from __future__ import annotations

import copy
from typing import Any

import oneflow
import onefx

# The batch norm that fits each convolution, by class; transposed convolutions hold their outputs in the second dim.
_PAIRS = {
    oneflow.nn.Conv1d: oneflow.nn.BatchNorm1d,
    oneflow.nn.Conv2d: oneflow.nn.BatchNorm2d,
    oneflow.nn.Conv3d: oneflow.nn.BatchNorm3d,
}


def fuse_conv_bn(module: onefx.GraphModule) -> int:
    """Fold every batch norm into the convolution before it, in place; how many there were.

    Only where both are in eval mode, the norm has statistics, and nobody else reads the convolution's result or calls either
    of them again: those would see other weights. The module is linted and recompiled.
    """
    layers = dict(module.named_modules())
    calls: dict[str, int] = {}
    for node in module.graph.nodes:
        if node.op == "call_module":
            calls[node.target] = calls.get(node.target, 0) + 1
    count = 0
    for node in list(module.graph.nodes):
        conv_node = _before(node, layers)
        if conv_node is None or calls[node.target] > 1 or calls[conv_node.target] > 1:
            continue
        conv, norm = layers[conv_node.target], layers[node.target]
        _put(module, conv_node.target, fused(conv, norm))
        node.replace_all_uses_with(conv_node)
        module.graph.erase_node(node)
        count += 1
    module.graph.lint()
    module.delete_all_unused_submodules()
    module.recompile()
    return count


def _before(node: Any, layers: dict[str, Any]) -> Any:
    """The node of the convolution that a batch norm may be folded into; None where there is none."""
    if node.op != "call_module" or len(node.args) != 1 or not isinstance(node.args[0], onefx.Node):
        return None
    before = node.args[0]
    if before.op != "call_module" or len(before.users) != 1:
        return None
    conv, norm = layers[before.target], layers[node.target]
    if _PAIRS.get(type(conv)) is not type(norm) or conv.training or norm.training or norm.running_mean is None:
        return None
    return before


def fused(conv: Any, norm: Any) -> Any:
    """A convolution that computes what `conv` and then `norm` do in eval mode."""
    result = copy.deepcopy(conv)
    with oneflow.no_grad():
        scale = (norm.running_var + norm.eps).rsqrt()
        if norm.weight is not None:
            scale = scale * norm.weight
        shift = -norm.running_mean * scale
        if norm.bias is not None:
            shift = shift + norm.bias
        if conv.bias is not None:
            shift = shift + conv.bias * scale
        result.weight = oneflow.nn.Parameter(conv.weight * scale.reshape(-1, *[1] * (conv.weight.dim() - 1)))
        result.bias = oneflow.nn.Parameter(shift)
    return result


def _put(module: Any, path: str, layer: Any) -> None:
    *parents, name = path.split(".")
    for parent in parents:
        module = getattr(module, parent)
    setattr(module, name, layer)
