"""Observing ranges and faking quantization, as PyTorch does it: the same values, the same gradients."""

from __future__ import annotations

from typing import Any

import oneflow

# Ranges narrower than this are taken for rounding noise; PyTorch's observers use the same.
_EPSILON = 1.1920928955078125e-07


class _Pretend(oneflow.autograd.Function):  # type: ignore[misc]
    """The second argument for the first, with the gradient let through where the third is 1."""

    @staticmethod
    def forward(ctx: Any, real: Any, pretended: Any, inside: Any) -> Any:
        ctx.save_for_backward(inside)
        return pretended

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (inside,) = ctx.saved_tensors
        return gradient * inside, oneflow.zeros_like(gradient), oneflow.zeros_like(gradient)


def quantize(values: Any, scale: Any, zero_point: Any, low: int = -128, high: int = 127, *, axis: int | None = None) -> Any:
    """The integers, as int8 or, where they do not fit, int32; `scale` and `zero_point` are scalars, or one for each channel."""
    integers = oneflow.clamp(_integers(values, scale, zero_point, axis), low, high)
    return integers.to(oneflow.int8 if low >= -128 and high <= 127 else oneflow.int32)


def dequantize(integers: Any, scale: Any, zero_point: Any, *, axis: int | None = None) -> Any:
    """The float32 values behind integers."""
    values = integers.to(oneflow.float32)
    return (values - _channels(zero_point, values, axis)) * _channels(scale, values, axis)


def fake_quantize(values: Any, scale: Any, zero_point: Any, low: int = -128, high: int = 127, *, axis: int | None = None) -> Any:
    """`values` rounded to what integers of `low` to `high` can say, as PyTorch's fake_quantize_per_tensor_affine does.

    With `axis`, scale and zero point are tensors with one element a channel of that dim, as for
    fake_quantize_per_channel_affine. The gradient passes where the integer was in range. float32 only.
    """
    with oneflow.no_grad():
        integers = _integers(values, scale, zero_point, axis)
        inside = oneflow.logical_and(integers >= low, integers <= high).to(values.dtype)
        clamped = oneflow.clamp(integers, low, high)
        pretended = (clamped - _channels(zero_point, values, axis)) * _channels(scale, values, axis)
    return _Pretend.apply(values, pretended, inside)


def _integers(values: Any, scale: Any, zero_point: Any, axis: int | None) -> Any:
    """Before they are clamped, as floats: rounded to even, by the reciprocal of the scale, since that is how PyTorch has it."""
    inverse = 1.0 / _channels(scale, values, axis)
    return oneflow.round(values * inverse) + _channels(zero_point, values, axis)


def _channels(per_channel: Any, values: Any, axis: int | None) -> Any:
    tensor = per_channel if isinstance(per_channel, oneflow.Tensor) else oneflow.tensor(per_channel)
    tensor = tensor.to(values.dtype)
    if axis is None:
        return tensor
    return tensor.reshape(*(values.shape[dim] if dim == axis % values.dim() else 1 for dim in range(values.dim())))


class MinMaxObserver(oneflow.nn.Module):  # type: ignore[misc]
    """Remembers the least and the greatest element that it has seen, of all or of each channel of `axis`."""

    def __init__(self, low: int = -128, high: int = 127, *, symmetric: bool = False, axis: int | None = None, channels: int = 1) -> None:
        super().__init__()
        self.low, self.high, self.symmetric, self.axis = low, high, symmetric, axis
        size = (channels,) if axis is not None else ()
        self.register_buffer("least", oneflow.zeros(size, dtype=oneflow.float32))
        self.register_buffer("greatest", oneflow.zeros(size, dtype=oneflow.float32))

    def forward(self, values: Any) -> Any:
        """The values themselves, after a look at them."""
        with oneflow.no_grad():
            least, greatest = values.detach(), values.detach()
            if self.axis is None:
                least, greatest = least.min(), greatest.max()
            else:
                dims = [dim for dim in range(values.dim()) if dim != self.axis % values.dim()]
                least, greatest = oneflow.amin(least, dims), oneflow.amax(greatest, dims)
            self.least.copy_(oneflow.minimum(self.least, least))
            self.greatest.copy_(oneflow.maximum(self.greatest, greatest))
        return values

    def parameters_of(self) -> tuple[Any, Any]:
        """Scale and zero point, both float32 tensors, by PyTorch's formulas; zero is always a value that can be said."""
        with oneflow.no_grad():
            steps = float(self.high - self.low)
            if self.symmetric:
                scale = oneflow.maximum(-self.least, self.greatest) / (steps / 2)
                return oneflow.clamp(scale, min=_EPSILON), oneflow.zeros_like(scale)
            scale = oneflow.clamp((self.greatest - self.least) / steps, min=_EPSILON)
            zero_point = oneflow.clamp(self.low - oneflow.round(self.least / scale), self.low, self.high)
            return scale, zero_point


class FakeQuantize(oneflow.nn.Module):  # type: ignore[misc]
    """Observes what passes while in training mode, and fakes its quantization always."""

    def __init__(self, observer: MinMaxObserver) -> None:
        super().__init__()
        self.observer = observer

    def forward(self, values: Any) -> Any:
        """`values`, fake-quantized by what was observed so far."""
        if self.training:
            self.observer(values)
        scale, zero_point = self.observer.parameters_of()
        return fake_quantize(values, scale, zero_point, self.observer.low, self.observer.high, axis=self.observer.axis)
