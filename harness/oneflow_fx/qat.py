"""Quantization-aware training by rewriting: fake-quantize nodes go in, the module is trained, integers come out."""

from __future__ import annotations

from typing import Any

import oneflow
import onefx

from harness.oneflow_fx.quantizing import FakeQuantize, MinMaxObserver, dequantize, quantize

_CONVOLUTIONS = {
    oneflow.nn.Conv1d: oneflow.nn.functional.conv1d,
    oneflow.nn.Conv2d: oneflow.nn.functional.conv2d,
    oneflow.nn.Conv3d: oneflow.nn.functional.conv3d,
}


class QuantizedWeight(oneflow.nn.Module):  # type: ignore[misc]
    """A weight that is kept as integers."""

    def __init__(self, integers: Any, scale: Any, zero_point: Any, axis: int | None) -> None:
        super().__init__()
        self.axis = axis
        self.register_buffer("integers", integers)
        self.register_buffer("scale", scale)
        self.register_buffer("zero_point", zero_point)

    def forward(self) -> Any:
        """The float32 weight."""
        return dequantize(self.integers, self.scale, self.zero_point, axis=self.axis)


class QuantizedActivation(oneflow.nn.Module):  # type: ignore[misc]
    """Takes its input through integers, with the range that was observed in training."""

    def __init__(self, scale: Any, zero_point: Any, low: int, high: int) -> None:
        super().__init__()
        self.low, self.high = low, high
        self.register_buffer("scale", scale)
        self.register_buffer("zero_point", zero_point)

    def forward(self, values: Any) -> Any:
        """What integers can say of `values`."""
        return dequantize(quantize(values, self.scale, self.zero_point, self.low, self.high), self.scale, self.zero_point)


def prepare_qat(module: onefx.GraphModule, *, bits: int = 8) -> int:
    """Fake-quantize the input and the weight of every convolution and linear layer, in place; how many layers.

    Inputs per tensor with a zero point, weights per output channel and symmetric. Layers with padding other than zeros are
    left alone. The module is linted, recompiled and put into training mode.
    """
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    layers = dict(module.named_modules())
    seen: dict[Any, Any] = {}  # the fake-quantized form of what several layers read
    count = 0
    for node in list(module.graph.nodes):
        layer = layers.get(node.target) if node.op == "call_module" else None
        if layer is None or not _is_quantizable(layer) or len(node.args) != 1:
            continue
        source = node.args[0]
        if source not in seen:
            module.add_module(f"{node.name}_input_fake", FakeQuantize(MinMaxObserver(low, high)))
            with module.graph.inserting_before(node):
                seen[source] = module.graph.call_module(f"{node.name}_input_fake", (source,))
        observer = MinMaxObserver(low, high, symmetric=True, axis=0, channels=layer.weight.shape[0])
        module.add_module(f"{node.name}_weight_fake", FakeQuantize(observer))
        with module.graph.inserting_before(node):
            weight = module.graph.call_module(f"{node.name}_weight_fake", (module.graph.get_attr(f"{node.target}.weight"),))
            bias = module.graph.get_attr(f"{node.target}.bias") if layer.bias is not None else None
            new = module.graph.call_function(*_call(layer, seen[source], weight, bias))
        node.replace_all_uses_with(new)
        module.graph.erase_node(node)
        count += 1
    module.graph.lint()
    module.recompile()
    module.train()
    return count


def convert(module: onefx.GraphModule) -> int:
    """Turn a prepared module into one that keeps integers for weights and frozen ranges for inputs; how many of both.

    In place, as before. In eval mode the module computes what the prepared one does.
    """
    layers = dict(module.named_modules())
    count = 0
    for node in list(module.graph.nodes):
        fake = layers.get(node.target) if node.op == "call_module" else None
        if not isinstance(fake, FakeQuantize):
            continue
        source, observer = node.args[0], fake.observer
        scale, zero_point = observer.parameters_of()
        name = node.target.replace("_fake", "_quantized")
        if source.op == "get_attr" and node.target.endswith("_weight_fake"):
            with oneflow.no_grad():
                integers = quantize(_get(module, source.target), scale, zero_point, observer.low, observer.high, axis=observer.axis)
            new_layer: Any = QuantizedWeight(integers, scale, zero_point, observer.axis)
            arguments: tuple[Any, ...] = ()
        else:
            new_layer = QuantizedActivation(scale, zero_point, observer.low, observer.high)
            arguments = (source,)
        module.add_module(name, new_layer)
        with module.graph.inserting_before(node):
            new = module.graph.call_module(name, arguments)
        node.replace_all_uses_with(new)
        module.graph.erase_node(node)
        if not arguments and not source.users:
            module.graph.erase_node(source)
            _delete(module, source.target)
        count += 1
    module.graph.lint()
    module.delete_all_unused_submodules()
    module.recompile()
    module.eval()
    return count


def _is_quantizable(layer: Any) -> bool:
    if type(layer) in _CONVOLUTIONS:
        return bool(getattr(layer, "padding_mode", "zeros") == "zeros")
    return type(layer) is oneflow.nn.Linear


def _call(layer: Any, source: Any, weight: Any, bias: Any) -> tuple[Any, tuple[Any, ...]]:
    """The function behind a layer, and its arguments."""
    if type(layer) is oneflow.nn.Linear:
        return oneflow.nn.functional.linear, (source, weight, bias)
    arguments = (source, weight, bias, layer.stride, layer.padding, layer.dilation, layer.groups)
    return _CONVOLUTIONS[type(layer)], arguments


def _get(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _delete(module: Any, path: str) -> None:
    *parents, name = path.split(".")
    for parent in parents:
        module = getattr(module, parent)
    delattr(module, name)
